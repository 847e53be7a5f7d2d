package nn

import "github.com/trinity-lab/trinity/trainer/backend/cpu"

// Segment is a run of consecutive rows.
type Segment struct{ Start, Len int }

// Group is a run of rows that all attend wholly to the rows of Prefix, and within each of Segments to themselves:
// causally, or wholly where Full is set. Segments are adjacent and cover the group. A group whose Prefix is empty is an
// ordinary batch of sequences; one with a prefix is a set of continuations that share it.
type Group struct {
	Prefix   Segment
	Segments []Segment
	Full     bool
}

// Attention is grouped-query scaled dot-product attention over a fused buffer of rows [query heads | key heads | value heads].
type Attention struct {
	Heads, KVHeads, HeadDim int
	Scale                   float32 // of the scores, usually 1/sqrt(HeadDim)
}

// Row returns the width of a fused row.
func (a *Attention) Row() int { return (a.Heads + 2*a.KVHeads) * a.HeadDim }

// offsets of head h's query, key and value within a row.
func (a *Attention) offsets(h int) (q, k, v int) {
	kv := h / (a.Heads / a.KVHeads)
	return h * a.HeadDim, (a.Heads + kv) * a.HeadDim, (a.Heads + a.KVHeads + kv) * a.HeadDim
}

// The scores of all pairs would be most of the memory of a long sequence, so they are computed a strip of rows at a time,
// by the backward pass once more. A strip is cut into pieces within which rows see nearly as far as one another: of what
// a row must not see, little is computed. Neither cut changes a bit of the result.
const (
	stripFloats = 1 << 18 // scores of a strip: what fits into the second-level cache beside the operands
	stripRows   = 512     // rows of a strip at most
	pieceRows   = 64      // rows of a causal piece at most
)

// piece is a run of rows of one segment, that see the keys of the segment from its start on.
type piece struct{ start, len, first, keys int }

// strip is a run of pieces whose scores are computed together.
type strip struct {
	rows   Segment
	width  int // row stride of the scores: the prefix, then the most keys of a piece
	pieces []piece
}

// strips cuts the rows of a group.
func (g *Group) strips() []strip {
	var out []strip
	for _, s := range g.Segments {
		limit := pieceRows
		if g.Full {
			limit = max(pieceRows, min(stripRows, stripFloats/(g.Prefix.Len+s.Len)))
		}
		n := (s.Len + limit - 1) / limit
		for i := range n {
			lo, hi := s.Len*i/n, s.Len*(i+1)/n
			p := piece{start: s.Start + lo, len: hi - lo, first: s.Start, keys: hi}
			if g.Full {
				p.keys = s.Len
			}
			width := g.Prefix.Len + p.keys
			if last := len(out) - 1; last >= 0 {
				t := &out[last]
				if rows := t.rows.Len + p.len; rows <= stripRows && rows*max(t.width, width) <= stripFloats {
					t.rows.Len, t.width, t.pieces = rows, max(t.width, width), append(t.pieces, p)
					continue
				}
			}
			out = append(out, strip{Segment{p.start, p.len}, width, []piece{p}})
		}
	}
	return out
}

// Forward computes out [rows, Heads·HeadDim] from qkv [rows, Row()].
func (a *Attention) Forward(g *cpu.Gemm, groups []Group, qkv, out []float32) {
	row, ldo, d := a.Row(), a.Heads*a.HeadDim, a.HeadDim
	a.each(g, groups, func(g *cpu.Gemm, h int, pre Segment, full bool, t *strip) {
		q, _, v := a.offsets(h)
		p := g.Buffer(t.rows.Len * t.width)
		a.probabilities(g, h, pre, full, t, qkv, p)
		for _, c := range t.pieces {
			g.Mul(false, false, c.len, d, c.keys, p[(c.start-t.rows.Start)*t.width+pre.Len:], t.width, qkv[c.first*row+v:], row, out[c.start*ldo+q:], ldo, false)
		}
		if pre.Len > 0 {
			g.Mul(false, false, t.rows.Len, d, pre.Len, p, t.width, qkv[pre.Start*row+v:], row, out[t.rows.Start*ldo+q:], ldo, true)
		}
	})
}

// each visits the strips of every query head, those that share a key head in order.
func (a *Attention) each(g *cpu.Gemm, groups []Group, f func(g *cpu.Gemm, h int, prefix Segment, full bool, t *strip)) {
	strips := make([][]strip, len(groups))
	for i := range groups {
		strips[i] = groups[i].strips()
	}
	share := a.Heads / a.KVHeads
	g.Each(a.KVHeads, func(g *cpu.Gemm, kv int) {
		for i := range groups {
			for h := kv * share; h < (kv+1)*share; h++ {
				for j := range strips[i] {
					f(g, h, groups[i].Prefix, groups[i].Full, &strips[i][j])
				}
			}
		}
	})
}

