package imageproc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
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

// The files of a checkpoint folder that describe its image processor: the former, or an object image_processor in the latter,
// where transformers 5 saves it.
const (
	ConfigFile    = "preprocessor_config.json"
	processorFile = "processor_config.json"
)

// LoadConfig reads the image processor of the checkpoint folder dir, as ParseConfig does. Where both files have one it
// is processor_config.json's, as in transformers.
func LoadConfig(dir string) (Config, error) {
	path := filepath.Join(dir, processorFile)
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Config{}, fmt.Errorf("load image processor: %w", err)
	}
	var f struct {
		ImageProcessor json.RawMessage `json:"image_processor"`
	}
	if err == nil {
		if err := json.Unmarshal(b, &f); err != nil {
			return Config{}, fmt.Errorf("load image processor %q: %w", path, err)
		}
	}
	if f.ImageProcessor == nil {
		path = filepath.Join(dir, ConfigFile)
		if f.ImageProcessor, err = os.ReadFile(path); err != nil {
			return Config{}, fmt.Errorf("load image processor: %w", err)
		}
	}
	c, err := ParseConfig(f.ImageProcessor)
	if err != nil {
		return Config{}, fmt.Errorf("load image processor %q: %w", path, err)
	}
	return c, nil
}

// configFields are those that say how a still image is processed. Others, such as a video's, are not looked at.
type configFields struct {
	PatchSize         *int      `json:"patch_size"`
	MergeSize         *int      `json:"merge_size"`
	TemporalPatchSize *int      `json:"temporal_patch_size"`
	MinPixels         *int      `json:"min_pixels"`
	MaxPixels         *int      `json:"max_pixels"`
	Mean              []float64 `json:"image_mean"`
	Std               []float64 `json:"image_std"`
	Size              struct {
		Shortest  *int `json:"shortest_edge"`
		Longest   *int `json:"longest_edge"`
		MinPixels *int `json:"min_pixels"`
		MaxPixels *int `json:"max_pixels"`
	} `json:"size"`
	Resample   *int     `json:"resample"`
	Resize     *bool    `json:"do_resize"`
	Rescale    *bool    `json:"do_rescale"`
	Normalize  *bool    `json:"do_normalize"`
	ConvertRGB *bool    `json:"do_convert_rgb"`
	CenterCrop *bool    `json:"do_center_crop"`
	Pad        *bool    `json:"do_pad"`
	Scale      *float64 `json:"rescale_factor"`
	Type       string   `json:"image_processor_type"`
}

// ParseConfig reads the text of a preprocessor_config.json. Bounds are min_pixels and max_pixels (Qwen2.5-VL), or
// size.shortest_edge and size.longest_edge (Qwen3-VL), which count pixels in spite of their names; the former win. Steps
// other than conversion to RGB, bicubic resizing, /255 and normalisation are refused, and so are fields that are left out,
// since what stands for them differs between releases of transformers.
func ParseConfig(text []byte) (Config, error) {
	var f configFields
	if err := json.Unmarshal(text, &f); err != nil {
		return Config{}, err
	}
	if err := f.refuseOtherSteps(); err != nil {
		return Config{}, err
	}
	if len(f.Mean) != 3 || len(f.Std) != 3 {
		return Config{}, errors.New("image_mean and image_std must be three numbers each")
	}
	c := Config{Mean: [3]float64(f.Mean), Std: [3]float64(f.Std)}
	for _, v := range []struct {
		to        *int
		name      string
		spellings []*int
	}{
		{&c.PatchSize, "patch_size", []*int{f.PatchSize}},
		{&c.MergeSize, "merge_size", []*int{f.MergeSize}},
		{&c.TemporalPatchSize, "temporal_patch_size", []*int{f.TemporalPatchSize}},
		{&c.MinPixels, "min_pixels (or size.shortest_edge)", []*int{f.MinPixels, f.Size.Shortest, f.Size.MinPixels}},
		{&c.MaxPixels, "max_pixels (or size.longest_edge)", []*int{f.MaxPixels, f.Size.Longest, f.Size.MaxPixels}},
	} {
		i := slices.IndexFunc(v.spellings, func(n *int) bool { return n != nil })
		if i < 0 {
			return Config{}, fmt.Errorf("%s is missing", v.name)
		}
		*v.to = *v.spellings[i]
	}
	return c, c.Validate()
}

// processors are the spellings of the one image processor of Qwen-VL models.
var processors = []string{"", "Qwen2VLImageProcessor", "Qwen2VLImageProcessorFast", "Qwen2VLImageProcessorPil"}

// refuseOtherSteps names a field that asks for what Process does not do.
func (f *configFields) refuseOtherSteps() error {
	if !slices.Contains(processors, f.Type) {
		return fmt.Errorf("image_processor_type is %q: only %q is supported", f.Type, processors[1])
	}
	const bicubic = 3 // PIL.Image.BICUBIC
	if f.Resample != nil && *f.Resample != bicubic {
		return fmt.Errorf("resample is %d: only %d, bicubic, is supported", *f.Resample, bicubic)
	}
	for _, step := range []struct {
		name string
		on   *bool
		want bool
	}{
		{"do_resize", f.Resize, true}, {"do_rescale", f.Rescale, true}, {"do_normalize", f.Normalize, true}, {"do_convert_rgb", f.ConvertRGB, true},
		{"do_center_crop", f.CenterCrop, false}, {"do_pad", f.Pad, false},
	} {
		if step.on != nil && *step.on != step.want {
			return fmt.Errorf("%s is %t: only %t is supported", step.name, *step.on, step.want)
		}
	}
	if f.Scale != nil && math.Abs(*f.Scale*255-1) > 1e-6 {
		return fmt.Errorf("rescale_factor is %v: only 1/255 is supported", *f.Scale)
	}
	return nil
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
