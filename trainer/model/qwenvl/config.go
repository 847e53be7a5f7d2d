// Package qwenvl is the Qwen-VL architecture, forward and backward: a vision transformer with a patch merger, deepstack
// features, and a grouped-query decoder with multimodal rotary positions. The backward passes are written by hand.
package qwenvl

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
)

// Config is what the model reads from config.json (Qwen3-VL layout).
type Config struct {
	ImageTokenID       int32        `json:"image_token_id"`
	VisionStartTokenID int32        `json:"vision_start_token_id"`
	VisionEndTokenID   int32        `json:"vision_end_token_id"`
	TieWordEmbeddings  bool         `json:"tie_word_embeddings"`
	Text               TextConfig   `json:"text_config"`
	Vision             VisionConfig `json:"vision_config"`
}

// TextConfig is the decoder.
type TextConfig struct {
	VocabSize        int        `json:"vocab_size"`
	HiddenSize       int        `json:"hidden_size"`
	IntermediateSize int        `json:"intermediate_size"`
	Layers           int        `json:"num_hidden_layers"`
	Heads            int        `json:"num_attention_heads"`
	KVHeads          int        `json:"num_key_value_heads"`
	HeadDim          int        `json:"head_dim"`
	RMSNormEps       float64    `json:"rms_norm_eps"`
	RopeTheta        float64    `json:"rope_theta"`
	RopeScaling      RopeConfig `json:"rope_scaling"`
	HiddenAct        string     `json:"hidden_act"`
	AttentionBias    bool       `json:"attention_bias"`
}

// RopeConfig splits the rotary frequencies between time, height and width.
type RopeConfig struct {
	MRopeSection     []int  `json:"mrope_section"`
	MRopeInterleaved bool   `json:"mrope_interleaved"`
	Type             string `json:"rope_type"`
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
	PositionEmbeddings int    `json:"num_position_embeddings"`
	DeepstackIndexes   []int  `json:"deepstack_visual_indexes"`
	HiddenAct          string `json:"hidden_act"`
}

const (
	visionEps   = 1e-6
	visionTheta = 1e4
	maxHeadDim  = 256 // of the decoder; every released checkpoint has 128
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

// ParseConfig reads and validates the JSON of a config.json.
func ParseConfig(b []byte) (Config, error) {
	var head struct {
		ModelType string `json:"model_type"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return Config{}, err
	}
	if head.ModelType != "qwen3_vl" {
		return Config{}, fmt.Errorf("model_type is %q; supported: qwen3_vl", head.ModelType)
	}
	var c Config
	if err := json.Unmarshal(b, &c); err != nil {
		return Config{}, err
	}
	return c, c.validate()
}

func (c *Config) validate() error {
	t, v := &c.Text, &c.Vision
	var errs []error
	positive := func(field string, n int) {
		if n < 1 || n > 1<<24 {
			errs = append(errs, fmt.Errorf("%s is %d; use a positive size", field, n))
		}
	}
	for _, f := range []struct {
		name string
		n    int
	}{
		{"text_config.vocab_size", t.VocabSize}, {"text_config.hidden_size", t.HiddenSize}, {"text_config.intermediate_size", t.IntermediateSize},
		{"text_config.num_hidden_layers", t.Layers}, {"text_config.num_attention_heads", t.Heads}, {"text_config.num_key_value_heads", t.KVHeads},
		{"text_config.head_dim", t.HeadDim}, {"vision_config.depth", v.Depth}, {"vision_config.hidden_size", v.HiddenSize},
		{"vision_config.intermediate_size", v.IntermediateSize}, {"vision_config.num_heads", v.Heads}, {"vision_config.in_channels", v.InChannels},
		{"vision_config.patch_size", v.PatchSize}, {"vision_config.temporal_patch_size", v.TemporalPatchSize},
		{"vision_config.spatial_merge_size", v.SpatialMergeSize}, {"vision_config.out_hidden_size", v.OutHiddenSize},
		{"vision_config.num_position_embeddings", v.PositionEmbeddings},
	} {
		positive(f.name, f.n)
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
	refuse(t.AttentionBias, "text_config.attention_bias is true; supported: false")
	refuse(!(t.RMSNormEps > 0), "text_config.rms_norm_eps is %g; use a positive number", t.RMSNormEps)
	refuse(!(t.RopeTheta > 0), "text_config.rope_theta is %g; use a positive number", t.RopeTheta)
	s := t.RopeScaling.MRopeSection
	refuse(len(s) != 3 || slices.Min(s) < 0 || s[0]+s[1]+s[2] != t.HeadDim/2, "text_config.rope_scaling.mrope_section is %v; it must have three parts that add up to head_dim/2 = %d", s, t.HeadDim/2)
	refuse(!t.RopeScaling.MRopeInterleaved, "text_config.rope_scaling.mrope_interleaved is false; supported: true")
	refuse(t.RopeScaling.Type != "default" && t.RopeScaling.Type != "", "text_config.rope_scaling.rope_type is %q; supported: default", t.RopeScaling.Type)
	refuse(v.HiddenSize%v.Heads != 0 || v.HiddenSize/v.Heads%4 != 0, "vision_config.num_heads is %d; hidden_size %d must split into heads whose size is a multiple of four", v.Heads, v.HiddenSize)
	refuse(v.HiddenAct != "gelu_pytorch_tanh", "vision_config.hidden_act is %q; supported: gelu_pytorch_tanh", v.HiddenAct)
	refuse(v.OutHiddenSize != t.HiddenSize, "vision_config.out_hidden_size is %d; it must equal text_config.hidden_size, %d", v.OutHiddenSize, t.HiddenSize)
	side := v.positionSide()
	refuse(side*side != v.PositionEmbeddings, "vision_config.num_position_embeddings is %d; it must be a square", v.PositionEmbeddings)
	refuse(len(v.DeepstackIndexes) > t.Layers, "vision_config.deepstack_visual_indexes has %d entries; the decoder has %d layers", len(v.DeepstackIndexes), t.Layers)
	for _, i := range v.DeepstackIndexes {
		refuse(i < 0 || i >= v.Depth, "vision_config.deepstack_visual_indexes has %d; the vision transformer has %d layers", i, v.Depth)
	}
	return errors.Join(errs...)
}

// positionSide is the side of the square table of learned positions.
func (v *VisionConfig) positionSide() int {
	n := 0
	for n*n < v.PositionEmbeddings {
		n++
	}
	return n
}

func (v *VisionConfig) patchDim() int {
	return v.InChannels * v.TemporalPatchSize * v.PatchSize * v.PatchSize
}
