package qwenvl

import (
	"math"

	"github.com/trinity-lab/trinity/trainer/backend/cpu"
	"github.com/trinity-lab/trinity/trainer/nn"
)

// TextNet runs the decoder; it owns its activations and is not safe for concurrent use.
type TextNet struct {
	// Checkpointing keeps of every layer its input alone, from which Backward computes the rest once more: one layer's
	// activations instead of all layers', for about a third more work. It changes no bit of a gradient.
	Checkpointing bool

	c         *Config
	g         cpu.Gemm
	attention nn.Attention
	rotary    Rotary
	cos, sin  []float32   // [rows, headDim/2]
	inputs    [][]float32 // of each layer, and the output of the last [layers+1][rows, hidden]
	layers    []textActivations
	hidden    []float32 // target rows before the final norm [targets, hidden]
	normed    []float32
	inv       []float32
	probs     []float32 // target distributions [targets, vocab], or those of the last strip of targets
	logProbs  []float32
	headStrip int // targets
	reserved  int // rows
	scratch   textScratch
}

type textActivations struct {
	h1, inv1, qkv, rotated, invHead, out, mid, h2, inv2, gateUp, act, sig []float32
}

// LayerFloats is the number of a layer's activations a row, its input included.
func (t *TextConfig) LayerFloats() int {
	heads := t.Heads + t.KVHeads
	return 4*t.HiddenSize + 2*(heads+t.KVHeads)*t.HeadDim + t.Heads*t.HeadDim + 4*t.IntermediateSize + heads + 2
}

// KVFloats is the number of keys and values a row, over all layers.
func (t *TextConfig) KVFloats() int { return 2 * t.Layers * t.KVHeads * t.HeadDim }

type textScratch struct{ dx, drotated, dhidden, dnormed, lora []float32 }

// NewTextNet returns a net for c.
func NewTextNet(c *Config) *TextNet {
	t := &c.Text
	return &TextNet{c: c, inputs: make([][]float32, t.Layers+1), layers: make([]textActivations, t.Layers), rotary: NewRotary(t), headStrip: max(headRows, headFloats/t.VocabSize),
		attention: nn.Attention{Heads: t.Heads, KVHeads: t.KVHeads, HeadDim: t.HeadDim, Scale: float32(1 / math.Sqrt(float64(t.HeadDim)))}}
}

// Rotary turns M-RoPE positions into angles: each frequency belongs to time, height or width.
type Rotary struct {
	frequency []float64
	axis      []int // 0 time, 1 height, 2 width
}

// NewRotary returns the rotary embedding of t.
func NewRotary(t *TextConfig) Rotary {
	half := t.HeadDim / 2
	r := Rotary{make([]float64, half), make([]int, half)}
	for j := range half {
		r.frequency[j] = math.Pow(t.Rope.Theta, -float64(j)/float64(half))
		if a := j % 3; t.Rope.Interleaved && a > 0 && j < 3*t.Rope.MRopeSection[a] {
			r.axis[j] = a
		}
	}
	if s := t.Rope.MRopeSection; !t.Rope.Interleaved {
		fill(r.axis[s[0]:s[0]+s[1]], 1)
		fill(r.axis[s[0]+s[1]:], 2)
	}
	return r
}

// Angles writes the cosines and sines of position p [headDim/2].
func (r *Rotary) Angles(p [3]int32, cos, sin []float32) {
	for j, f := range r.frequency {
		s, c := math.Sincos(float64(p[r.axis[j]]) * f)
		cos[j], sin[j] = float32(c), float32(s)
	}
}

// Reserve says that batches of up to so many rows are to come: buffers are then allocated once.
func (n *TextNet) Reserve(rows int) { n.reserved = rows }

// grow returns a buffer [rows, width] of arbitrary contents.
func (n *TextNet) grow(buf *[]float32, rows, width int) []float32 {
	if rows < n.reserved && cap(*buf) < rows*width {
		nn.Grow(buf, n.reserved*width)
	}
	return nn.Grow(buf, rows*width)
}

// keep says what a forward pass leaves behind.
type keep int

const (
	keepOutput      keep = iota // the last layer's output
	keepInputs                  // the input of every layer as well
	keepActivations             // all that the backward pass reads
)

func trainingKeep(checkpointing bool) keep {
	if checkpointing {
		return keepInputs
	}
	return keepActivations
}

// Forward runs the decoder over b and returns the log-probability (natural, over the full vocabulary) of each target. Backward
// may follow.
func (n *TextNet) Forward(w *Weights, b *Batch) []float32 {
	k := trainingKeep(n.Checkpointing)
	n.forward(w, b, k, nil)
	return n.headForward(w, b, k)
}

