// Package qwenvl is the Qwen-VL architecture, forward and backward: a vision transformer with a patch merger, and a
// grouped-query decoder with multimodal rotary positions. The backward passes are written by hand.
//
// Qwen2.5-VL and Qwen3-VL are one model: where a family has no such weight (biases of queries, norms of heads, a table of
// positions, deepstack mergers), the weight is nil and its step does nothing.
package qwenvl

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
)

// The families, by model_type.
const (
	Qwen25VL = "qwen2_5_vl"
	Qwen3VL  = "qwen3_vl"
)

// Config is what the model reads from config.json, in one form for every family and every age of the file.
type Config struct {
	ModelType          string
	ImageTokenID       int32
	VisionStartTokenID int32
	VisionEndTokenID   int32
	TieWordEmbeddings  bool
	Text               TextConfig
	Vision             VisionConfig
}

// Architecture is the family's name.
func (c *Config) Architecture() string {
	if c.ModelType == Qwen25VL {
		return "Qwen2.5-VL"
	}
	return "Qwen3-VL"
}

// TextConfig is the decoder.
type TextConfig struct {
	VocabSize        int     `json:"vocab_size"`
	HiddenSize       int     `json:"hidden_size"`
	IntermediateSize int     `json:"intermediate_size"`
	Layers           int     `json:"num_hidden_layers"`
	Heads            int     `json:"num_attention_heads"`
	KVHeads          int     `json:"num_key_value_heads"`
	HeadDim          int     `json:"head_dim"`
	RMSNormEps       float64 `json:"rms_norm_eps"`
	HiddenAct        string  `json:"hidden_act"`

	Biased bool       `json:"-"` // queries, keys and values have biases and no norms (Qwen2.5-VL)
	Rope   RopeConfig `json:"-"`
}

// RopeConfig splits the rotary frequencies between time, height and width: in three runs, or interleaved (Qwen3-VL).
type RopeConfig struct {
	Theta        float64
	MRopeSection []int
	Interleaved  bool
}

// VisionConfig is the vision transformer.
type VisionConfig struct {
	Depth              int    `json:"depth"`
	HiddenSize         int    `json:"hidden_size"`
	IntermediateSize   int    `json:"intermediate_size"`
	Heads              int    `json:"num_heads"`
	InChannels         int    `json:"in_channels"`
	PatchSize          int    `json:"patch_size"`
	TemporalPatchSize  int    `json:"temporal_patch_size"`
	SpatialMergeSize   int    `json:"spatial_merge_size"`
	OutHiddenSize      int    `json:"out_hidden_size"`
	HiddenAct          string `json:"hidden_act"`
	PositionEmbeddings int    `json:"num_position_embeddings"`  // 0 without a table (Qwen2.5-VL)
	DeepstackIndexes   []int  `json:"deepstack_visual_indexes"` // none in Qwen2.5-VL
	WindowSize         int    `json:"window_size"`              // side of the attention windows in pixels; 0 without (Qwen3-VL)
	FullAttention      []int  `json:"fullatt_block_indexes"`    // blocks that attend over the whole image all the same

	Gated bool `json:"-"` // SwiGLU, RMSNorm and a patch embedding without bias (Qwen2.5-VL) instead of GELU, LayerNorm and one with it
}

const (
	visionEps   = 1e-6
	visionTheta = 1e4
	maxHeadDim  = 256 // of the decoder; every released checkpoint has 128

	// Above any model's. Within them, the number of weights is an int.
	maxRows   = 1 << 24
	maxSize   = 1 << 16
	maxLayers = 1 << 10
	maxMerge  = 1 << 4
	maxPatch  = 1 << 6
)

// LoadConfig reads and validates a config.json. Unsupported values are refused with the field's name.
func LoadConfig(path string) (Config, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("read model config: %w", err)
	}
	c, err := ParseConfig(b)
	if err != nil {
		return Config{}, fmt.Errorf("model config %q: %w", path, err)
	}
	return c, nil
}

