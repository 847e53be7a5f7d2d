package windtunnel

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
)

var palette = [Colors]rgb{{0.86, 0.15, 0.15}, {0.15, 0.33, 0.88}, {0.13, 0.62, 0.25}, {0.97, 0.60, 0.10}, {0.56, 0.20, 0.68}, {0.10, 0.10, 0.10}}

// Layout in pixels. Entities stand on a 16-pixel grid, the size of a merged patch of the model's vision encoder.
const (
	gridPitch   = 16
	unit        = 8  // pixels a value
	rowUnit     = 12 // pixels an icon
	baseBar     = 79 // where value 0 lies
	baseLine    = 78
	baseScatter = 82
	letterTop   = 82
	axisX       = 10
)

// style is how a figure looks; it carries no meaning.
type style struct {
	ground     rgb
	grid       int // 0 none, 1 solid, 2 dashed
	gridInk    rgb
	axis       bool
	labelEvery int // axis digits at every, every other, or every third unit
	barWidth   int
	lineWidth  float64
	lineInk    rgb
	marker     shape
	radius     float64
	outlined   bool
	noise      float64
	dy         int // whole plot, pixels up
	inks       [Colors]rgb
}

func drawStyle(rng *rand.Rand) style {
	st := style{
		ground: gray(1), grid: rng.IntN(3), gridInk: gray(0.80 + 0.1*rng.Float64()), axis: rng.IntN(4) > 0, labelEvery: 1 + rng.IntN(3),
		barWidth: 8 + rng.IntN(5), lineWidth: 1 + 1.5*rng.Float64(), lineInk: gray(0.45 + 0.25*rng.Float64()),
		marker: shape(rng.IntN(int(shapes))), radius: 3.2 + rng.Float64(), outlined: rng.IntN(3) == 0, dy: rng.IntN(2),
	}
	if rng.IntN(2) == 0 {
		for i := range st.ground {
			st.ground[i] = 1 - 0.07*rng.Float64()
		}
	}
	if rng.IntN(2) == 0 {
		st.noise = 0.02 * rng.Float64()
	}
	for c := range st.inks {
		for i := range st.inks[c] {
			st.inks[c][i] = min(1, max(0, palette[c][i]+0.07*(2*rng.Float64()-1)))
		}
	}
	return st
}

// Render draws the figure, Width x Height pixels, in a style drawn from rng.
func (s Scene) Render(rng *rand.Rand) *image.RGBA {
	st := drawStyle(rng)
	c := newCanvas(st.ground)
	switch s.Kind {
	case Bar:
		s.renderBars(c, st, rng)
	case Line:
		s.renderLine(c, st, rng)
	case Scatter:
		s.renderScatter(c, st, rng)
	default:
		s.renderRows(c, st, rng)
	}
	return c.image(rng, st.noise)
}

// PNG encodes the figure.
func (s Scene) PNG(rng *rand.Rand) ([]byte, error) {
	var b bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestSpeed}
	if err := encoder.Encode(&b, s.Render(rng)); err != nil {
		return nil, fmt.Errorf("encode figure: %w", err)
	}
	return b.Bytes(), nil
}

func jitter(rng *rand.Rand, by int) int { return rng.IntN(2*by+1) - by }

func center(column int) int { return gridPitch*column + gridPitch/2 }

// frame draws the grid, the value axis with its ticks and digits, and the base line.
func (c *canvas) frame(st style, base, right int) {
	for v := 0; v <= MaxValue; v++ {
		y := base - unit*v
		if st.grid > 0 && v > 0 {
			for x := axisX; x < right; x++ {
				if st.grid == 1 || x%4 < 2 {
					c.set(x, y, st.gridInk, 1)
				}
			}
		}
		tick := 2
		if v%5 == 0 {
			tick = 4
		}
		c.rect(axisX-tick, y, tick, 1, gray(0.4))
		if v%st.labelEvery == 0 {
			c.digit(v, 2, y-2, gray(0.25))
		}
	}
	if st.axis {
		c.rect(axisX, base-unit*MaxValue-2, 1, unit*MaxValue+3, gray(0.4))
		c.rect(axisX, base, right-axisX, 1, gray(0.4))
	}
}

func (s Scene) right() int { return gridPitch*(len(s.Entities)+1) + 4 }

func (s Scene) renderBars(c *canvas, st style, rng *rand.Rand) {
	base := baseBar - st.dy
	c.frame(st, base, s.right())
	for i, e := range s.Entities {
		x := center(i+1) + jitter(rng, 1)
		// Three rows from the base line down show the colour of a bar of value 0.
		left, top, height := x-st.barWidth/2, base-unit*e.Value, unit*e.Value+3
		if st.outlined {
			c.rect(left-1, top-1, st.barWidth+2, height+1, gray(0.15))
		}
		c.rect(left, top, st.barWidth, height, st.inks[e.Color])
		c.letter(e.Letter, x-5, letterTop, gray(0.05))
	}
}

func (s Scene) renderLine(c *canvas, st style, rng *rand.Rand) {
	base := baseLine - st.dy
	c.frame(st, base, s.right())
	xs := make([]float64, len(s.Entities))
	for i, e := range s.Entities {
		x := center(i+1) + jitter(rng, 1)
		xs[i] = float64(x)
		c.letter(e.Letter, x-5, letterTop, gray(0.05))
	}
	y := func(i int) float64 { return float64(base-unit*s.Entities[i].Value) + 0.5 }
	for i := range xs[1:] {
		c.segment(xs[i], y(i), xs[i+1], y(i+1), st.lineWidth, st.lineInk)
	}
	for i, e := range s.Entities {
		c.marker(st.marker, xs[i], y(i), st.radius, st.inks[e.Color], gray(0.15), st.outlined)
	}
}

func (s Scene) renderScatter(c *canvas, st style, rng *rand.Rand) {
	base := baseScatter - st.dy
	c.frame(st, base, Width-1)
	for column := 1; column <= MaxColumn; column++ {
		c.rect(center(column), base, 1, 3, gray(0.4))
		c.digit(column, center(column)-1, base+5, gray(0.25))
	}
	for _, e := range s.Entities {
		x := center(e.Column) + jitter(rng, 1)
		c.marker(st.marker, float64(x)+0.5, float64(base-unit*e.Value)+0.5, st.radius+0.5, st.inks[e.Color], gray(0.15), st.outlined)
	}
}

// renderRows draws rows of icons; the letter has the row's colour, so that a row of value 0 shows it too.
func (s Scene) renderRows(c *canvas, st style, rng *rand.Rand) {
	for i, e := range s.Entities {
		y := center(i)
		if st.grid > 0 && i > 0 {
			for x := 0; x < Width; x++ {
				if st.grid == 1 || x%4 < 2 {
					c.set(x, gridPitch*i, st.gridInk, 1)
				}
			}
		}
		ink := st.inks[e.Color]
		c.letter(e.Letter, 3, y-7, ink)
		dx := jitter(rng, 1)
		for k := range e.Value {
			c.marker(st.marker, float64(22+rowUnit*k+dx), float64(y), st.radius+0.4, ink, gray(0.15), st.outlined)
		}
	}
}
