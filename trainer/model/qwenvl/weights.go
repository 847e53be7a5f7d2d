package qwenvl

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/trinity-lab/trinity/trainer/nn"
)

// Tensor is one named weight, a view of its set's flat storage.
type Tensor struct {
	Name  string // in Hugging Face spelling
	Shape []int
	Data  []float32
}

// Weights are the model's parameters, or gradients of the same shape, as views of one flat slice. Tensors that were not
// kept are nil, which marks them as frozen in a gradient.
type Weights struct {
	Flat    []float32
	Tensors []Tensor
	vision  visionWeights
	text    textWeights
}

type visionWeights struct {
	patch    nn.Linear // [width, channels·time·patch·patch]
	position []float32 // [side², width]
	blocks   []visionBlock
	merger   merger
	deep     []merger
}

type visionBlock struct {
	norm1, norm2        nn.Norm
	qkv, proj, fc1, fc2 nn.Linear // fc1 of a gated block is gate and up in one
	gate, up            nn.Linear // its parts
}

// merger joins merge² patches into one token: norm before the shuffle (main) or after it (deepstack).
type merger struct {
	norm     nn.Norm
	fc1, fc2 nn.Linear
}

type textWeights struct {
	embed  []float32 // [vocab, hidden]
	layers []textLayer
	norm   []float32
	head   nn.Linear // [vocab, hidden]; the embedding where tied
}

type textLayer struct {
	inputNorm, postNorm, qNorm, kNorm []float32
	qkv, o, gateUp, down              nn.Linear
	q, k, v                           nn.Linear // parts of the fused linears
	gate, up                          []float32
}

// Size is the number of elements.
func (t Tensor) Size() int { return size(t.Shape) }

// Layout lists the architecture's tensors in the order of Weights, without storage.
func Layout(c Config) []Tensor {
	var out []Tensor
	blank(c).walk(c, func(name string, _ *[]float32, shape ...int) { out = append(out, Tensor{Name: name, Shape: shape}) })
	return out
}

// NewWeights allocates the tensors that keep accepts, zeroed; a nil keep accepts all.
func NewWeights(c Config, keep func(name string) bool) *Weights {
	w := blank(c)
	n := 0
	for _, t := range Layout(c) {
		if keep == nil || keep(t.Name) {
			n += t.Size()
		}
	}
	w.Flat = make([]float32, n)
	rest := w.Flat
	w.walk(c, func(name string, dst *[]float32, shape ...int) {
		if keep != nil && !keep(name) {
			return
		}
		k := size(shape)
		*dst = rest[:k]
		w.Tensors = append(w.Tensors, Tensor{name, shape, rest[:k:k]})
		rest = rest[k:]
	})
	w.derive(c)
	return w
}

// Fork returns weights that have copies of their own of the tensors that own accepts, in Flat, and share the others with
// w. The parts of a fused linear must be treated alike.
func (w *Weights) Fork(c Config, own func(name string) bool) *Weights {
	f := NewWeights(c, own)
	shared := map[string][]float32{}
	w.walk(c, func(name string, src *[]float32, _ ...int) { shared[name] = *src })
	f.Tensors = nil
	f.walk(c, func(name string, dst *[]float32, shape ...int) {
		if own(name) {
			copy(*dst, shared[name])
		} else {
			*dst = shared[name]
		}
		f.Tensors = append(f.Tensors, Tensor{name, shape, (*dst)[:size(shape):size(shape)]})
	})
	f.derive(c)
	return f
}

// blank has the right number of parts, without storage.
func blank(c Config) *Weights {
	w := &Weights{}
	w.vision.blocks = make([]visionBlock, c.Vision.Depth)
	w.vision.deep = make([]merger, len(c.Vision.DeepstackIndexes))
	w.text.layers = make([]textLayer, c.Text.Layers)
	return w
}

// derive sets what is made of tensors: fused linears and a tied head.
func (w *Weights) derive(c Config) {
	if c.Vision.Gated {
		for i := range w.vision.blocks {
			b := &w.vision.blocks[i]
			b.fc1.W, b.fc1.B = join(b.gate.W, b.up.W), join(b.gate.B, b.up.B)
		}
	}
	for i := range w.text.layers {
		l := &w.text.layers[i]
		l.qkv.W, l.qkv.B = join(l.q.W, l.k.W, l.v.W), join(l.q.B, l.k.B, l.v.B)
		l.gateUp.W = join(l.gate, l.up)
	}
	if c.TieWordEmbeddings {
		w.text.head.W = w.text.embed
	}
	w.setSizes(c)
}

// join returns the one slice that adjacent parts of the flat storage make; nil when they were not kept.
func join(parts ...[]float32) []float32 {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	if n == 0 {
		return nil
	}
	return parts[0][:n]
}