// Validate checks that the model can be built. Unsupported values are refused with the field's name.
func (c *Config) Validate() error {
	t, v := &c.Text, &c.Vision
	var errs []error
	for _, f := range []struct {
		name   string
		n, max int
	}{
		{"text_config.vocab_size", t.VocabSize, maxRows}, {"text_config.hidden_size", t.HiddenSize, maxSize}, {"text_config.intermediate_size", t.IntermediateSize, maxRows},
		{"text_config.num_hidden_layers", t.Layers, maxLayers}, {"text_config.num_attention_heads", t.Heads, maxSize}, {"text_config.num_key_value_heads", t.KVHeads, maxSize},
		{"text_config.head_dim", t.HeadDim, maxSize}, {"vision_config.depth", v.Depth, maxLayers}, {"vision_config.hidden_size", v.HiddenSize, maxSize},
		{"vision_config.intermediate_size", v.IntermediateSize, maxRows}, {"vision_config.num_heads", v.Heads, maxSize}, {"vision_config.in_channels", v.InChannels, maxPatch},
		{"vision_config.patch_size", v.PatchSize, maxPatch}, {"vision_config.temporal_patch_size", v.TemporalPatchSize, maxPatch},
		{"vision_config.spatial_merge_size", v.SpatialMergeSize, maxMerge}, {"vision_config.out_hidden_size", v.OutHiddenSize, maxSize},
	} {
		if f.n < 1 || f.n > f.max {
			errs = append(errs, fmt.Errorf("%s is %d; use a size of 1 to %d", f.name, f.n, f.max))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(t.Heads%t.KVHeads != 0, "text_config.num_key_value_heads is %d; it must divide num_attention_heads, %d", t.KVHeads, t.Heads)
	refuse(t.HeadDim%2 != 0 || t.HeadDim > maxHeadDim, "text_config.head_dim is %d; it must be even, and %d or less", t.HeadDim, maxHeadDim)
	refuse(t.HiddenAct != "silu", "text_config.hidden_act is %q; supported: silu", t.HiddenAct)
	refuse(!positive(t.RMSNormEps), "text_config.rms_norm_eps is %g; use a positive number", t.RMSNormEps)
	refuse(!positive(t.Rope.Theta), "text_config.rope_theta is %g; use a positive number", t.Rope.Theta)
	s := t.Rope.MRopeSection
	refuse(len(s) != 3 || slices.Min(s) < 0 || slices.Max(s) > t.HeadDim || s[0]+s[1]+s[2] != t.HeadDim/2,
		"text_config.rope_scaling.mrope_section is %v; it must have three parts that add up to head_dim/2 = %d", s, t.HeadDim/2)
	for _, id := range []struct {
		name string
		n    int32
	}{{"image_token_id", c.ImageTokenID}, {"vision_start_token_id", c.VisionStartTokenID}, {"vision_end_token_id", c.VisionEndTokenID}} {
		refuse(id.n < 0 || int(id.n) >= t.VocabSize, "%s is %d; it must be one of the text_config.vocab_size = %d tokens", id.name, id.n, t.VocabSize)
	}
	return errors.Join(append(errs, v.validate(t))...)
}

func (v *VisionConfig) validate(t *TextConfig) error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("vision_config."+format, args...))
		}
	}
	refuse(v.HiddenSize%v.Heads != 0 || v.HiddenSize/v.Heads%4 != 0, "num_heads is %d; hidden_size %d must split into heads whose size is a multiple of four", v.Heads, v.HiddenSize)
	act := "gelu_pytorch_tanh"
	if v.Gated {
		act = "silu"
	}
	refuse(v.HiddenAct != act, "hidden_act is %q; supported: %s", v.HiddenAct, act)
	refuse(v.OutHiddenSize != t.HiddenSize, "out_hidden_size is %d; it must equal text_config.hidden_size, %d", v.OutHiddenSize, t.HiddenSize)
	refuse(len(v.DeepstackIndexes) > t.Layers, "deepstack_visual_indexes has %d entries; the decoder has %d layers", len(v.DeepstackIndexes), t.Layers)
	for _, i := range v.DeepstackIndexes {
		refuse(i < 0 || i >= v.Depth, "deepstack_visual_indexes has %d; the vision transformer has %d layers", i, v.Depth)
	}
	for _, i := range v.FullAttention {
		refuse(i < 0 || i >= v.Depth, "fullatt_block_indexes has %d; the vision transformer has %d layers", i, v.Depth)
	}
	if v.Gated {
		unit := v.PatchSize * v.SpatialMergeSize
		refuse(v.WindowSize < unit || v.WindowSize > maxSize, "window_size is %d; a window must hold at least a token of patch_size x spatial_merge_size = %d pixels", v.WindowSize, unit)
		refuse(v.PositionEmbeddings != 0, "num_position_embeddings is %d; Qwen2.5-VL has no table of positions", v.PositionEmbeddings)
		refuse(len(v.DeepstackIndexes) > 0, "deepstack_visual_indexes is %v; Qwen2.5-VL has no deepstack features", v.DeepstackIndexes)
		return errors.Join(errs...)
	}
	refuse(v.WindowSize != 0, "window_size is %d; Qwen3-VL has no windows", v.WindowSize)
	refuse(len(v.FullAttention) > 0, "fullatt_block_indexes is %v; Qwen3-VL attends over the whole image in every block", v.FullAttention)
	side := v.positionSide()
	refuse(v.PositionEmbeddings < 1 || v.PositionEmbeddings > maxRows || side*side != v.PositionEmbeddings, "num_position_embeddings is %d; it must be a positive square", v.PositionEmbeddings)
	return errors.Join(errs...)
}

func positive(x float64) bool { return x > 0 && !math.IsInf(x, 0) }

// fc1Width is the width of a block's first linear, gate and up in one where it is gated.
func (v *VisionConfig) fc1Width() int {
	if v.Gated {
		return 2 * v.IntermediateSize
	}
	return v.IntermediateSize
}

// windowUnits is the side of an attention window in merged tokens; 0 without windows.
func (v *VisionConfig) windowUnits() int { return v.WindowSize / (v.PatchSize * v.SpatialMergeSize) }

// positionSide is the side of the square table of learned positions.
func (v *VisionConfig) positionSide() int {
	n := 0
	for n*n < min(v.PositionEmbeddings, maxRows) {
		n++
	}
	return n
}

func (v *VisionConfig) patchDim() int {
	return v.InChannels * v.TemporalPatchSize * v.PatchSize * v.PatchSize
}
