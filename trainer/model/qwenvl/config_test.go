package qwenvl

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type object = map[string]any

// document3 is a config.json of Qwen3-VL.
func document3() object {
	return object{"model_type": "qwen3_vl", "image_token_id": 3, "vision_start_token_id": 4, "vision_end_token_id": 5,
		"text_config": object{"vocab_size": 23, "hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
			"head_dim": 8, "rms_norm_eps": 1e-6, "rope_theta": 1e4, "rope_scaling": object{"rope_type": "default", "mrope_section": []int{2, 1, 1}, "mrope_interleaved": true},
			"hidden_act": "silu", "attention_bias": false},
		"vision_config": object{"depth": 3, "hidden_size": 8, "intermediate_size": 16, "num_heads": 2, "in_channels": 3, "patch_size": 2, "temporal_patch_size": 1,
			"spatial_merge_size": 2, "out_hidden_size": 12, "num_position_embeddings": 9, "deepstack_visual_indexes": []int{0, 2}, "hidden_act": "gelu_pytorch_tanh"}}
}

// document25 is one of Qwen2.5-VL as its first checkpoints have it, with the decoder's fields at the top.
func document25() object {
	return object{"model_type": "qwen2_5_vl", "image_token_id": 3, "vision_start_token_id": 4, "vision_end_token_id": 5, "vocab_size": 23, "hidden_size": 24,
		"intermediate_size": 20, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "rope_theta": 1e4,
		"rope_scaling": object{"type": "mrope", "mrope_section": []int{1, 1, 1}}, "hidden_act": "silu", "sliding_window": 32, "use_sliding_window": false,
		"max_window_layers": 3, "tie_word_embeddings": true,
		"vision_config": object{"depth": 3, "hidden_size": 8, "intermediate_size": 16, "num_heads": 2, "in_chans": 3, "patch_size": 2, "temporal_patch_size": 1,
			"spatial_merge_size": 2, "out_hidden_size": 24, "hidden_act": "silu", "window_size": 8, "fullatt_block_indexes": []int{1}}}
}

// nested rewrites a flat document as transformers saves it since: the decoder's fields in text_config, its rope in one object.
func nested(d object) object {
	text, out := maps.Clone(d), object{}
	for _, k := range []string{"model_type", "image_token_id", "vision_start_token_id", "vision_end_token_id", "vision_config"} {
		out[k] = d[k]
		delete(text, k)
	}
	delete(text, "rope_scaling")
	delete(text, "rope_theta")
	text["rope_parameters"] = object{"rope_type": "default", "rope_theta": d["rope_theta"], "mrope_section": d["rope_scaling"].(object)["mrope_section"]}
	text["layer_types"] = []string{"full_attention", "full_attention", "full_attention"}
	out["text_config"] = text
	return out
}

// with sets the field at a dotted path, or removes it where the value is nil.
func with(d object, path string, value any) object {
	at := d
	parts := strings.Split(path, ".")
	for _, p := range parts[:len(parts)-1] {
		if _, ok := at[p]; !ok {
			at[p] = object{}
		}
		at = at[p].(object)
	}
	at[parts[len(parts)-1]] = value
	if value == nil {
		delete(at, parts[len(parts)-1])
	}
	return d
}

func parse(t *testing.T, d object) (Config, error) {
	b, err := json.Marshal(d)
	require.NoError(t, err)
	return ParseConfig(b)
}

func TestConfigReadsEverySpelling(t *testing.T) {
	want := tinyConfig()
	want.ModelType, want.VisionStartTokenID, want.VisionEndTokenID = Qwen3VL, 4, 5
	c, err := parse(t, document3())
	require.NoError(t, err)
	require.Equal(t, want, c)
	rope := document3()["text_config"].(object)["rope_scaling"].(object)
	rope["rope_theta"] = 1e4
	c, err = parse(t, with(with(with(document3(), "text_config.rope_scaling", nil), "text_config.rope_theta", nil), "text_config.rope_parameters", rope))
	require.NoError(t, err)
	require.Equal(t, want, c)

	flat, err := parse(t, document25())
	require.NoError(t, err)
	require.Equal(t, 6, flat.Text.HeadDim)
	require.True(t, flat.TieWordEmbeddings)
	require.Equal(t, RopeConfig{Theta: 1e4, MRopeSection: []int{1, 1, 1}}, flat.Text.Rope)
	require.Equal(t, 3, flat.Vision.InChannels)
	require.Equal(t, []int{1}, flat.Vision.FullAttention)
	c, err = parse(t, nested(document25()))
	require.NoError(t, err)
	require.Equal(t, flat, c)
	c, err = parse(t, with(document25(), "vision_config.in_chans", nil))
	require.NoError(t, err)
	require.Equal(t, flat, c)
}

