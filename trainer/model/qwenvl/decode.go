package qwenvl

import (
	"slices"

	"github.com/trinity-lab/trinity/trainer/backend/cpu"
	"github.com/trinity-lab/trinity/trainer/nn"
)

// KV are the keys and values of consecutive positions: for each layer, rows [length, kvHeads·headDim].
type KV struct{ keys, values [][]float32 }

// Len returns the number of positions.
func (kv *KV) Len(c *Config) int {
	if kv == nil || len(kv.keys) == 0 {
		return 0
	}
	return len(kv.keys[0]) / (c.Text.KVHeads * c.Text.HeadDim)
}

// Fork returns a copy with room for extra further positions.
func (kv *KV) Fork(c *Config, extra int) *KV {
	room := func(layers [][]float32) [][]float32 {
		out := make([][]float32, len(layers))
		for i, x := range layers {
			out[i] = append(make([]float32, 0, len(x)+extra*c.Text.KVHeads*c.Text.HeadDim), x...)
		}
		return out
	}
	return &KV{room(kv.keys), room(kv.values)}
}

// keysValues copies the keys and values [len, kvHeads·headDim] of rows from a layer's activations.
func (n *TextNet) keysValues(a *textActivations, rows nn.Segment) (keys, values []float32) {
	t, row := &n.c.Text, n.attention.Row()
	width := t.KVHeads * t.HeadDim
	keys, values = make([]float32, 0, rows.Len*width), make([]float32, 0, rows.Len*width)
	for i := rows.Start; i < rows.Start+rows.Len; i++ {
		r := a.rotated[i*row+t.Heads*t.HeadDim : (i+1)*row]
		keys, values = append(keys, r[:width]...), append(values, r[width:]...)
	}
	return keys, values
}

// Logits returns the next-token logits [len(rows), vocab] at rows of the last Prefill, Score or Forward; the next call
// overwrites them.
func (n *TextNet) Logits(w *Weights, rows []int) []float32 {
	D := n.c.Text.HiddenSize
	hidden, x := nn.Grow(&n.hidden, len(rows)*D), n.inputs[len(n.layers)]
	for i, r := range rows {
		copy(hidden[i*D:i*D+D], x[r*D:r*D+D])
	}
	return n.project(w, hidden)
}

func (n *TextNet) project(w *Weights, hidden []float32) []float32 {
	t := &n.c.Text
	N := len(hidden) / t.HiddenSize
	normed, logits := nn.Grow(&n.normed, len(hidden)), nn.Grow(&n.probs, N*t.VocabSize)
	nn.RMSNormForward(hidden, w.text.norm, t.RMSNormEps, normed, nn.Grow(&n.inv, N))
	w.text.head.Forward(&n.g, N, normed, t.HiddenSize, logits, t.VocabSize, false)
	return logits
}

// Stream is one sequence being decoded: a prefix shared with others, its own positions, and the position of the next token.
type Stream struct {
	Prefix *KV // may be nil
	Own    *KV
	Next   int32
}

// Decoder advances streams one token at a time, together. It is not safe for concurrent use.
type Decoder struct {
	n                                                      *TextNet
	x, h, inv, qkv, out, gateUp, act, sig, cos, sin, score []float32
}

// NewDecoder returns a decoder that shares n's buffers for the output projection.
func NewDecoder(n *TextNet) *Decoder { return &Decoder{n: n} }

