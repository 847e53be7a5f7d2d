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

func (g *Group) rows() Segment {
	last := g.Segments[len(g.Segments)-1]
	start := g.Segments[0].Start
	return Segment{start, last.Start + last.Len - start}
}

// width is the row stride of the group's probabilities: prefix, then the longest segment.
func (g *Group) width() int {
	longest := 0
	for _, s := range g.Segments {
		longest = max(longest, s.Len)
	}
	return g.Prefix.Len + longest
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

// ProbsLen returns the number of probabilities that Forward keeps for groups.
func (a *Attention) ProbsLen(groups []Group) int {
	n := 0
	for i := range groups {
		n += a.Heads * groups[i].rows().Len * groups[i].width()
	}
	return n
}

// Forward computes out [rows, Heads·HeadDim] from qkv [rows, Row()] and keeps the attention probabilities in probs.
func (a *Attention) Forward(g *cpu.Gemm, groups []Group, qkv, out, probs []float32) {
	row, ldo, d := a.Row(), a.Heads*a.HeadDim, a.HeadDim
	for gi := range groups {
		gr := &groups[gi]
		rows, width, pre := gr.rows(), gr.width(), gr.Prefix
		for h := range a.Heads {
			q, k, v := a.offsets(h)
			p := probs[:rows.Len*width]
			probs = probs[rows.Len*width:]
			if pre.Len > 0 {
				g.Mul(false, true, rows.Len, pre.Len, d, qkv[rows.Start*row+q:], row, qkv[pre.Start*row+k:], row, p, width, false)
			}
			for _, s := range gr.Segments {
				ps := p[(s.Start-rows.Start)*width:]
				g.Mul(false, true, s.Len, s.Len, d, qkv[s.Start*row+q:], row, qkv[s.Start*row+k:], row, ps[pre.Len:], width, false)
				a.softmax(ps, s.Len, pre.Len, width, gr.Full)
				g.Mul(false, false, s.Len, d, s.Len, ps[pre.Len:], width, qkv[s.Start*row+v:], row, out[s.Start*ldo+h*d:], ldo, false)
			}
			if pre.Len > 0 {
				g.Mul(false, false, rows.Len, d, pre.Len, p, width, qkv[pre.Start*row+v:], row, out[rows.Start*ldo+h*d:], ldo, true)
			}
		}
	}
}

// softmax scales and normalises the scores of a segment's n rows and zeroes what a row must not see.
func (a *Attention) softmax(p []float32, n, prefix, width int, full bool) {
	for i := range n {
		seen := prefix + i + 1
		if full {
			seen = prefix + n
		}
		r := p[i*width : i*width+prefix+n]
		cpu.Scale(a.Scale, r[:seen])
		cpu.Softmax(r[:seen])
		clear(r[seen:])
	}
}

// Backward computes dqkv from dout. dqkv must be zero where no gradient has been added yet; it is added to.
func (a *Attention) Backward(g *cpu.Gemm, groups []Group, qkv, probs, dout, dqkv []float32, scratch *[]float32) {
	row, ldo, d := a.Row(), a.Heads*a.HeadDim, a.HeadDim
	for gi := range groups {
		gr := &groups[gi]
		rows, width, pre := gr.rows(), gr.width(), gr.Prefix
		ds := Grow(scratch, rows.Len*width)
		for h := range a.Heads {
			q, k, v := a.offsets(h)
			p := probs[:rows.Len*width]
			probs = probs[rows.Len*width:]
			do := dout[rows.Start*ldo+h*d:]
			if pre.Len > 0 {
				g.Mul(false, true, rows.Len, pre.Len, d, do, ldo, qkv[pre.Start*row+v:], row, ds, width, false)
				g.Mul(true, false, pre.Len, d, rows.Len, p, width, do, ldo, dqkv[pre.Start*row+v:], row, true)
			}
			for _, s := range gr.Segments {
				o := (s.Start - rows.Start) * width
				dos := dout[s.Start*ldo+h*d:]
				g.Mul(false, true, s.Len, s.Len, d, dos, ldo, qkv[s.Start*row+v:], row, ds[o+pre.Len:], width, false)
				g.Mul(true, false, s.Len, d, s.Len, p[o+pre.Len:], width, dos, ldo, dqkv[s.Start*row+v:], row, true)
				a.softmaxBackward(p[o:], ds[o:], s.Len, pre.Len, width, gr.Full)
				g.Mul(false, false, s.Len, d, s.Len, ds[o+pre.Len:], width, qkv[s.Start*row+k:], row, dqkv[s.Start*row+q:], row, true)
				g.Mul(true, false, s.Len, d, s.Len, ds[o+pre.Len:], width, qkv[s.Start*row+q:], row, dqkv[s.Start*row+k:], row, true)
			}
			if pre.Len > 0 {
				g.Mul(false, false, rows.Len, d, pre.Len, ds, width, qkv[pre.Start*row+k:], row, dqkv[rows.Start*row+q:], row, true)
				g.Mul(true, false, pre.Len, d, rows.Len, ds, width, qkv[rows.Start*row+q:], row, dqkv[pre.Start*row+k:], row, true)
			}
		}
	}
}

// softmaxBackward turns dP into the gradient of the unscaled scores, in place: scale·p·(dp - Σ p dp).
func (a *Attention) softmaxBackward(p, dp []float32, n, prefix, width int, full bool) {
	for i := range n {
		seen := prefix + i + 1
		if full {
			seen = prefix + n
		}
		pr, dr := p[i*width:i*width+seen], dp[i*width:i*width+prefix+n]
		dot := cpu.Dot(pr, dr[:seen])
		for j, v := range pr {
			dr[j] = a.Scale * v * (dr[j] - dot)
		}
		clear(dr[seen:])
	}
}