func TestConfigRefusesWhatItDoesNotSupport(t *testing.T) {
	for _, c := range []struct {
		document func() object
		path     string
		value    any
		want     string
	}{
		{document3, "model_type", "qwen3_vl_moe", `model_type is "qwen3_vl_moe"; supported: qwen2_5_vl, qwen3_vl`},
		{document3, "quantization_config", object{"quant_method": "awq"}, "quantization_config is set"},
		{document3, "image_token_id", 23, "image_token_id is 23; it must be one of"},
		{document3, "vision_start_token_id", -1, "vision_start_token_id is -1"},
		{document3, "text_config", nil, "text_config.vocab_size is 0"},
		{document3, "vision_config", nil, "vision_config.depth is 0"},
		{document3, "text_config.num_experts", 8, "text_config.num_experts is 8"},
		{document3, "text_config.attention_bias", true, "text_config.attention_bias is true; supported: false"},
		{document3, "text_config.hidden_act", "gelu", `text_config.hidden_act is "gelu"; supported: silu`},
		{document3, "text_config.num_hidden_layers", 1 << 20, "text_config.num_hidden_layers is 1048576"},
		{document3, "text_config.num_key_value_heads", 3, "text_config.num_key_value_heads is 3; it must divide"},
		{document3, "text_config.head_dim", 7, "text_config.head_dim is 7; it must be even"},
		{document3, "text_config.rms_norm_eps", -1, "text_config.rms_norm_eps is -1"},
		{document3, "text_config.rope_theta", nil, "text_config.rope_theta is 0"},
		{document3, "text_config.rope_scaling.rope_type", "yarn", `text_config.rope_scaling.rope_type is "yarn"; supported: default`},
		{document3, "text_config.rope_scaling.rope_type", "mrope", `rope_type is "mrope"`},
		{document3, "text_config.rope_scaling.mrope_interleaved", false, "text_config.rope_scaling.mrope_interleaved is false; supported: true"},
		{document3, "text_config.rope_scaling.mrope_section", []int{2, 2, 1}, "mrope_section is [2 2 1]"},
		{document3, "text_config.rope_scaling.partial_rotary_factor", 0.5, "partial_rotary_factor is 0.5"},
		{document3, "text_config.layer_types", []string{"full_attention", "linear_attention"}, `text_config.layer_types has "linear_attention"`},
		{document3, "vision_config.hidden_act", "gelu", `vision_config.hidden_act is "gelu"; supported: gelu_pytorch_tanh`},
		{document3, "vision_config.num_position_embeddings", 8, "vision_config.num_position_embeddings is 8"},
		{document3, "vision_config.deepstack_visual_indexes", []int{3}, "vision_config.deepstack_visual_indexes has 3"},
		{document3, "vision_config.window_size", 112, "vision_config.window_size is 112; Qwen3-VL has no windows"},
		{document3, "vision_config.fullatt_block_indexes", []int{1}, "vision_config.fullatt_block_indexes is [1]"},
		{document3, "vision_config.out_hidden_size", 8, "vision_config.out_hidden_size is 8"},
		{document3, "vision_config.num_heads", 8, "vision_config.num_heads is 8"},
		{document3, "vision_config.rope_parameters.rope_type", "default", `vision_config.rope_parameters.rope_type is "default"`},
		{document3, "vision_config.rope_parameters.rope_theta", 5e5, "vision_config.rope_parameters.rope_theta is 500000"},
		{document25, "use_sliding_window", "yes", "use_sliding_window"},
		{document25, "num_attention_heads", 5, "text_config.num_attention_heads is 5; it must divide hidden_size"},
		{document25, "head_dim", 8, "text_config.head_dim is 8"},
		{document25, "rope_scaling.type", "linear", `rope_scaling.rope_type is "linear"`},
		{document25, "rope_scaling.mrope_interleaved", true, "mrope_interleaved is true; supported: false"},
		{document25, "rope_scaling", nil, "mrope_section is [16 24 24]"},
		{document25, "layer_types", []string{"sliding_attention"}, `text_config.layer_types has "sliding_attention"`},
		{document25, "vision_config.hidden_act", "quick_gelu", `vision_config.hidden_act is "quick_gelu"; supported: silu`},
		{document25, "vision_config.window_size", 3, "vision_config.window_size is 3; a window must hold"},
		{document25, "vision_config.fullatt_block_indexes", []int{9}, "vision_config.fullatt_block_indexes has 9"},
		{document25, "vision_config.fullatt_block_indexes", nil, "vision_config.fullatt_block_indexes is missing"},
		{document25, "vision_config.num_position_embeddings", 9, "vision_config.num_position_embeddings is 9"},
		{document25, "vision_config.deepstack_visual_indexes", []int{1}, "vision_config.deepstack_visual_indexes is [1]"},
	} {
		_, err := parse(t, with(c.document(), c.path, c.value))
		require.ErrorContains(t, err, c.want, c.path)
	}
	_, err := ParseConfig([]byte(`{"model_type":`))
	require.Error(t, err)
}

// A sliding window is in use in the layers from max_window_layers on, if at all.
func TestConfigRefusesASlidingWindowInUse(t *testing.T) {
	d := with(document25(), "use_sliding_window", true)
	_, err := parse(t, d)
	require.NoError(t, err, "no layer has one")
	_, err = parse(t, with(d, "max_window_layers", 2))
	require.ErrorContains(t, err, "text_config.use_sliding_window is true; supported: full attention in every layer")
	_, err = parse(t, with(d, "sliding_window", nil))
	require.NoError(t, err)
}

func FuzzConfig(f *testing.F) {
	for _, d := range []object{document3(), document25(), nested(document25())} {
		b, err := json.Marshal(d)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := ParseConfig(b); err == nil {
			total := 0
			for _, x := range Layout(c) {
				require.Positive(t, x.Size(), x.Name)
				total += x.Size()
				require.Positive(t, total)
			}
		}
	})
}
