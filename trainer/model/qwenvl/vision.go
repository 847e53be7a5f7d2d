package qwenvl

import (
	"math"
	"slices"

	"github.com/trinity-lab/trinity/trainer/backend/cpu"
	"github.com/trinity-lab/trinity/trainer/nn"
)

// Image is a preprocessed picture: patches [GridH·GridW, channels·time·patch·patch] in merge order (the patches that a
// token joins are adjacent), GridH and GridW counted in patches.
type Image struct {
	Patches      []float32
	GridH, GridW int
}

// Features are an image's tokens [n, hidden] and, for each deepstack level, what is added to them after a decoder layer.
type Features struct {
	Tokens       []float32
	Deep         [][]float32
	GridH, GridW int // in merged tokens
}

// VisionNet runs the vision transformer; it owns its activations and is not safe for concurrent use.
type VisionNet struct {
	// Checkpointing is that of TextNet, over blocks.
	Checkpointing bool

	c         *VisionConfig
	g         cpu.Gemm
	attention nn.Attention
	rows      int
	images    []nn.Group // each image attends to itself
	windows   []nn.Group // each window of an image does
	order     []int      // row-major index of each token, in the order that brings the tokens of a window together; nil without windows
	lookup    []positionLookup
	patches   []float32
	cos, sin  []float32 // [rows, headDim/2]
	blocks    []visionActivations
	inputs    [][]float32 // of each block, and the output of the last [depth+1][rows, hidden]
	merge     []mergerActivations
	scratch   visionScratch
}

type visionActivations struct {
	h1, mean1, inv1, qkv, out, mid, h2, mean2, inv2, fc1, saved, act []float32
}

type mergerActivations struct{ normed, mean, inv, fc1, act, out, ordered []float32 }

type visionScratch struct{ dx, dh, dqkv, dout, dfc, dact, dordered, lora []float32 }

// positionLookup are the four table rows and weights of one patch's bilinearly interpolated position.
type positionLookup struct {
	index  [4]int
	weight [4]float32
}

// NewVisionNet returns a net for c.
func NewVisionNet(c *VisionConfig) *VisionNet {
	d := c.HiddenSize / c.Heads
	return &VisionNet{c: c, inputs: make([][]float32, c.Depth+1), blocks: make([]visionActivations, c.Depth), merge: make([]mergerActivations, 1+len(c.DeepstackIndexes)),
		attention: nn.Attention{Heads: c.Heads, KVHeads: c.Heads, HeadDim: d, Scale: float32(1 / math.Sqrt(float64(d)))}}
}

// Forward encodes images. The returned features are views that the next call overwrites. Backward may follow.
func (n *VisionNet) Forward(w *Weights, images []Image) []Features {
	return n.forward(w, images, trainingKeep(n.Checkpointing))
}

// Encode is Forward where no Backward follows: it holds one block's activations.
func (n *VisionNet) Encode(w *Weights, images []Image) []Features {
	return n.forward(w, images, keepOutput)
}

func (n *VisionNet) forward(w *Weights, images []Image, k keep) []Features {
	n.layout(images)
	v, c, g := &w.vision, n.c, &n.g
	N, D, F := n.rows, c.HiddenSize, c.IntermediateSize
	input := func(i int) *[]float32 {
		if k == keepOutput {
			return &n.inputs[len(n.blocks)] // a block is done with its input when it writes its output
		}
		return &n.inputs[i]
	}
	x := nn.Grow(input(0), N*D)
	v.patch.Forward(g, N, n.patches, v.patch.In, x, D, false)
	for i, p := range n.lookup {
		for k, idx := range p.index {
			cpu.Axpy(p.weight[k], v.position[idx*D:idx*D+D], x[i*D:i*D+D])
		}
	}
	deep := make([][]float32, len(v.deep))
	for i := range n.blocks {
		a, b := n.activations(i, k), &v.blocks[i]
		n.block(a, b, i, *input(i))
		y := nn.Grow(input(i+1), N*D)
		copy(y, a.mid)
		b.fc2.Forward(g, N, a.act, F, y, D, true)
		for k, idx := range c.DeepstackIndexes {
			if idx == i {
				deep[k] = n.mergeForward(&v.deep[k], &n.merge[1+k], y)
			}
		}
	}
	tokens := n.mergeForward(&v.merger, &n.merge[0], n.inputs[len(n.blocks)])
	return n.split(images, tokens, deep)
}

