package qwenvl

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/trinity-lab/trinity/trainer/backend/cpu"
	"github.com/trinity-lab/trinity/trainer/nn"
)

// AttachLoRA adds adapters of the given rank and scale (alpha/rank) to the seven decoder linears of w and matching
// gradients to grad (Trinity A.2: embeddings, head and vision are excluded). A starts uniform within 1/sqrt(in), B at
// zero, as PEFT does. It returns the adapters' parameters and gradients in PEFT's spelling; w's present values become
// the frozen base.
func AttachLoRA(c Config, w *Weights, grads []*Weights, rank int, scale float32, rng *rand.Rand) (params *AdapterSet, gradients []*AdapterSet) {
	params = newAdapterSet(c, w, rank, scale)
	for i := range params.Tensors {
		if t := &params.Tensors[i]; strings.HasSuffix(t.Name, "lora_A.weight") {
			bound := 1 / math.Sqrt(float64(t.Shape[1]))
			for j := range t.Data {
				t.Data[j] = float32((rng.Float64()*2 - 1) * bound)
			}
		}
	}
	params.base(w)
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

func newAdapterSet(c Config, w *Weights, rank int, scale float32) *AdapterSet {
	all := w.adapted(c)
	n := 0
	for _, a := range all {
		for _, p := range a.parts {
			n += rank * (a.linear.In + p.out)
		}
	}
	s := &AdapterSet{Flat: make([]float32, n)}
	rest := s.Flat
	take := func(name string, rows, cols int) []float32 {
		x := rest[: rows*cols : rows*cols]
		rest = rest[rows*cols:]
		s.Tensors = append(s.Tensors, Tensor{name, []int{rows, cols}, x})
		return x
	}
	for _, a := range all {
		row := 0
		a.linear.Adapters = nil
		for _, p := range a.parts {
			a.linear.Adapters = append(a.linear.Adapters, nn.Adapter{Row: row, Out: p.out, Rank: rank, Scale: scale,
				A: take(a.name+p.name+".lora_A.weight", rank, a.linear.In), B: take(a.name+p.name+".lora_B.weight", p.out, rank)})
			row += p.out
		}
	}
	return s
}

// base freezes the present weights under the adapters.
func (s *AdapterSet) base(w *Weights) {
	for i := range w.text.layers {
		l := &w.text.layers[i]
		for _, lin := range []*nn.Linear{&l.qkv, &l.o, &l.gateUp, &l.down} {
			for j := range lin.Adapters {
				a := &lin.Adapters[j]
				a.W0 = append([]float32(nil), lin.W[a.Row*lin.In:(a.Row+a.Out)*lin.In]...)
			}
		}
	}
}

// MergeLoRA recomputes the merged weights from the frozen base and the adapters.
func (w *Weights) MergeLoRA(g *cpu.Gemm) {
	for i := range w.text.layers {
		l := &w.text.layers[i]
		for _, lin := range []*nn.Linear{&l.qkv, &l.o, &l.gateUp, &l.down} {
			for j := range lin.Adapters {
				lin.Adapters[j].Merge(g, lin.W, lin.In)
			}
		}
	}
}
