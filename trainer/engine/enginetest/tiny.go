// Package enginetest helps to test with a real engine.
package enginetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/trainer/tokenizer"
)

const tinyConfig = `{"model_type":"qwen3_vl","image_token_id":%d,"vision_start_token_id":%d,"vision_end_token_id":%d,"tie_word_embeddings":%t,
"text_config":{"vocab_size":%d,"hidden_size":32,"intermediate_size":64,"num_hidden_layers":2,"num_attention_heads":2,"num_key_value_heads":1,"head_dim":16,
"rms_norm_eps":1e-6,"rope_theta":10000,"rope_scaling":{"mrope_section":[4,2,2],"mrope_interleaved":true,"rope_type":"default"},"hidden_act":"silu"},
"vision_config":{"depth":2,"hidden_size":16,"intermediate_size":32,"num_heads":2,"in_channels":3,"patch_size":4,"temporal_patch_size":1,"spatial_merge_size":2,
"out_hidden_size":32,"num_position_embeddings":16,"deepstack_visual_indexes":[0],"hidden_act":"gelu_pytorch_tanh"}}`

const tinyQwen25VLConfig = `{"model_type":"qwen2_5_vl","image_token_id":%d,"vision_start_token_id":%d,"vision_end_token_id":%d,"tie_word_embeddings":%t,
"vocab_size":%d,"hidden_size":32,"intermediate_size":64,"num_hidden_layers":2,"num_attention_heads":2,"num_key_value_heads":1,
"rms_norm_eps":1e-6,"rope_theta":10000,"rope_scaling":{"mrope_section":[4,2,2],"type":"mrope"},"hidden_act":"silu",
"vision_config":{"depth":2,"hidden_size":16,"intermediate_size":32,"num_heads":2,"in_chans":3,"patch_size":4,"temporal_patch_size":1,"spatial_merge_size":2,
"out_hidden_size":32,"hidden_act":"silu","window_size":8,"fullatt_block_indexes":[1]}}`

const tinyProcessor = `{"patch_size":4,"merge_size":2,"temporal_patch_size":1,"min_pixels":64,"max_pixels":1024,"image_mean":[0.5,0.5,0.5],"image_std":[0.5,0.5,0.5]}`

// TinyFiles describe a model of the Qwen3-VL architecture that trains in milliseconds, for local.Create. Its weights are
// yet to be drawn: it babbles. tied models have one matrix for the embeddings and the head.
func TinyFiles(t testing.TB, tied bool) (config, tok, processor []byte) {
	t.Helper()
	return tinyFiles(t, tinyConfig, tied)
}

// TinyQwen25VLFiles describe one of the Qwen2.5-VL architecture.
func TinyQwen25VLFiles(t testing.TB, tied bool) (config, tok, processor []byte) {
	t.Helper()
	return tinyFiles(t, tinyQwen25VLConfig, tied)
}

func tinyFiles(t testing.TB, format string, tied bool) (config, tok, processor []byte) {
	t.Helper()
	specials := []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"}
	tok, err := tokenizer.Train(slices.Values([]string{"user assistant system what is red blue the answer 1 2 3 4 5 6 7 8 9 0"}),
		tokenizer.TrainOptions{VocabSize: 330, Specials: specials})
	require.NoError(t, err)
	tk, err := tokenizer.Parse(tok)
	require.NoError(t, err)
	id := func(s string) int32 {
		i, ok := tk.ID(s)
		require.True(t, ok)
		return i
	}
	text := fmt.Sprintf(format, id("<|image_pad|>"), id("<|vision_start|>"), id("<|vision_end|>"), tied, tk.VocabSize())
	return []byte(text), tok, []byte(tinyProcessor)
}
