package imageproc

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
)

// Config is what a model expects of its images: the fields of a Qwen-VL
// preprocessor_config.json. Pixels are counted after resizing.
type Config struct {
	PatchSize         int // pixels along an edge of a patch
	MergeSize         int // patches along an edge of a merged token
	TemporalPatchSize int // frames in a patch; a still image is repeated
	MinPixels         int
	MaxPixels         int
	Mean, Std         [3]float64 // of red, green, blue scaled to 0..1
}

// Factor is what the sides of a resized image are multiples of, in pixels.
func (c Config) Factor() int { return c.PatchSize * c.MergeSize }

// PatchDim is the length of a flattened patch, [C, T, P, P].
func (c Config) PatchDim() int { return 3 * c.TemporalPatchSize * c.PatchSize * c.PatchSize }

// Validate reports the first field that is out of range.
func (c Config) Validate() error {
	for _, f := range []struct {
		name          string
		v, least, top int
	}{
		{"patch_size", c.PatchSize, 1, 256},
		{"merge_size", c.MergeSize, 1, 16},
		{"temporal_patch_size", c.TemporalPatchSize, 1, 16},
		{"min_pixels", c.MinPixels, 1, 1 << 30},
		{"max_pixels", c.MaxPixels, c.MinPixels, 1 << 30},
	} {
		if f.v < f.least || f.v > f.top {
			return fmt.Errorf("%s is %d: it must be %d to %d", f.name, f.v, f.least, f.top)
		}
	}
	for i := range 3 {
		if !(c.Std[i] > 0) || math.IsInf(c.Std[i], 0) || math.IsNaN(c.Mean[i]) || math.IsInf(c.Mean[i], 0) {
			return fmt.Errorf("image_mean %v and image_std %v must be finite, the latter above 0", c.Mean, c.Std)
		}
	}
	return nil
}

// LoadConfig reads a preprocessor_config.json. Pixel bounds are min_pixels and
// max_pixels (Qwen2.5-VL) or size.shortest_edge and size.longest_edge
// (Qwen3-VL), where the former win. Steps other than bicubic resizing, /255 and
// normalisation are refused.
func LoadConfig(path string) (Config, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("load image preprocessor: %w", err)
	}
	c, err := ParseConfig(b)
	if err != nil {
		return Config{}, fmt.Errorf("load image preprocessor %q: %w", path, err)
	}
	return c, nil
}

// ParseConfig is LoadConfig on the text of the file.
func ParseConfig(text []byte) (Config, error) {
	var f struct {
		PatchSize         int       `json:"patch_size"`
		MergeSize         int       `json:"merge_size"`
		TemporalPatchSize int       `json:"temporal_patch_size"`
		MinPixels         *int      `json:"min_pixels"`
		MaxPixels         *int      `json:"max_pixels"`
		Mean              []float64 `json:"image_mean"`
		Std               []float64 `json:"image_std"`
		Size              struct {
			Shortest *int `json:"shortest_edge"`
			Longest  *int `json:"longest_edge"`
		} `json:"size"`
		Resample  *int     `json:"resample"`
		Resize    *bool    `json:"do_resize"`
		Rescale   *bool    `json:"do_rescale"`
		Normalize *bool    `json:"do_normalize"`
		Scale     *float64 `json:"rescale_factor"`
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return Config{}, err
	}
	const bicubic = 3 // PIL.Image.BICUBIC
	if f.Resample != nil && *f.Resample != bicubic {
		return Config{}, fmt.Errorf("resample is %d: only %d, bicubic, is supported", *f.Resample, bicubic)
	}
	for name, on := range map[string]*bool{"do_resize": f.Resize, "do_rescale": f.Rescale, "do_normalize": f.Normalize} {
		if on != nil && !*on {
			return Config{}, fmt.Errorf("%s is false: only true is supported", name)
		}
	}
	if f.Scale != nil && math.Abs(*f.Scale*255-1) > 1e-6 {
		return Config{}, fmt.Errorf("rescale_factor is %v: only 1/255 is supported", *f.Scale)
	}
	if len(f.Mean) != 3 || len(f.Std) != 3 {
		return Config{}, errors.New("image_mean and image_std must be three numbers each")
	}
	pick := func(first, second *int) int {
		if first != nil {
			return *first
		}
		if second != nil {
			return *second
		}
		return 0
	}
	c := Config{
		PatchSize:         f.PatchSize,
		MergeSize:         f.MergeSize,
		TemporalPatchSize: f.TemporalPatchSize,
		MinPixels:         pick(f.MinPixels, f.Size.Shortest),
		MaxPixels:         pick(f.MaxPixels, f.Size.Longest),
		Mean:              [3]float64(f.Mean),
		Std:               [3]float64(f.Std),
	}
	return c, c.Validate()
}

// maxAspect is the most by which one side may exceed the other.
const maxAspect = 200

// SmartResize returns the size to which an image is resized: sides are
// multiples of the factor, rounded half to even, the area is within the bounds
// and the aspect nearly kept. It refuses an aspect above 200.
func (c Config) SmartResize(height, width int) (h, w int, err error) {
	if height < 1 || width < 1 {
		return 0, 0, fmt.Errorf("image of %dx%d pixels is empty", width, height)
	}
	if max(height, width) > maxAspect*min(height, width) {
		return 0, 0, fmt.Errorf("image of %dx%d pixels: one side is more than %d times the other", width, height, maxAspect)
	}
	factor := float64(c.Factor())
	fh, fw := float64(height), float64(width)
	rh, rw := math.RoundToEven(fh/factor)*factor, math.RoundToEven(fw/factor)*factor
	switch {
	case rh*rw > float64(c.MaxPixels):
		shrink := math.Sqrt(fh * fw / float64(c.MaxPixels))
		rh = math.Floor(fh/shrink/factor) * factor
		rw = math.Floor(fw/shrink/factor) * factor
	case rh*rw < float64(c.MinPixels):
		grow := math.Sqrt(float64(c.MinPixels) / (fh * fw))
		rh = math.Ceil(fh*grow/factor) * factor
		rw = math.Ceil(fw*grow/factor) * factor
	}
	return int(max(rh, factor)), int(max(rw, factor)), nil
}