// activations is where block i's are held.
func (n *VisionNet) activations(i int, k keep) *visionActivations {
	if k == keepActivations {
		return &n.blocks[i]
	}
	return &n.blocks[0]
}

// block fills the activations of block i from its input x.
func (n *VisionNet) block(a *visionActivations, b *visionBlock, i int, x []float32) {
	c, g := n.c, &n.g
	N, D, F := n.rows, c.HiddenSize, c.IntermediateSize
	h1 := nn.Grow(&a.h1, N*D)
	b.norm1.Forward(x, visionEps, h1, nn.Grow(&a.mean1, N), nn.Grow(&a.inv1, N))
	qkv := nn.Grow(&a.qkv, N*3*D)
	b.qkv.Forward(g, N, h1, D, qkv, 3*D, false)
	n.rotate(qkv, false)
	out := nn.Grow(&a.out, N*D)
	n.attention.Forward(g, n.groups(i), qkv, out)
	mid := nn.Grow(&a.mid, N*D)
	copy(mid, x)
	b.proj.Forward(g, N, out, D, mid, D, true)
	h2 := nn.Grow(&a.h2, N*D)
	b.norm2.Forward(mid, visionEps, h2, nn.Grow(&a.mean2, N), nn.Grow(&a.inv2, N))
	fc1, act, saved := nn.Grow(&a.fc1, N*b.fc1.Out), nn.Grow(&a.act, N*F), nn.Grow(&a.saved, N*F)
	b.fc1.Forward(g, N, h2, D, fc1, b.fc1.Out, false)
	if c.Gated {
		nn.SwiGLUForward(fc1, F, act, saved)
	} else {
		nn.GELUTanhForward(fc1, act, saved)
	}
}

// groups says who attends to whom in block i.
func (n *VisionNet) groups(i int) []nn.Group {
	if n.c.WindowSize == 0 || slices.Contains(n.c.FullAttention, i) {
		return n.images
	}
	return n.windows
}

func (n *VisionNet) mergeForward(m *merger, a *mergerActivations, x []float32) []float32 {
	D := len(m.norm.W) // width of a normalised row: one patch, or merge² of them
	normed := nn.Grow(&a.normed, len(x))
	rows := len(x) / D
	m.norm.Forward(x, visionEps, normed, nn.Grow(&a.mean, rows), nn.Grow(&a.inv, rows))
	tokens := len(x) / m.fc1.In
	fc1, act := nn.Grow(&a.fc1, tokens*m.fc1.Out), nn.Grow(&a.act, tokens*m.fc1.Out)
	m.fc1.Forward(&n.g, tokens, normed, m.fc1.In, fc1, m.fc1.Out, false)
	nn.GELUForward(fc1, act)
	out := nn.Grow(&a.out, tokens*m.fc2.Out)
	m.fc2.Forward(&n.g, tokens, act, m.fc2.In, out, m.fc2.Out, false)
	if n.order == nil {
		return out
	}
	ordered, w := nn.Grow(&a.ordered, len(out)), m.fc2.Out
	for i, k := range n.order {
		copy(ordered[k*w:k*w+w], out[i*w:i*w+w])
	}
	return ordered
}

func (n *VisionNet) split(images []Image, tokens []float32, deep [][]float32) []Features {
	out := make([]Features, len(images))
	merge, width, at := n.c.SpatialMergeSize, n.c.OutHiddenSize, 0
	for i, im := range images {
		f := Features{GridH: im.GridH / merge, GridW: im.GridW / merge}
		end := at + f.GridH*f.GridW*width
		f.Tokens = tokens[at:end]
		for _, d := range deep {
			f.Deep = append(f.Deep, d[at:end])
		}
		out[i], at = f, end
	}
	return out
}