// Score is Forward where no Backward follows: it holds one layer's activations.
func (n *TextNet) Score(w *Weights, b *Batch) []float32 {
	n.forward(w, b, keepOutput, nil)
	return n.headForward(w, b, keepOutput)
}

// Prefill runs the decoder over b, for Logits, and returns copies of the keys and values of runs of rows.
func (n *TextNet) Prefill(w *Weights, b *Batch, runs []nn.Segment) []*KV {
	out := make([]*KV, len(runs))
	for i := range out {
		out[i] = &KV{make([][]float32, len(n.layers)), make([][]float32, len(n.layers))}
	}
	n.forward(w, b, keepOutput, func(li int, a *textActivations) {
		for i, rows := range runs {
			out[i].keys[li], out[i].values[li] = n.keysValues(a, rows)
		}
	})
	return out
}

// forward computes the output of the last layer; visit, if any, sees each layer's activations.
func (n *TextNet) forward(w *Weights, b *Batch, k keep, visit func(li int, a *textActivations)) {
	t, N := &n.c.Text, b.Rows()
	D, F := t.HiddenSize, t.IntermediateSize
	half := t.HeadDim / 2
	cos, sin := n.grow(&n.cos, N, half), n.grow(&n.sin, N, half)
	for i, p := range b.Positions {
		n.rotary.Angles(p, cos[i*half:i*half+half], sin[i*half:i*half+half])
	}
	input := func(li int) *[]float32 {
		if k == keepOutput {
			return &n.inputs[len(n.layers)] // a layer is done with its input when it writes its output
		}
		return &n.inputs[li]
	}
	n.embed(w, b, n.grow(input(0), N, D))
	for li := range n.layers {
		a, l := n.activations(li, k), &w.text.layers[li]
		n.layer(a, l, b, *input(li))
		if visit != nil {
			visit(li, a)
		}
		y := n.grow(input(li+1), N, D)
		copy(y, a.mid)
		l.down.Forward(&n.g, N, a.act, F, y, D, true)
		n.deepstack(b, li, y)
	}
}

// activations is where layer li's are held.
func (n *TextNet) activations(li int, k keep) *textActivations {
	if k == keepActivations {
		return &n.layers[li]
	}
	return &n.layers[0]
}

// layer fills the activations of a layer from its input x.
func (n *TextNet) layer(a *textActivations, l *textLayer, b *Batch, x []float32) {
	t, N, A := &n.c.Text, b.Rows(), &n.attention
	D, F := t.HiddenSize, t.IntermediateSize
	h1 := n.grow(&a.h1, N, D)
	nn.RMSNormForward(x, l.inputNorm, t.RMSNormEps, h1, n.grow(&a.inv1, N, 1))
	qkv := n.grow(&a.qkv, N, A.Row())
	l.qkv.Forward(&n.g, N, h1, D, qkv, A.Row(), false)
	n.headNorms(a, l, N)
	out := n.grow(&a.out, N, l.o.In)
	A.Forward(&n.g, b.Groups, a.rotated, out)
	mid := n.grow(&a.mid, N, D)
	copy(mid, x)
	l.o.Forward(&n.g, N, out, l.o.In, mid, D, true)
	h2 := n.grow(&a.h2, N, D)
	nn.RMSNormForward(mid, l.postNorm, t.RMSNormEps, h2, n.grow(&a.inv2, N, 1))
	gateUp, act := n.grow(&a.gateUp, N, 2*F), n.grow(&a.act, N, F)
	l.gateUp.Forward(&n.g, N, h2, D, gateUp, 2*F, false)
	nn.SwiGLUForward(gateUp, F, act, n.grow(&a.sig, N, F))
}

// Hidden returns the rows [rows, hidden] that a layer of the last Forward read, 0 being the embeddings with the images'
// features; layer = number of layers returns what the final norm reads. It is a view that the next call overwrites.
func (n *TextNet) Hidden(layer int) []float32 { return n.inputs[layer] }

func (n *TextNet) embed(w *Weights, b *Batch, x []float32) {
	D := n.c.Text.HiddenSize
	for i, t := range b.Tokens {
		copy(x[i*D:i*D+D], w.text.embed[int(t)*D:int(t)*D+D])
	}
	for _, im := range b.Images {
		copy(x[im.Start*D:], im.Features.Tokens)
	}
}

