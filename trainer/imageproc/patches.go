package imageproc

import "fmt"

// Patches are the flattened patches of one image.
type Patches struct {
	// Data is [n, C*T*P*P] in the order (t, h/m, w/m, m, m, C, T, P, P): the
	// m*m patches of a merged token follow each other.
	Data                []float32
	GridT, GridH, GridW int // patches along time, height and width
}

// N is the number of patches.
func (p Patches) N() int { return p.GridT * p.GridH * p.GridW }

// Process resizes an image as the configuration bounds it, scales and
// normalises its channels, and cuts it into patches. The still image fills all
// TemporalPatchSize frames. It returns an error for an invalid configuration,
// an empty image or one whose aspect exceeds 200.
func Process(img *RGB, cfg Config) (Patches, error) {
	if err := cfg.Validate(); err != nil {
		return Patches{}, fmt.Errorf("process image: %w", err)
	}
	if len(img.Pix) != 3*img.Width*img.Height {
		return Patches{}, fmt.Errorf("process image: %d bytes for %dx%d RGB pixels", len(img.Pix), img.Width, img.Height)
	}
	h, w, err := cfg.SmartResize(img.Height, img.Width)
	if err != nil {
		return Patches{}, fmt.Errorf("process image: %w", err)
	}
	img = Resize(img, w, h)
	p := Patches{GridT: 1, GridH: h / cfg.PatchSize, GridW: w / cfg.PatchSize}
	p.Data = make([]float32, p.N()*cfg.PatchDim())
	levels := cfg.levels()
	m, to := cfg.MergeSize, p.Data
	for by := 0; by < p.GridH; by += m {
		for bx := 0; bx < p.GridW; bx += m {
			for i := range m * m {
				cutPatch(to[:cfg.PatchDim()], img, (by+i/m)*cfg.PatchSize, (bx+i%m)*cfg.PatchSize, cfg, levels)
				to = to[cfg.PatchDim():]
			}
		}
	}
	return p, nil
}

// cutPatch writes [C, T, P, P] of the patch whose corner is (y0, x0).
func cutPatch(to []float32, img *RGB, y0, x0 int, cfg Config, levels *[3][256]float32) {
	size := cfg.PatchSize
	for c := range 3 {
		frame := to[:size*size]
		for y := range size {
			row := img.Pix[3*((y0+y)*img.Width+x0)+c:]
			for x := range size {
				frame[y*size+x] = levels[c][row[3*x]]
			}
		}
		to = to[size*size:]
		for range cfg.TemporalPatchSize - 1 {
			copy(to, frame)
			to = to[size*size:]
		}
	}
}

// levels tabulates the normalised value of each byte, in the single precision in which the reference computes it.
func (c Config) levels() *[3][256]float32 {
	var t [3][256]float32
	for ch := range 3 {
		mean, std := float32(c.Mean[ch]), float32(c.Std[ch])
		for v := range 256 {
			t[ch][v] = (float32(float64(v)*(1./255)) - mean) / std
		}
	}
	return &t
}