// Backward takes the gradients of the features of the last Forward, in the same order, and adds to grad.
func (n *VisionNet) Backward(w *Weights, dFeatures []Features, grad *Weights) {
	v, gv, c, g, s := &w.vision, &grad.vision, n.c, &n.g, &n.scratch
	N, D, F := n.rows, c.HiddenSize, c.IntermediateSize
	gather := func(pick func(f *Features) []float32) []float32 {
		var all []float32
		for i := range dFeatures {
			all = append(all, pick(&dFeatures[i])...)
		}
		return all
	}
	k := trainingKeep(n.Checkpointing)
	dx := nn.Grow(&s.dx, N*D)
	clear(dx)
	n.mergeBackward(&v.merger, &n.merge[0], n.inputs[len(n.blocks)], gather(func(f *Features) []float32 { return f.Tokens }), dx, &gv.merger)
	for i := len(n.blocks) - 1; i >= 0; i-- {
		for k, idx := range c.DeepstackIndexes {
			if idx == i {
				n.mergeBackward(&v.deep[k], &n.merge[1+k], n.inputs[i+1], gather(func(f *Features) []float32 { return f.Deep[k] }), dx, &gv.deep[k])
			}
		}
		a, x, b, gb := n.activations(i, k), n.inputs[i], &v.blocks[i], &gv.blocks[i]
		if k == keepInputs && i+1 < len(n.blocks) { // the last block's are still there
			n.block(a, b, i, x)
		}
		dact, dfc, dh := nn.Grow(&s.dact, N*F), nn.Grow(&s.dfc, N*b.fc1.Out), nn.Grow(&s.dh, N*D)
		b.fc2.Backward(g, N, a.act, F, dx, D, dact, F, false, &gb.fc2, &s.lora)
		if c.Gated {
			nn.SwiGLUBackward(a.fc1, F, a.saved, dact, dfc)
		} else {
			nn.GELUTanhBackward(a.fc1, a.saved, dact, dfc)
		}
		b.fc1.Backward(g, N, a.h2, D, dfc, b.fc1.Out, dh, D, false, &gb.fc1, &s.lora)
		b.norm2.Backward(a.mid, a.mean2, a.inv2, dh, dx, &gb.norm2)
		dout, dqkv := nn.Grow(&s.dout, N*D), nn.Grow(&s.dqkv, N*3*D)
		b.proj.Backward(g, N, a.out, D, dx, D, dout, D, false, &gb.proj, &s.lora)
		clear(dqkv)
		n.attention.Backward(g, n.groups(i), a.qkv, dout, dqkv)
		n.rotate(dqkv, true)
		b.qkv.Backward(g, N, a.h1, D, dqkv, 3*D, dh, D, false, &gb.qkv, &s.lora)
		b.norm1.Backward(x, a.mean1, a.inv1, dh, dx, &gb.norm1)
	}
	v.patch.Backward(g, N, n.patches, v.patch.In, dx, D, nil, 0, false, &gv.patch, &s.lora)
	if gv.position == nil {
		return
	}
	for i, p := range n.lookup {
		for k, idx := range p.index {
			cpu.Axpy(p.weight[k], dx[i*D:i*D+D], gv.position[idx*D:idx*D+D])
		}
	}
}

// mergeBackward adds to dx, the gradient of the merger's input x.
func (n *VisionNet) mergeBackward(m *merger, a *mergerActivations, x, dout, dx []float32, grad *merger) {
	tokens := len(x) / m.fc1.In
	if n.order != nil {
		rowMajor, w := dout, m.fc2.Out
		dout = nn.Grow(&n.scratch.dordered, len(rowMajor))
		for i, k := range n.order {
			copy(dout[i*w:i*w+w], rowMajor[k*w:k*w+w])
		}
	}
	dact, dfc, dh := nn.Grow(&n.scratch.dact, tokens*m.fc1.Out), nn.Grow(&n.scratch.dfc, tokens*m.fc1.Out), nn.Grow(&n.scratch.dh, len(x))
	m.fc2.Backward(&n.g, tokens, a.act, m.fc2.In, dout, m.fc2.Out, dact, m.fc2.In, false, &grad.fc2, &n.scratch.lora)
	nn.GELUBackward(a.fc1, dact, dfc)
	m.fc1.Backward(&n.g, tokens, a.normed, m.fc1.In, dfc, m.fc1.Out, dh, m.fc1.In, false, &grad.fc1, &n.scratch.lora)
	m.norm.Backward(x, a.mean, a.inv, dh, dx, &grad.norm)
}