// Step feeds tokens[i] to streams[i], appends its keys and values, and returns the logits [len(streams), vocab] of the next
// tokens, which the next call overwrites. A stream's result does not depend on which others are stepped with it.
func (d *Decoder) Step(w *Weights, streams []*Stream, tokens []int32) []float32 {
	n, t := d.n, &d.n.c.Text
	M, D, F, half := len(streams), t.HiddenSize, t.IntermediateSize, t.HeadDim/2
	row := n.attention.Row()
	x, h, inv := nn.Grow(&d.x, M*D), nn.Grow(&d.h, M*D), nn.Grow(&d.inv, M)
	cos, sin := nn.Grow(&d.cos, M*half), nn.Grow(&d.sin, M*half)
	for i, s := range streams {
		copy(x[i*D:i*D+D], w.text.embed[int(tokens[i])*D:int(tokens[i])*D+D])
		n.rotary.Angles([3]int32{s.Next, s.Next, s.Next}, cos[i*half:i*half+half], sin[i*half:i*half+half])
		s.Next++
	}
	qkv, out := nn.Grow(&d.qkv, M*row), nn.Grow(&d.out, M*t.Heads*t.HeadDim)
	gateUp, act, sig := nn.Grow(&d.gateUp, M*2*F), nn.Grow(&d.act, M*F), nn.Grow(&d.sig, M*F)
	for li := range w.text.layers {
		l := &w.text.layers[li]
		nn.RMSNormForward(x, l.inputNorm, t.RMSNormEps, h, inv)
		l.qkv.Forward(&n.g, M, h, D, qkv, row, false)
		for i, s := range streams {
			d.attend(l, li, s, qkv[i*row:i*row+row], cos[i*half:i*half+half], sin[i*half:i*half+half], out[i*l.o.In:(i+1)*l.o.In])
		}
		l.o.Forward(&n.g, M, out, l.o.In, x, D, true)
		nn.RMSNormForward(x, l.postNorm, t.RMSNormEps, h, inv)
		l.gateUp.Forward(&n.g, M, h, D, gateUp, 2*F, false)
		nn.SwiGLUForward(gateUp, F, act, sig)
		l.down.Forward(&n.g, M, act, F, x, D, true)
	}
	return n.project(w, x)
}

// attend normalises and rotates the row's heads, appends its key and value to the stream and attends to all its positions.
func (d *Decoder) attend(l *textLayer, li int, s *Stream, row, cos, sin, out []float32) {
	n, t := d.n, &d.n.c.Text
	hd, width := t.HeadDim, t.KVHeads*t.HeadDim
	var head [maxHeadDim]float32
	for h := range t.Heads + t.KVHeads {
		gain := l.qNorm
		if h >= t.Heads {
			gain = l.kNorm
		}
		x := row[h*hd : h*hd+hd]
		copy(head[:], x)
		nn.HeadNormForward(head[:hd], gain, t.RMSNormEps, cos, sin, x)
	}
	rest := row[t.Heads*hd:]
	s.Own.keys[li], s.Own.values[li] = append(s.Own.keys[li], rest[:width]...), append(s.Own.values[li], rest[width:]...)
	own, pre := len(s.Own.keys[li])/width, s.Prefix.Len(n.c)
	score := nn.Grow(&d.score, pre+own)
	for h := range t.Heads {
		at := h / (t.Heads / t.KVHeads) * hd
		q, o := row[h*hd:h*hd+hd], out[h*hd:h*hd+hd]
		if pre > 0 {
			cpu.DotRows(q, s.Prefix.keys[li][at:], width, pre, score)
		}
		cpu.DotRows(q, s.Own.keys[li][at:], width, own, score[pre:])
		cpu.Scale(n.attention.Scale, score)
		cpu.Softmax(score)
		clear(o)
		if pre > 0 {
			cpu.AccumulateRows(score[:pre], s.Prefix.values[li][at:], width, pre, o)
		}
		cpu.AccumulateRows(score[pre:], s.Own.values[li][at:], width, own, o)
	}
}

// Detach returns deep copies of features, which outlive the VisionNet's buffers.
func (f Features) Detach() Features {
	out := Features{Tokens: slices.Clone(f.Tokens), GridH: f.GridH, GridW: f.GridW}
	for _, d := range f.Deep {
		out.Deep = append(out.Deep, slices.Clone(d))
	}
	return out
}
