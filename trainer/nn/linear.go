package nn

import "github.com/trinity-lab/trinity/trainer/backend/cpu"

// Linear is y = x Wᵀ + b, with W [Out, In] and b [Out] or nil, as Hugging Face checkpoints store it.
//
// Adapters are LoRA pairs on row blocks of W. The forward pass reads W alone, into which they are merged (see
// Adapter.Merge): sampler, trainer and the Verifier's average all see the same weights.
type Linear struct {
	In, Out  int
	W, B     []float32
	Adapters []Adapter
}

// Adapter is a LoRA pair on the rows [Row, Row+Out) of a Linear's weight: W = W0 + Scale·B·A, with A [Rank, In] and
// B [Out, Rank]. A fused linear (query, key and value in one) carries one for each of its parts.
type Adapter struct {
	Row, Out, Rank int
	Scale          float32
	A, B           []float32
	W0             []float32 // frozen rows [Out, In]
}

// Merge writes W0 + Scale·B·A into the rows of w [.., in].
func (a *Adapter) Merge(g *cpu.Gemm, w []float32, in int) {
	rows := w[a.Row*in : (a.Row+a.Out)*in]
	g.Mul(false, false, a.Out, in, a.Rank, a.B, a.Rank, a.A, in, rows, in, false)
	for i, w0 := range a.W0 {
		rows[i] = w0 + a.Scale*rows[i]
	}
}

// Forward computes y [rows, Out] from x [rows, In]; ldx and ldy are row strides. With accumulate it adds to y.
func (l *Linear) Forward(g *cpu.Gemm, rows int, x []float32, ldx int, y []float32, ldy int, accumulate bool) {
	if rows == 0 {
		return
	}
	g.Mul(false, true, rows, l.Out, l.In, x, ldx, l.W, l.In, y, ldy, accumulate)
	if l.B == nil {
		return
	}
	for i := range rows {
		cpu.Add(y[i*ldy:i*ldy+l.Out], l.B)
	}
}

// Backward takes dy [rows, Out] and the forward input x, adds to the gradients held by grad (same shape as l), and
// computes dx [rows, In] unless dx is nil, overwriting it unless accumulate is set. scratch is grown as needed. dx comes last and
// may be x itself.
func (l *Linear) Backward(g *cpu.Gemm, rows int, x []float32, ldx int, dy []float32, ldy int, dx []float32, ldxGrad int, accumulate bool, grad *Linear, scratch *[]float32) {
	if rows == 0 {
		return
	}
	if grad.W != nil {
		g.Mul(true, false, l.Out, l.In, rows, dy, ldy, x, ldx, grad.W, l.In, true)
	}
	if grad.B != nil {
		for i := range rows {
			cpu.Add(grad.B, dy[i*ldy:i*ldy+l.Out])
		}
	}
	for i := range grad.Adapters {
		l.Adapters[i].backward(g, rows, l.In, x, ldx, dy, ldy, &grad.Adapters[i], scratch)
	}
	if dx != nil {
		g.Mul(false, false, rows, l.In, l.Out, dy, ldy, l.W, l.In, dx, ldxGrad, accumulate)
	}
}

// backward adds dA = s (dy B)ᵀ x and dB = s dyᵀ (x Aᵀ).
func (a *Adapter) backward(g *cpu.Gemm, rows, in int, x []float32, ldx int, dy []float32, ldy int, grad *Adapter, scratch *[]float32) {
	r := a.Rank
	buf := Grow(scratch, rows*r)
	dy = dy[a.Row:]
	g.Mul(false, true, rows, r, in, x, ldx, a.A, in, buf, r, false)
	cpu.Scale(a.Scale, buf)
	g.Mul(true, false, a.Out, r, rows, dy, ldy, buf, r, grad.B, r, true)
	g.Mul(false, false, rows, r, a.Out, dy, ldy, a.B, r, buf, r, false)
	cpu.Scale(a.Scale, buf)
	g.Mul(true, false, r, in, rows, buf, r, x, ldx, grad.A, in, true)
}