// probabilities fills p [rows, width] of a strip: each row's over the prefix and then over the keys of its piece.
func (a *Attention) probabilities(g *cpu.Gemm, h int, pre Segment, full bool, t *strip, qkv, p []float32) {
	row, d := a.Row(), a.HeadDim
	q, k, _ := a.offsets(h)
	if pre.Len > 0 {
		g.Mul(false, true, t.rows.Len, pre.Len, d, qkv[t.rows.Start*row+q:], row, qkv[pre.Start*row+k:], row, p, t.width, false)
	}
	for _, c := range t.pieces {
		own := p[(c.start-t.rows.Start)*t.width:]
		g.Mul(false, true, c.len, c.keys, d, qkv[c.start*row+q:], row, qkv[c.first*row+k:], row, own[pre.Len:], t.width, false)
		for i := range c.len {
			r, seen := own[i*t.width:i*t.width+pre.Len+c.keys], c.seen(i, pre.Len, full)
			cpu.Scale(a.Scale, r[:seen])
			cpu.Softmax(r[:seen])
			clear(r[seen:])
		}
	}
}

// seen is the number of keys, those of the prefix first, that row i of the piece sees.
func (c *piece) seen(i, prefix int, full bool) int {
	if full {
		return prefix + c.keys
	}
	return prefix + c.start - c.first + i + 1
}

// Backward computes dqkv from dout. dqkv must be zero where no gradient has been added yet; it is added to.
func (a *Attention) Backward(g *cpu.Gemm, groups []Group, qkv, dout, dqkv []float32) {
	row, ldo, d := a.Row(), a.Heads*a.HeadDim, a.HeadDim
	a.each(g, groups, func(g *cpu.Gemm, h int, pre Segment, full bool, t *strip) {
		q, k, v := a.offsets(h)
		n := t.rows.Len * t.width
		buffer := g.Buffer(2 * n)
		p, ds := buffer[:n], buffer[n:]
		a.probabilities(g, h, pre, full, t, qkv, p)
		do := dout[t.rows.Start*ldo+q:]
		if pre.Len > 0 {
			g.Mul(false, true, t.rows.Len, pre.Len, d, do, ldo, qkv[pre.Start*row+v:], row, ds, t.width, false)
			g.Mul(true, false, pre.Len, d, t.rows.Len, p, t.width, do, ldo, dqkv[pre.Start*row+v:], row, true)
		}
		for _, c := range t.pieces {
			at := (c.start - t.rows.Start) * t.width
			own, dos := at+pre.Len, dout[c.start*ldo+q:]
			g.Mul(false, true, c.len, c.keys, d, dos, ldo, qkv[c.first*row+v:], row, ds[own:], t.width, false)
			g.Mul(true, false, c.keys, d, c.len, p[own:], t.width, dos, ldo, dqkv[c.first*row+v:], row, true)
			for i := range c.len {
				lo := at + i*t.width
				a.softmaxBackward(p[lo:lo+c.seen(i, pre.Len, full)], ds[lo:lo+pre.Len+c.keys])
			}
			g.Mul(false, false, c.len, d, c.keys, ds[own:], t.width, qkv[c.first*row+k:], row, dqkv[c.start*row+q:], row, true)
			g.Mul(true, false, c.keys, d, c.len, ds[own:], t.width, qkv[c.start*row+q:], row, dqkv[c.first*row+k:], row, true)
		}
		if pre.Len > 0 {
			g.Mul(false, false, t.rows.Len, d, pre.Len, ds, t.width, qkv[pre.Start*row+k:], row, dqkv[t.rows.Start*row+q:], row, true)
			g.Mul(true, false, pre.Len, d, t.rows.Len, ds, t.width, qkv[t.rows.Start*row+q:], row, dqkv[pre.Start*row+k:], row, true)
		}
	})
}

// softmaxBackward turns dP of a row into the gradient of the unscaled scores, in place: scale·p·(dp - Σ p dp); beyond p, 0.
func (a *Attention) softmaxBackward(p, dp []float32) {
	dot := cpu.Dot(p, dp[:len(p)])
	for j, v := range p {
		dp[j] = a.Scale * v * (dp[j] - dot)
	}
	clear(dp[len(p):])
}
