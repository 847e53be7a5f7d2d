package windtunnel

import (
	"image"
	"image/color"
	"math"
	"math/rand/v2"
)

// rgb is a colour with channels in 0..1.
type rgb [3]float64

func gray(v float64) rgb { return rgb{v, v, v} }

// canvas is a figure being drawn, in floating point so that translucent edges blend without rounding.
type canvas struct {
	pixels [Height][Width]rgb
}

func newCanvas(ground rgb) *canvas {
	c := new(canvas)
	for y := range Height {
		for x := range Width {
			c.pixels[y][x] = ground
		}
	}
	return c
}

// set blends a colour into a pixel; what lies outside is ignored.
func (c *canvas) set(x, y int, ink rgb, alpha float64) {
	if x < 0 || y < 0 || x >= Width || y >= Height {
		return
	}
	p := &c.pixels[y][x]
	for i := range p {
		p[i] += (ink[i] - p[i]) * alpha
	}
}

func (c *canvas) rect(x, y, w, h int, ink rgb) {
	for j := range h {
		for i := range w {
			c.set(x+i, y+j, ink, 1)
		}
	}
}

// fill paints where inside holds, with edges softened over 3x3 samples a pixel. inside is asked about points relative to the centre.
func (c *canvas) fill(cx, cy, radius float64, ink rgb, inside func(dx, dy float64) bool) {
	for y := int(cy - radius - 1); y <= int(cy+radius+1); y++ {
		for x := int(cx - radius - 1); x <= int(cx+radius+1); x++ {
			hits := 0
			for j := range 3 {
				for i := range 3 {
					if inside(float64(x)+(float64(i)+0.5)/3-cx, float64(y)+(float64(j)+0.5)/3-cy) {
						hits++
					}
				}
			}
			if hits > 0 {
				c.set(x, y, ink, float64(hits)/9)
			}
		}
	}
}

// segment draws a straight line of a width in pixels.
func (c *canvas) segment(x0, y0, x1, y1, width float64, ink rgb) {
	mx, my := (x0+x1)/2, (y0+y1)/2
	ux, uy := x1-x0, y1-y0
	length := math.Hypot(ux, uy)
	if length == 0 {
		return
	}
	ux, uy = ux/length, uy/length
	c.fill(mx, my, length/2+width, ink, func(dx, dy float64) bool {
		return math.Abs(dx*ux+dy*uy) <= length/2 && math.Abs(dx*uy-dy*ux) <= width/2
	})
}

// shape is a marker or icon outline.
type shape int

const (
	disc shape = iota
	square
	diamond
	triangle
	star
	shapes
)

// contains says whether a point, relative to the centre, lies in the shape of the given radius.
func (s shape) contains(dx, dy, r float64) bool {
	switch s {
	case square:
		return math.Abs(dx) <= r*0.9 && math.Abs(dy) <= r*0.9
	case diamond:
		return math.Abs(dx)+math.Abs(dy) <= r*1.15
	case triangle:
		return dy <= r*0.85 && math.Abs(dx) <= (dy+r)*0.6
	case star:
		angle := math.Mod(math.Atan2(dx, -dy)+2*math.Pi+math.Pi/5, 2*math.Pi/5) - math.Pi/5
		return math.Hypot(dx, dy) <= r*(1.1-0.55*math.Abs(angle)/(math.Pi/5))
	}
	return math.Hypot(dx, dy) <= r
}

func (c *canvas) marker(s shape, cx, cy, r float64, ink, edge rgb, outlined bool) {
	if outlined {
		c.fill(cx, cy, r+1.2, edge, func(dx, dy float64) bool { return s.contains(dx, dy, r+1) })
	}
	c.fill(cx, cy, r*1.2, ink, func(dx, dy float64) bool { return s.contains(dx, dy, r) })
}

// image rounds to 8 bits, with pixel noise of the given standard deviation.
func (c *canvas) image(rng *rand.Rand, noise float64) *image.RGBA {
	out := image.NewRGBA(image.Rect(0, 0, Width, Height))
	for y := range Height {
		for x := range Width {
			var v [3]uint8
			for i, p := range c.pixels[y][x] {
				if noise > 0 {
					p += rng.NormFloat64() * noise
				}
				v[i] = uint8(math.Round(255 * min(1, max(0, p))))
			}
			out.SetRGBA(x, y, color.RGBA{v[0], v[1], v[2], 255})
		}
	}
	return out
}