// rotate applies (or undoes) the 2-D rotary positions to every query and key of qkv.
func (n *VisionNet) rotate(qkv []float32, back bool) {
	d, h, row := n.attention.HeadDim, n.attention.HeadDim/2, n.attention.Row()
	for i := range n.rows {
		cos, sin := n.cos[i*h:i*h+h], n.sin[i*h:i*h+h]
		for k := range 2 * n.c.Heads {
			x := qkv[i*row+k*d : i*row+k*d+d]
			if back {
				nn.RotateBack(x, cos, sin)
			} else {
				nn.Rotate(x, cos, sin)
			}
		}
	}
}

// layout gathers the patches, window by window, and computes positions. Without windows the image is a single one, and the
// order that of the patches: row-major over the tokens, then over the patches that a token joins.
func (n *VisionNet) layout(images []Image) {
	c, m := n.c, n.c.SpatialMergeSize
	n.rows, n.images, n.windows, n.lookup, n.patches = 0, n.images[:0], n.windows[:0], n.lookup[:0], n.patches[:0]
	n.cos, n.sin, n.order = n.cos[:0], n.sin[:0], n.order[:0]
	tokens := 0
	for _, im := range images {
		h, w := im.GridH/m, im.GridW/m
		window := nn.Group{Full: true}
		side := max(h, w)
		if c.WindowSize > 0 {
			side = c.windowUnits()
		}
		n.images = append(n.images, nn.Group{Segments: []nn.Segment{{Start: n.rows, Len: im.GridH * im.GridW}}, Full: true})
		for top := 0; top < h; top += side {
			for left := 0; left < w; left += side {
				bottom, right := min(top+side, h), min(left+side, w)
				window.Segments = append(window.Segments, nn.Segment{Start: n.rows, Len: (bottom - top) * (right - left) * m * m})
				for r := top; r < bottom; r++ {
					for q := left; q < right; q++ {
						n.appendToken(&im, r, q)
						n.order = append(n.order, tokens+r*w+q)
					}
				}
			}
		}
		n.windows = append(n.windows, window)
		tokens += h * w
	}
	if c.WindowSize == 0 {
		n.order = nil
	}
}

// appendToken appends the patches that the token in row r and column q joins, and their positions.
func (n *VisionNet) appendToken(im *Image, r, q int) {
	m, dim, side := n.c.SpatialMergeSize, n.c.patchDim(), n.c.positionSide()
	at := (r*(im.GridW/m) + q) * m * m * dim
	n.patches = append(n.patches, im.Patches[at:at+m*m*dim]...)
	n.rows += m * m
	for row := r * m; row < (r+1)*m; row++ {
		for col := q * m; col < (q+1)*m; col++ {
			n.appendAngles(row, col, n.attention.HeadDim/2)
			if side > 0 {
				n.lookup = append(n.lookup, bilinear(newAxisPosition(row, im.GridH, side), newAxisPosition(col, im.GridW, side), side))
			}
		}
	}
}

func (n *VisionNet) appendAngles(r, q, half int) {
	for j := range half {
		pos, k := r, j
		if j >= half/2 {
			pos, k = q, j-half/2
		}
		s, c := math.Sincos(float64(pos) * math.Pow(visionTheta, -2*float64(k)/float64(half)))
		n.cos, n.sin = append(n.cos, float32(c)), append(n.sin, float32(s))
	}
}

// axisPosition is a coordinate of linspace(0, side-1, n): its floor, and its distance from it.
type axisPosition struct {
	low, high int
	frac      float32
}

// newAxisPosition is coordinate i of n.
func newAxisPosition(i, n, side int) axisPosition {
	x := float32(0)
	if n > 1 {
		x = float32(i) * float32(side-1) / float32(n-1)
	}
	low := int(x)
	return axisPosition{low, min(low+1, side-1), x - float32(low)}
}

func bilinear(r, q axisPosition, side int) positionLookup {
	return positionLookup{
		index:  [4]int{r.low*side + q.low, r.low*side + q.high, r.high*side + q.low, r.high*side + q.high},
		weight: [4]float32{(1 - r.frac) * (1 - q.frac), (1 - r.frac) * q.frac, r.frac * (1 - q.frac), r.frac * q.frac},
	}
}
