package qwenvl

import (
	"math"

	"github.com/trinity-lab/trinity/trainer/backend/cpu"
	"github.com/trinity-lab/trinity/trainer/nn"
)

// TextNet runs the decoder; it owns its activations and is not safe for concurrent use.
type TextNet struct {
	c         *Config
	g         cpu.Gemm
	attention nn.Attention
	rotary    Rotary
	cos, sin  []float32 // [rows, headDim/2]
	layers    []textActivations
	x         []float32 // output of the last layer [rows, hidden]
	hidden    []float32 // target rows before the final norm [targets, hidden]
	normed    []float32
	inv       []float32
	probs     []float32 // target distributions [targets, vocab]
	logProbs  []float32
	scratch   textScratch
}

type textActivations struct {
	x, h1, inv1, qkv, rotated, invHead, out, mid, h2, inv2, gateUp, act, sig []float32
}

type textScratch struct{ dx, dh, dqkv, drotated, dout, dgateUp, dact, dhidden, dnormed, lora []float32 }

// NewTextNet returns a net for c.
func NewTextNet(c *Config) *TextNet {
	t := &c.Text
	return &TextNet{c: c, layers: make([]textActivations, t.Layers), rotary: NewRotary(t),
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

// Forward runs the decoder over b and returns the log-probability (natural, over the full vocabulary) of each target.
func (n *TextNet) Forward(w *Weights, b *Batch) []float32 {
	t, N := &n.c.Text, b.Rows()
	D, F, A := t.HiddenSize, t.IntermediateSize, &n.attention
	half := t.HeadDim / 2
	cos, sin := nn.Grow(&n.cos, N*half), nn.Grow(&n.sin, N*half)
	for i, p := range b.Positions {
		n.rotary.Angles(p, cos[i*half:i*half+half], sin[i*half:i*half+half])
	}
	n.embed(w, b)
	for li := range n.layers {
		a, l := &n.layers[li], &w.text.layers[li]
		h1 := nn.Grow(&a.h1, N*D)
		nn.RMSNormForward(a.x, l.inputNorm, t.RMSNormEps, h1, nn.Grow(&a.inv1, N))
		qkv := nn.Grow(&a.qkv, N*A.Row())
		l.qkv.Forward(&n.g, N, h1, D, qkv, A.Row(), false)
		n.headNorms(a, l, N)
		out := nn.Grow(&a.out, N*l.o.In)
		A.Forward(&n.g, b.Groups, a.rotated, out)
		mid := nn.Grow(&a.mid, N*D)
		copy(mid, a.x)
		l.o.Forward(&n.g, N, out, l.o.In, mid, D, true)
		h2 := nn.Grow(&a.h2, N*D)
		nn.RMSNormForward(mid, l.postNorm, t.RMSNormEps, h2, nn.Grow(&a.inv2, N))
		gateUp, act := nn.Grow(&a.gateUp, N*2*F), nn.Grow(&a.act, N*F)
		l.gateUp.Forward(&n.g, N, h2, D, gateUp, 2*F, false)
		nn.SwiGLUForward(gateUp, F, act, nn.Grow(&a.sig, N*F))
		next := &n.x
		if li+1 < len(n.layers) {
			next = &n.layers[li+1].x
		}
		y := nn.Grow(next, N*D)
		copy(y, mid)
		l.down.Forward(&n.g, N, act, F, y, D, true)
		n.deepstack(b, li, y)
	}
	return n.headForward(w, b)
}

// Hidden returns the rows [rows, hidden] that a layer of the last Forward read, 0 being the embeddings with the images'
// features; layer = number of layers returns what the final norm reads. It is a view that the next call overwrites.
func (n *TextNet) Hidden(layer int) []float32 {
	if layer == len(n.layers) {
		return n.x
	}
	return n.layers[layer].x
}

func (n *TextNet) embed(w *Weights, b *Batch) {
	D := n.c.Text.HiddenSize
	x := nn.Grow(&n.layers[0].x, b.Rows()*D)
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
	rotated, inv := nn.Grow(&a.rotated, rows*row), nn.Grow(&a.invHead, rows*heads)
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

func (n *TextNet) headForward(w *Weights, b *Batch) []float32 {
	t, D, N := &n.c.Text, n.c.Text.HiddenSize, len(b.TargetRow)
	hidden := nn.Grow(&n.hidden, N*D)
	for i, r := range b.TargetRow {
		copy(hidden[i*D:i*D+D], n.x[int(r)*D:int(r)*D+D])
	}
	normed := nn.Grow(&n.normed, N*D)
	nn.RMSNormForward(hidden, w.text.norm, t.RMSNormEps, normed, nn.Grow(&n.inv, N))
	logits := nn.Grow(&n.probs, N*t.VocabSize)
	w.text.head.Forward(&n.g, N, normed, D, logits, t.VocabSize, false)
	lp := nn.Grow(&n.logProbs, N)
	for i, tok := range b.TargetToken {
		row := logits[i*t.VocabSize : (i+1)*t.VocabSize]
		lp[i] = row[tok] - cpu.LogSumExp(row)
		cpu.Softmax(row)
	}
	return lp
}

// Backward adds to grad the gradient of Σ coef[i]·logProb[i] of the last Forward, and returns the gradients of the image
// features when features is set (nil otherwise), as views that the next call overwrites.
func (n *TextNet) Backward(w *Weights, b *Batch, coef []float32, grad *Weights, features bool) []Features {
	t, N, A, s := &n.c.Text, b.Rows(), &n.attention, &n.scratch
	D, F := t.HiddenSize, t.IntermediateSize
	dx := n.headBackward(w, b, coef, grad)
	var dFeatures []Features
	if features {
		dFeatures = make([]Features, len(b.Images))
	}
	for li := len(n.layers) - 1; li >= 0; li-- {
		a, l, gl := &n.layers[li], &w.text.layers[li], &grad.text.layers[li]
		for i := range dFeatures {
			im := &b.Images[i]
			if li < len(im.Features.Deep) {
				dFeatures[i].Deep = append([][]float32{append([]float32(nil), imageRows(dx, im, D)...)}, dFeatures[i].Deep...)
			}
		}
		dact, dgateUp, dh := nn.Grow(&s.dact, N*F), nn.Grow(&s.dgateUp, N*2*F), nn.Grow(&s.dh, N*D)
		l.down.Backward(&n.g, N, a.act, F, dx, D, dact, F, false, &gl.down, &s.lora)
		nn.SwiGLUBackward(a.gateUp, F, a.sig, dact, dgateUp)
		l.gateUp.Backward(&n.g, N, a.h2, D, dgateUp, 2*F, dh, D, false, &gl.gateUp, &s.lora)
		nn.RMSNormBackward(a.mid, l.postNorm, a.inv2, dh, dx, gl.postNorm)
		dout := nn.Grow(&s.dout, N*l.o.In)
		l.o.Backward(&n.g, N, a.out, l.o.In, dx, D, dout, l.o.In, false, &gl.o, &s.lora)
		drotated := nn.Grow(&s.drotated, N*A.Row())
		clear(drotated)
		A.Backward(&n.g, b.Groups, a.rotated, dout, drotated)
		n.headNormsBackward(a, l, gl, drotated, N)
		l.qkv.Backward(&n.g, N, a.h1, D, s.dqkv, A.Row(), dh, D, false, &gl.qkv, &s.lora)
		nn.RMSNormBackward(a.x, l.inputNorm, a.inv1, dh, dx, gl.inputNorm)
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

func (n *TextNet) headBackward(w *Weights, b *Batch, coef []float32, grad *Weights) []float32 {
	D, V, N, s := n.c.Text.HiddenSize, n.c.Text.VocabSize, len(b.TargetRow), &n.scratch
	for i, tok := range b.TargetToken { // d logProb / d logits = onehot - softmax
		row := n.probs[i*V : (i+1)*V]
		cpu.Scale(-coef[i], row)
		row[tok] += coef[i]
	}
	dnormed := nn.Grow(&s.dnormed, N*D)
	w.text.head.Backward(&n.g, N, n.normed, D, n.probs, V, dnormed, D, false, &grad.text.head, &s.lora)
	dhidden := nn.Grow(&s.dhidden, N*D)
	clear(dhidden)
	nn.RMSNormBackward(n.hidden, w.text.norm, n.inv, dnormed, dhidden, grad.text.norm)
	dx := nn.Grow(&s.dx, b.Rows()*D)
	clear(dx)
	for i, r := range b.TargetRow {
		cpu.Add(dx[int(r)*D:int(r)*D+D], dhidden[i*D:i*D+D])
	}
	return dx
}

func (n *TextNet) headNormsBackward(a *textActivations, l, gl *textLayer, drotated []float32, rows int) {
	t, row := &n.c.Text, n.attention.Row()
	d, half, heads := t.HeadDim, t.HeadDim/2, t.Heads+t.KVHeads
	dqkv := nn.Grow(&n.scratch.dqkv, rows*row)
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