// deepstack adds level li's features at the image rows of a layer's output.
func (n *TextNet) deepstack(b *Batch, li int, y []float32) {
	D := n.c.Text.HiddenSize
	for _, im := range b.Images {
		if li < len(im.Features.Deep) {
			f := im.Features.Deep[li]
			cpu.Add(y[im.Start*D:im.Start*D+len(f)], f)
		}
	}
}

// headNorms fills a.rotated: queries and keys normalised (Qwen3-VL) and rotated, values copied.
func (n *TextNet) headNorms(a *textActivations, l *textLayer, rows int) {
	t, row := &n.c.Text, n.attention.Row()
	d, half, heads := t.HeadDim, t.HeadDim/2, t.Heads+t.KVHeads
	rotated, inv := n.grow(&a.rotated, rows, row), n.grow(&a.invHead, rows, heads)
	for i := range rows {
		cos, sin := n.cos[i*half:i*half+half], n.sin[i*half:i*half+half]
		from, to := a.qkv[i*row:i*row+row], rotated[i*row:i*row+row]
		for h := range heads {
			gain := l.qNorm
			if h >= t.Heads {
				gain = l.kNorm
			}
			inv[i*heads+h] = nn.HeadNormForward(from[h*d:h*d+d], gain, t.RMSNormEps, cos, sin, to[h*d:h*d+d])
		}
		copy(to[heads*d:], from[heads*d:])
	}
}

// Unless all target distributions are kept they are computed in strips: with a real vocabulary those of a batch are larger
// than anything else.
const (
	headFloats = 1 << 20 // of a strip
	headRows   = 64      // targets of a strip at least: with fewer, reading the head's weights takes longer than multiplying
)

// headTargets is the number of targets whose distributions are held at once.
func (n *TextNet) headTargets(k keep, targets int) int {
	if k == keepActivations {
		return targets
	}
	return min(targets, n.headStrip)
}

func (n *TextNet) headForward(w *Weights, b *Batch, k keep) []float32 {
	t, D, N := &n.c.Text, n.c.Text.HiddenSize, len(b.TargetRow)
	hidden, x := nn.Grow(&n.hidden, N*D), n.inputs[len(n.layers)]
	for i, r := range b.TargetRow {
		copy(hidden[i*D:i*D+D], x[int(r)*D:int(r)*D+D])
	}
	normed := nn.Grow(&n.normed, N*D)
	nn.RMSNormForward(hidden, w.text.norm, t.RMSNormEps, normed, nn.Grow(&n.inv, N))
	nn.Grow(&n.logProbs, N)
	strip := n.headTargets(k, N)
	for lo := 0; lo < N; lo += strip {
		n.headProbs(w, b, lo, min(lo+strip, N))
	}
	return n.logProbs
}

// headProbs fills the distributions of targets [lo, hi), and their log-probs.
func (n *TextNet) headProbs(w *Weights, b *Batch, lo, hi int) {
	D, V := n.c.Text.HiddenSize, n.c.Text.VocabSize
	logits := nn.Grow(&n.probs, (hi-lo)*V)
	w.text.head.Forward(&n.g, hi-lo, n.normed[lo*D:hi*D], D, logits, V, false)
	for i := lo; i < hi; i++ {
		row := logits[(i-lo)*V : (i-lo+1)*V]
		n.logProbs[i] = row[b.TargetToken[i]] - cpu.LogSumExp(row)
		cpu.Softmax(row)
	}
}

