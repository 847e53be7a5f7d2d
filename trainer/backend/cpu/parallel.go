package cpu

import (
	"runtime"
	"sync/atomic"
)

const (
	parallelMin     = 4 << 20 // multiplications below which waking a second worker takes longer than it saves
	pieceCols       = 32
	pieceRows       = 48
	piecesPerWorker = 8
)

// ParallelMul is Mul spread over the workers gs, one goroutine each; the bits are those of Mul. C is cut into a few
// pieces per worker, taken as workers come free, so that one that starts late or shares its core does not hold up the
// rest. Small products stay on the caller's goroutine.
func ParallelMul(gs []*Gemm, transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, accumulate bool) {
	if len(gs) == 0 {
		panic("cpu: ParallelMul needs at least one Gemm")
	}
	// An A in place costs nothing to share between columns; a transposed one is packed, once per piece of columns but
	// only once in all when rows are cut.
	byRows := n < pieceCols*len(gs) || transA && m >= pieceRows*len(gs)
	size, unit, least := n, 32, pieceCols
	if byRows {
		size, unit, least = m, 12, pieceRows
	}
	pieces := min(size/least, piecesPerWorker*len(gs))
	if pieces < 2 || len(gs) == 1 || m*n*k < parallelMin {
		gs[0].Mul(transA, transB, m, n, k, a, lda, b, ldb, c, ldc, accumulate)
		return
	}
	units := (size + unit - 1) / unit
	var next, done atomic.Int64
	work := func(g *Gemm) {
		for {
			i := int(next.Add(1)) - 1
			if i >= pieces {
				break
			}
			lo, hi := units*i/pieces*unit, min(size, units*(i+1)/pieces*unit)
			switch {
			case byRows && transA:
				g.Mul(transA, transB, hi-lo, n, k, a[lo:], lda, b, ldb, c[lo*ldc:], ldc, accumulate)
			case byRows:
				g.Mul(transA, transB, hi-lo, n, k, a[lo*lda:], lda, b, ldb, c[lo*ldc:], ldc, accumulate)
			case transB:
				g.Mul(transA, transB, m, hi-lo, k, a, lda, b[lo*ldb:], ldb, c[lo:], ldc, accumulate)
			default:
				g.Mul(transA, transB, m, hi-lo, k, a, lda, b[lo:], ldb, c[lo:], ldc, accumulate)
			}
			done.Add(1)
		}
		// The pieces still out are short, and a thread that stays awake picks up the next product at once, where waking
		// a sleeping one can take longer than a piece. A worker that starts after the end finds nothing and leaves.
		for done.Load() < int64(pieces) {
			runtime.Gosched()
		}
	}
	for _, g := range gs[1:min(len(gs), pieces)] {
		go work(g)
	}
	work(gs[0])
}
