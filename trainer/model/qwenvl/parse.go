package qwenvl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// document is config.json as releases of transformers have written it: Qwen2.5-VL's first files hold the decoder's fields at
// the top.
type document struct {
	ModelType          string          `json:"model_type"`
	ImageTokenID       *int32          `json:"image_token_id"`
	VisionStartTokenID *int32          `json:"vision_start_token_id"`
	VisionEndTokenID   *int32          `json:"vision_end_token_id"`
	TieWordEmbeddings  bool            `json:"tie_word_embeddings"`
	Quantization       any             `json:"quantization_config"`
	Text               json.RawMessage `json:"text_config"`
	Vision             visionDocument  `json:"vision_config"`
}

type textDocument struct {
	TextConfig
	TieWordEmbeddings bool          `json:"tie_word_embeddings"`
	RopeTheta         float64       `json:"rope_theta"`
	RopeScaling       *ropeDocument `json:"rope_scaling"`    // until transformers 4
	RopeParameters    *ropeDocument `json:"rope_parameters"` // since 5, with the base inside
	AttentionBias     bool          `json:"attention_bias"`
	SlidingWindow     int           `json:"sliding_window"`
	UseSlidingWindow  bool          `json:"use_sliding_window"`
	MaxWindowLayers   *int          `json:"max_window_layers"`
	LayerTypes        []string      `json:"layer_types"`
	Experts           int           `json:"num_experts"`
}

type ropeDocument struct {
	Type         string  `json:"rope_type"`
	OlderType    string  `json:"type"`
	Theta        float64 `json:"rope_theta"`
	MRopeSection []int   `json:"mrope_section"`
	Interleaved  *bool   `json:"mrope_interleaved"`
	Partial      float64 `json:"partial_rotary_factor"`
}

type visionDocument struct {
	VisionConfig
	InChans        int           `json:"in_chans"` // Qwen2.5-VL's first files
	RopeParameters *ropeDocument `json:"rope_parameters"`
}

// ParseConfig reads and validates the JSON of a config.json.
func ParseConfig(b []byte) (Config, error) {
	var d document
	if err := json.Unmarshal(b, &d); err != nil {
		return Config{}, err
	}
	if d.ModelType != Qwen25VL && d.ModelType != Qwen3VL {
		return Config{}, fmt.Errorf("model_type is %q; supported: %s, %s", d.ModelType, Qwen25VL, Qwen3VL)
	}
	older := d.ModelType == Qwen25VL
	text := d.Text
	if older && (text == nil || bytes.Equal(text, []byte("null"))) {
		text = b
	}
	var t textDocument
	if text != nil {
		if err := json.Unmarshal(text, &t); err != nil {
			return Config{}, fmt.Errorf("text_config: %w", err)
		}
	}
	c := Config{ModelType: d.ModelType, ImageTokenID: 151655, VisionStartTokenID: 151652, VisionEndTokenID: 151653,
		TieWordEmbeddings: d.TieWordEmbeddings || older && t.TieWordEmbeddings}
	for _, id := range []struct{ from, to *int32 }{{d.ImageTokenID, &c.ImageTokenID}, {d.VisionStartTokenID, &c.VisionStartTokenID}, {d.VisionEndTokenID, &c.VisionEndTokenID}} {
		if id.from != nil {
			*id.to = *id.from
		}
	}
	var errs []error
	if d.Quantization != nil {
		errs = append(errs, errors.New("quantization_config is set; supported: weights in bfloat16, float16 or float32, without it"))
	}
	c.Text, c.Vision = t.config(older, &errs), d.Vision.config(older, &errs)
	if err := errors.Join(errs...); err != nil {
		return Config{}, err
	}
	return c, c.Validate()
}

// config is the decoder that the fields describe, older meaning Qwen2.5-VL.
func (t *textDocument) config(older bool, errs *[]error) TextConfig {
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			*errs = append(*errs, fmt.Errorf("text_config."+format, args...))
		}
	}
	c := t.TextConfig
	c.Biased = older
	if older && c.Heads > 0 {
		refuse(c.HiddenSize%c.Heads != 0, "num_attention_heads is %d; it must divide hidden_size, %d", c.Heads, c.HiddenSize)
		refuse(c.HeadDim != 0 && c.HeadDim != c.HiddenSize/c.Heads, "head_dim is %d; Qwen2.5-VL's is hidden_size/num_attention_heads = %d", c.HeadDim, c.HiddenSize/c.Heads)
		c.HeadDim = c.HiddenSize / c.Heads
		windowed := t.UseSlidingWindow && t.SlidingWindow > 0 && (t.MaxWindowLayers == nil || *t.MaxWindowLayers < c.Layers)
		refuse(windowed && t.LayerTypes == nil, "use_sliding_window is true; supported: full attention in every layer")
	}
	refuse(!older && t.AttentionBias, "attention_bias is true; supported: false")
	refuse(t.Experts > 0, "num_experts is %d; supported: models without experts", t.Experts)
	i := slices.IndexFunc(t.LayerTypes, func(s string) bool { return s != "full_attention" })
	refuse(i >= 0, "layer_types has %q; supported: full_attention", at(t.LayerTypes, i))
	c.Rope = t.rope(older, refuse)
	return c
}

func at(s []string, i int) string {
	if i < 0 {
		return ""
	}
	return s[i]
}

// rope reads the rotary embedding in either spelling; where both are there, the older one holds.
func (t *textDocument) rope(older bool, refuse func(bool, string, ...any)) RopeConfig {
	field, r := "rope_scaling", t.RopeScaling
	if r == nil {
		field, r = "rope_parameters", t.RopeParameters
	}
	c := RopeConfig{Theta: t.RopeTheta, Interleaved: !older, MRopeSection: []int{24, 20, 20}}
	if older {
		c.MRopeSection = []int{16, 24, 24}
	}
	if r == nil {
		return c
	}
	if r.Theta != 0 {
		c.Theta = r.Theta
	}
	if r.MRopeSection != nil {
		c.MRopeSection = r.MRopeSection
	}
	kind := r.kind("default")
	refuse(kind != "default" && !(older && kind == "mrope"), "%s.rope_type is %q; supported: default", field, kind)
	refuse(r.Interleaved != nil && *r.Interleaved != c.Interleaved, "%s.mrope_interleaved is %t; supported: %t", field, !c.Interleaved, c.Interleaved)
	refuse(r.Partial != 0 && r.Partial != 1, "%s.partial_rotary_factor is %g; supported: 1", field, r.Partial)
	return c
}

// kind is the rope's type in either spelling.
func (r *ropeDocument) kind(absent string) string {
	switch {
	case r.Type != "":
		return r.Type
	case r.OlderType != "":
		return r.OlderType
	}
	return absent
}

func (v *visionDocument) config(older bool, errs *[]error) VisionConfig {
	c := v.VisionConfig
	c.Gated = older
	for _, n := range []int{v.InChans, 3} {
		if c.InChannels == 0 {
			c.InChannels = n
		}
	}
	if older && c.FullAttention == nil {
		*errs = append(*errs, errors.New("vision_config.fullatt_block_indexes is missing; it lists the blocks that attend over the whole image, or none: []"))
	}
	if r := v.RopeParameters; r != nil {
		if kind := r.kind("axial"); kind != "axial" {
			*errs = append(*errs, fmt.Errorf("vision_config.rope_parameters.rope_type is %q; supported: axial", kind))
		}
		if r.Theta != 0 && r.Theta != visionTheta {
			*errs = append(*errs, fmt.Errorf("vision_config.rope_parameters.rope_theta is %g; supported: %g", r.Theta, visionTheta))
		}
	}
	return c
}
