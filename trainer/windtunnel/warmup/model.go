package warmup

import (
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"

	"github.com/trinity-lab/trinity/trainer/engine/local"
	"github.com/trinity-lab/trinity/trainer/tokenizer"
	"github.com/trinity-lab/trinity/trainer/windtunnel"
)

// pattern cuts text so that a word takes its trailing space with it and a digit stands alone: the grammar's words become
// one token each, and numbers are read and written digit by digit.
const pattern = `\p{L}+ ?|\p{N}|[^\s\p{L}\p{N}]+ ?|\s+`

var specials = []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"}

// Shape is the size of the wind tunnel's model.
type Shape struct {
	Layers, Hidden, FFN, Heads, KVHeads, HeadDim int
	VisionLayers, VisionHidden, VisionHeads      int
}

// DefaultShape is the shipped model's: 1.8 million parameters, 3.6 MB in bfloat16.
func DefaultShape() Shape {
	return Shape{Layers: 6, Hidden: 128, FFN: 384, Heads: 4, KVHeads: 2, HeadDim: 32, VisionLayers: 3, VisionHidden: 64, VisionHeads: 4}
}

// newModel returns the files of an untrained wind-tunnel model: the Qwen3-VL architecture at a size that two cores can
// train, with a byte-level tokenizer made from the grammar.
func newModel(s Shape, tables []windtunnel.Table) (local.Files, error) {
	tok, err := tokenizer.Train(texts(tables), tokenizer.TrainOptions{VocabSize: 768, Pattern: pattern, Specials: specials, Added: windtunnel.TokenizerAdded()})
	if err != nil {
		return local.Files{}, err
	}
	t, err := tokenizer.Parse(tok)
	if err != nil {
		return local.Files{}, err
	}
	ids := map[string]int32{}
	for _, text := range specials {
		id, ok := t.ID(text)
		if !ok {
			return local.Files{}, fmt.Errorf("the new tokenizer lacks %s", text)
		}
		ids[text] = id
	}
	third := s.HeadDim / 2 / 3
	config := map[string]any{
		"architectures": []string{"Qwen3VLForConditionalGeneration"}, "model_type": "qwen3_vl", "tie_word_embeddings": false, "torch_dtype": "bfloat16",
		"image_token_id": ids["<|image_pad|>"], "vision_start_token_id": ids["<|vision_start|>"], "vision_end_token_id": ids["<|vision_end|>"],
		"text_config": map[string]any{
			"model_type": "qwen3_vl_text", "vocab_size": t.VocabSize(), "hidden_size": s.Hidden, "intermediate_size": s.FFN, "num_hidden_layers": s.Layers,
			"num_attention_heads": s.Heads, "num_key_value_heads": s.KVHeads, "head_dim": s.HeadDim, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
			"hidden_act": "silu", "attention_bias": false, "max_position_embeddings": 1024,
			"eos_token_id": ids["<|im_end|>"], "bos_token_id": ids["<|endoftext|>"], "pad_token_id": ids["<|endoftext|>"],
			"rope_scaling": map[string]any{"rope_type": "default", "mrope_interleaved": true, "mrope_section": []int{s.HeadDim/2 - 2*third, third, third}},
		},
		"vision_config": map[string]any{
			"model_type": "qwen3_vl", "depth": s.VisionLayers, "hidden_size": s.VisionHidden, "intermediate_size": 4 * s.VisionHidden, "num_heads": s.VisionHeads,
			"in_channels": 3, "patch_size": 8, "temporal_patch_size": 1, "spatial_merge_size": 2, "out_hidden_size": s.Hidden,
			"num_position_embeddings": 256, "deepstack_visual_indexes": []int{0, 1}, "hidden_act": "gelu_pytorch_tanh",
		},
	}
	pixels := windtunnel.Width * windtunnel.Height
	processor := map[string]any{
		"image_processor_type": "Qwen2VLImageProcessorFast", "patch_size": 8, "merge_size": 2, "temporal_patch_size": 1,
		"min_pixels": pixels / 4, "max_pixels": pixels, "size": map[string]int{"shortest_edge": pixels / 4, "longest_edge": pixels},
		"image_mean": []float64{0.5, 0.5, 0.5}, "image_std": []float64{0.5, 0.5, 0.5}, "resample": 3,
	}
	f := local.Files{Tokenizer: tok}
	if f.Config, err = json.MarshalIndent(config, "", "  "); err != nil {
		return f, err
	}
	f.Preprocessor, err = json.MarshalIndent(processor, "", "  ")
	return f, err
}

// texts is the corpus that the tokenizer learns its words from: every role's turns about many figures, and the chat template's words.
func texts(tables []windtunnel.Table) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text := range windtunnel.GrammarText(rand.New(rand.NewPCG(0x70c3, 1)), tables, 500) {
			if !yield(text) {
				return
			}
		}
		for _, word := range []string{"user\n", "assistant\n", "system\n"} {
			for range 2 {
				if !yield(word) {
					return
				}
			}
		}
	}
}