func size(shape []int) int {
	n := 1
	for _, s := range shape {
		n *= s
	}
	return n
}

// walk visits every tensor of the architecture in storage order. Parts of fused linears are adjacent.
func (w *Weights) walk(c Config, f func(name string, dst *[]float32, shape ...int)) {
	v, t := c.Vision, c.Text
	linear := func(name string, l *nn.Linear, out, in int) {
		f(name+".weight", &l.W, out, in)
		f(name+".bias", &l.B, out)
	}
	norm := func(name string, n *nn.Norm, d int) {
		f(name+".weight", &n.W, d)
		if !v.Gated {
			f(name+".bias", &n.B, d)
		}
	}
	const vis = "model.visual."
	f(vis+"patch_embed.proj.weight", &w.vision.patch.W, v.HiddenSize, v.InChannels, v.TemporalPatchSize, v.PatchSize, v.PatchSize)
	if !v.Gated {
		f(vis+"patch_embed.proj.bias", &w.vision.patch.B, v.HiddenSize)
		f(vis+"pos_embed.weight", &w.vision.position, v.PositionEmbeddings, v.HiddenSize)
	}
	for i := range w.vision.blocks {
		b, p := &w.vision.blocks[i], fmt.Sprintf("%sblocks.%d.", vis, i)
		norm(p+"norm1", &b.norm1, v.HiddenSize)
		norm(p+"norm2", &b.norm2, v.HiddenSize)
		linear(p+"attn.qkv", &b.qkv, 3*v.HiddenSize, v.HiddenSize)
		linear(p+"attn.proj", &b.proj, v.HiddenSize, v.HiddenSize)
		if v.Gated {
			f(p+"mlp.gate_proj.weight", &b.gate.W, v.IntermediateSize, v.HiddenSize)
			f(p+"mlp.up_proj.weight", &b.up.W, v.IntermediateSize, v.HiddenSize)
			f(p+"mlp.gate_proj.bias", &b.gate.B, v.IntermediateSize)
			f(p+"mlp.up_proj.bias", &b.up.B, v.IntermediateSize)
			linear(p+"mlp.down_proj", &b.fc2, v.HiddenSize, v.IntermediateSize)
			continue
		}
		linear(p+"mlp.linear_fc1", &b.fc1, v.IntermediateSize, v.HiddenSize)
		linear(p+"mlp.linear_fc2", &b.fc2, v.HiddenSize, v.IntermediateSize)
	}
	merged := v.HiddenSize * v.SpatialMergeSize * v.SpatialMergeSize
	normName, fc1, fc2 := "norm", "linear_fc1", "linear_fc2"
	if v.Gated {
		normName, fc1, fc2 = "ln_q", "mlp.0", "mlp.2"
	}
	merge := func(p string, m *merger, normed int) {
		norm(p+normName, &m.norm, normed)
		linear(p+fc1, &m.fc1, merged, merged)
		linear(p+fc2, &m.fc2, v.OutHiddenSize, merged)
	}
	merge(vis+"merger.", &w.vision.merger, v.HiddenSize)
	for i := range w.vision.deep {
		merge(fmt.Sprintf("%sdeepstack_merger_list.%d.", vis, i), &w.vision.deep[i], merged)
	}
	const lang = "model.language_model."
	f(lang+"embed_tokens.weight", &w.text.embed, t.VocabSize, t.HiddenSize)
	for i := range w.text.layers {
		l, p := &w.text.layers[i], fmt.Sprintf("%slayers.%d.", lang, i)
		f(p+"input_layernorm.weight", &l.inputNorm, t.HiddenSize)
		f(p+"self_attn.q_proj.weight", &l.q.W, t.Heads*t.HeadDim, t.HiddenSize)
		f(p+"self_attn.k_proj.weight", &l.k.W, t.KVHeads*t.HeadDim, t.HiddenSize)
		f(p+"self_attn.v_proj.weight", &l.v.W, t.KVHeads*t.HeadDim, t.HiddenSize)
		if t.Biased {
			f(p+"self_attn.q_proj.bias", &l.q.B, t.Heads*t.HeadDim)
			f(p+"self_attn.k_proj.bias", &l.k.B, t.KVHeads*t.HeadDim)
			f(p+"self_attn.v_proj.bias", &l.v.B, t.KVHeads*t.HeadDim)
		} else {
			f(p+"self_attn.q_norm.weight", &l.qNorm, t.HeadDim)
			f(p+"self_attn.k_norm.weight", &l.kNorm, t.HeadDim)
		}
		f(p+"self_attn.o_proj.weight", &l.o.W, t.HiddenSize, t.Heads*t.HeadDim)
		f(p+"post_attention_layernorm.weight", &l.postNorm, t.HiddenSize)
		f(p+"mlp.gate_proj.weight", &l.gate, t.IntermediateSize, t.HiddenSize)
		f(p+"mlp.up_proj.weight", &l.up, t.IntermediateSize, t.HiddenSize)
		f(p+"mlp.down_proj.weight", &l.down.W, t.HiddenSize, t.IntermediateSize)
	}
	f(lang+"norm.weight", &w.text.norm, t.HiddenSize)
	if !c.TieWordEmbeddings {
		f("lm_head.weight", &w.text.head.W, t.VocabSize, t.HiddenSize)
	}
}

