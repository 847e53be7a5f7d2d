package qwenvl

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/trinity-lab/trinity/trainer/backend/cpu"
	"github.com/trinity-lab/trinity/trainer/nn"
)

// AdaptedModules are the decoder linears that LoRA adapts (Trinity A.2: embeddings, head and vision are excluded).
var AdaptedModules = []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}

// IsAdapted says whether LoRA adapts a tensor.
func IsAdapted(name string) bool {
	module, isWeight := strings.CutSuffix(name, ".weight")
	return isWeight && strings.HasPrefix(name, "model.language_model.layers.") && slices.Contains(AdaptedModules, module[strings.LastIndexByte(module, '.')+1:])
}

// AttachLoRA adds adapters of the given rank and scale (alpha/rank) to the seven decoder linears of w and matching
// gradients to grads. A starts uniform within 1/sqrt(in), B at zero, as PEFT does. base holds the frozen weights under the
// adapters. It returns the adapters' parameters and gradients in PEFT's spelling.
func AttachLoRA(c Config, w, base *Weights, grads []*Weights, rank int, scale float32, rng *rand.Rand) (params *AdapterSet, gradients []*AdapterSet) {
	params = newAdapterSet(c, w, rank, scale)
	for i := range params.Tensors {
		if t := &params.Tensors[i]; strings.HasSuffix(t.Name, "lora_A.weight") {
			bound := 1 / math.Sqrt(float64(t.Shape[1]))
			for j := range t.Data {
				t.Data[j] = float32((rng.Float64()*2 - 1) * bound)
			}
		}
	}
	for i := range w.text.layers {
		frozen := base.text.layers[i].linears()
		for k, l := range w.text.layers[i].linears() {
			for j := range l.Adapters {
				a := &l.Adapters[j]
				a.W0 = frozen[k].W[a.Row*l.In : (a.Row+a.Out)*l.In]
			}
		}
	}
	for _, g := range grads {
		gradients = append(gradients, newAdapterSet(c, g, rank, scale))
	}
	return params, gradients
}

// AdapterSet is the flat storage of all adapters of one Weights.
type AdapterSet struct {
	Flat    []float32
	Tensors []Tensor
}

type adapted struct {
	linear *nn.Linear
	name   string
	parts  []adaptedPart
}

type adaptedPart struct {
	name string
	out  int
}

func (w *Weights) adapted(c Config) []adapted {
	t := c.Text
	var all []adapted
	for i := range w.text.layers {
		l, p := &w.text.layers[i], fmt.Sprintf("base_model.model.model.language_model.layers.%d.", i)
		all = append(all,
			adapted{&l.qkv, p + "self_attn.", []adaptedPart{{"q_proj", t.Heads * t.HeadDim}, {"k_proj", t.KVHeads * t.HeadDim}, {"v_proj", t.KVHeads * t.HeadDim}}},
			adapted{&l.o, p + "self_attn.", []adaptedPart{{"o_proj", t.HiddenSize}}},
			adapted{&l.gateUp, p + "mlp.", []adaptedPart{{"gate_proj", t.IntermediateSize}, {"up_proj", t.IntermediateSize}}},
			adapted{&l.down, p + "mlp.", []adaptedPart{{"down_proj", t.HiddenSize}}})
	}
	return all
}

// AdapterTensors lists the adapters' names in PEFT's spelling and shapes, without storage: for each adapted module A
// [rank, in] and B [out, rank].
func AdapterTensors(c Config, rank int) []Tensor {
	w := blank(c)
	w.setSizes(c)
	var out []Tensor
	for _, a := range w.adapted(c) {
		for _, p := range a.parts {
			out = append(out, Tensor{a.name + p.name + ".lora_A.weight", []int{rank, a.linear.In}, nil},
				Tensor{a.name + p.name + ".lora_B.weight", []int{p.out, rank}, nil})
		}
	}
	return out
}

func newAdapterSet(c Config, w *Weights, rank int, scale float32) *AdapterSet {
	s := &AdapterSet{Tensors: AdapterTensors(c, rank)}
	n := 0
	for _, t := range s.Tensors {
		n += t.Size()
	}
	s.Flat = make([]float32, n)
	rest := s.Flat
	for i := range s.Tensors {
		k := s.Tensors[i].Size()
		s.Tensors[i].Data, rest = rest[:k:k], rest[k:]
	}
	pairs := s.Tensors
	for _, a := range w.adapted(c) {
		row := 0
		a.linear.Adapters = nil
		for _, p := range a.parts {
			a.linear.Adapters = append(a.linear.Adapters, nn.Adapter{Row: row, Out: p.out, Rank: rank, Scale: scale, A: pairs[0].Data, B: pairs[1].Data})
			row += p.out
			pairs = pairs[2:]
		}
	}
	return s
}

// MergeLoRA recomputes the merged weights from the frozen base and the adapters.
func (w *Weights) MergeLoRA(g *cpu.Gemm) {
	for i := range w.text.layers {
		for _, l := range w.text.layers[i].linears() {
			for j := range l.Adapters {
				l.Adapters[j].Merge(g, l.W, l.In)
			}
		}
	}
}

// DetachLoRA forgets the adapters; the weights stay as they were last merged.
func (w *Weights) DetachLoRA() {
	for i := range w.text.layers {
		for _, l := range w.text.layers[i].linears() {
			l.Adapters = nil
		}
	}
}

// linears are the layer's adapted linears.
func (l *textLayer) linears() [4]*nn.Linear { return [...]*nn.Linear{&l.qkv, &l.o, &l.gateUp, &l.down} }