// Backward adds to grad the gradient of Σ coef[i]·logProb[i] of the last Forward, and returns the gradients of the image
// features when features is set (nil otherwise), as views that the next call overwrites.
func (n *TextNet) Backward(w *Weights, b *Batch, coef []float32, grad *Weights, features bool) []Features {
	t, N, A, s := &n.c.Text, b.Rows(), &n.attention, &n.scratch
	D, F := t.HiddenSize, t.IntermediateSize
	k := trainingKeep(n.Checkpointing)
	dx := n.headBackward(w, b, coef, grad, k)
	var dFeatures []Features
	if features {
		dFeatures = make([]Features, len(b.Images))
	}
	for li := len(n.layers) - 1; li >= 0; li-- {
		a, x, l, gl := n.activations(li, k), n.inputs[li], &w.text.layers[li], &grad.text.layers[li]
		if k == keepInputs && li+1 < len(n.layers) { // the last layer's are still there
			n.layer(a, l, b, x)
		}
		for i := range dFeatures {
			im := &b.Images[i]
			if li < len(im.Features.Deep) {
				dFeatures[i].Deep = append([][]float32{append([]float32(nil), imageRows(dx, im, D)...)}, dFeatures[i].Deep...)
			}
		}
		// Each gradient takes the place of the activation it is of, which nothing reads afterwards.
		l.down.Backward(&n.g, N, a.act, F, dx, D, a.act, F, false, &gl.down, &s.lora)
		nn.SwiGLUBackward(a.gateUp, F, a.sig, a.act, a.gateUp)
		l.gateUp.Backward(&n.g, N, a.h2, D, a.gateUp, 2*F, a.h2, D, false, &gl.gateUp, &s.lora)
		nn.RMSNormBackward(a.mid, l.postNorm, a.inv2, a.h2, dx, gl.postNorm)
		l.o.Backward(&n.g, N, a.out, l.o.In, dx, D, a.out, l.o.In, false, &gl.o, &s.lora)
		drotated := n.grow(&s.drotated, N, A.Row())
		clear(drotated)
		A.Backward(&n.g, b.Groups, a.rotated, a.out, drotated)
		n.headNormsBackward(a, l, gl, drotated, N)
		l.qkv.Backward(&n.g, N, a.h1, D, a.rotated, A.Row(), a.h1, D, false, &gl.qkv, &s.lora)
		nn.RMSNormBackward(x, l.inputNorm, a.inv1, a.h1, dx, gl.inputNorm)
	}
	n.embedBackward(b, dx, grad)
	for i := range dFeatures {
		im := &b.Images[i]
		dFeatures[i].Tokens = imageRows(dx, im, D)
		dFeatures[i].GridH, dFeatures[i].GridW = im.Features.GridH, im.Features.GridW
	}
	return dFeatures
}

func imageRows(x []float32, im *ImageRows, d int) []float32 {
	return x[im.Start*d : im.Start*d+len(im.Features.Tokens)]
}

func (n *TextNet) headBackward(w *Weights, b *Batch, coef []float32, grad *Weights, k keep) []float32 {
	D, V, N, s := n.c.Text.HiddenSize, n.c.Text.VocabSize, len(b.TargetRow), &n.scratch
	dnormed, strip := nn.Grow(&s.dnormed, N*D), n.headTargets(k, N)
	for lo := 0; lo < N; lo += strip {
		hi := min(lo+strip, N)
		if strip < N {
			n.headProbs(w, b, lo, hi)
		}
		for i := lo; i < hi; i++ { // d logProb / d logits = onehot - softmax
			row := n.probs[(i-lo)*V : (i-lo+1)*V]
			cpu.Scale(-coef[i], row)
			row[b.TargetToken[i]] += coef[i]
		}
		w.text.head.Backward(&n.g, hi-lo, n.normed[lo*D:hi*D], D, n.probs, V, dnormed[lo*D:hi*D], D, false, &grad.text.head, &s.lora)
	}
	dhidden := nn.Grow(&s.dhidden, N*D)
	clear(dhidden)
	nn.RMSNormBackward(n.hidden, w.text.norm, n.inv, dnormed, dhidden, grad.text.norm)
	dx := n.grow(&s.dx, b.Rows(), D)
	clear(dx)
	for i, r := range b.TargetRow {
		cpu.Add(dx[int(r)*D:int(r)*D+D], dhidden[i*D:i*D+D])
	}
	return dx
}

func (n *TextNet) headNormsBackward(a *textActivations, l, gl *textLayer, drotated []float32, rows int) {
	t, row := &n.c.Text, n.attention.Row()
	d, half, heads := t.HeadDim, t.HeadDim/2, t.Heads+t.KVHeads
	dqkv := a.rotated // which the attention has done with
	for i := range rows {
		cos, sin := n.cos[i*half:i*half+half], n.sin[i*half:i*half+half]
		for h := range heads {
			gain, dgain := l.qNorm, gl.qNorm
			if h >= t.Heads {
				gain, dgain = l.kNorm, gl.kNorm
			}
			at := i*row + h*d
			nn.HeadNormBackward(a.qkv[at:at+d], gain, a.invHead[i*heads+h], cos, sin, drotated[at:at+d], dqkv[at:at+d], dgain)
		}
		copy(dqkv[i*row+heads*d:i*row+row], drotated[i*row+heads*d:i*row+row])
	}
}

func (n *TextNet) embedBackward(b *Batch, dx []float32, grad *Weights) {
	D, e := n.c.Text.HiddenSize, grad.text.embed
	if e == nil {
		return
	}
	image := 0
	for i := 0; i < len(b.Tokens); {
		if image < len(b.Images) && b.Images[image].Start == i {
			i += len(b.Images[image].Features.Tokens) / D
			image++
			continue
		}
		t := int(b.Tokens[i])
		cpu.Add(e[t*D:t*D+D], dx[i*D:i*D+D])
		i++
	}
}