func (w *Weights) setSizes(c Config) {
	set := func(l *nn.Linear, out, in int) { l.Out, l.In = out, in }
	v, t := c.Vision, c.Text
	set(&w.vision.patch, v.HiddenSize, v.patchDim())
	for i := range w.vision.blocks {
		b := &w.vision.blocks[i]
		set(&b.qkv, 3*v.HiddenSize, v.HiddenSize)
		set(&b.proj, v.HiddenSize, v.HiddenSize)
		set(&b.fc1, v.fc1Width(), v.HiddenSize)
		set(&b.fc2, v.HiddenSize, v.IntermediateSize)
	}
	merged := v.HiddenSize * v.SpatialMergeSize * v.SpatialMergeSize
	for _, m := range w.mergers() {
		set(&m.fc1, merged, merged)
		set(&m.fc2, v.OutHiddenSize, merged)
	}
	for i := range w.text.layers {
		l := &w.text.layers[i]
		set(&l.qkv, (t.Heads+2*t.KVHeads)*t.HeadDim, t.HiddenSize)
		set(&l.o, t.HiddenSize, t.Heads*t.HeadDim)
		set(&l.gateUp, 2*t.IntermediateSize, t.HiddenSize)
		set(&l.down, t.HiddenSize, t.IntermediateSize)
	}
	set(&w.text.head, t.VocabSize, t.HiddenSize)
}

// mergers lists the main merger and the deepstack ones.
func (w *Weights) mergers() []*merger {
	ms := []*merger{&w.vision.merger}
	for i := range w.vision.deep {
		ms = append(ms, &w.vision.deep[i])
	}
	return ms
}

// IsVision says whether a tensor belongs to the vision encoder or its mergers.
func IsVision(name string) bool { return strings.HasPrefix(name, "model.visual.") }

// Decayed says whether AdamW's weight decay applies: to matrices, not to norms, biases, embeddings or positions.
func Decayed(name string, shape []int) bool {
	return len(shape) > 1 && !strings.Contains(name, "embed_tokens") && !strings.Contains(name, "pos_embed")
}

// Initialise draws weights for training a small model from scratch. Residual outputs are scaled by 1/sqrt(2 layers); where
// the patch embedding has a bias, a white patch (+1 in every channel) starts near zero, so that ink is what tokens carry.
func (w *Weights) Initialise(c Config, rng *rand.Rand) {
	normal := func(x []float32, sd float64) {
		for i := range x {
			x[i] = float32(rng.NormFloat64() * sd)
		}
	}
	for _, t := range w.Tensors {
		fanIn := t.Shape[len(t.Shape)-1]
		if strings.Contains(t.Name, "patch_embed") {
			fanIn = c.Vision.patchDim()
		}
		residual := strings.Contains(t.Name, "o_proj") || strings.Contains(t.Name, "down_proj")
		residualVision := strings.Contains(t.Name, "attn.proj") || strings.Contains(t.Name, "blocks") && (strings.Contains(t.Name, "linear_fc2") || residual)
		switch sd := 1 / math.Sqrt(float64(fanIn)); {
		case strings.HasSuffix(t.Name, "bias"):
			clear(t.Data)
		case len(t.Shape) == 1:
			fill(t.Data, 1)
		case strings.Contains(t.Name, "embed_tokens"):
			normal(t.Data, 0.4)
		case strings.Contains(t.Name, "pos_embed"):
			normal(t.Data, 0.3)
		case residualVision:
			normal(t.Data, sd/math.Sqrt(float64(2*c.Vision.Depth)))
		case residual:
			normal(t.Data, sd/math.Sqrt(float64(2*c.Text.Layers)))
		default:
			normal(t.Data, sd)
		}
	}
	p := &w.vision.patch
	for o := range p.B {
		for _, x := range p.W[o*p.In : (o+1)*p.In] {
			p.B[o] -= x
		}
	}
}

func fill[T any](x []T, v T) {
	for i := range x {
		x[i] = v
	}
}
