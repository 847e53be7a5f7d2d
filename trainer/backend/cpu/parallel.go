package cpu

import (
	"runtime"
	"sync/atomic"
)

// A product is cut into pieces of whole tiles, of either instruction set, where that saves more than waking a thread costs.
const (
	spreadMin       = 2 << 20 // multiplications from which a product is spread
	pieceMin        = 1 << 19 // multiplications that a piece has at least
	pieceCols       = 32
	pieceRows       = 48
	piecesPerWorker = 8
)

// Each runs f for 0..n-1, spread over the threads as they come free. f gets a Gemm of its own to work with; its results
// must not depend on which.
func (g *Gemm) Each(n int, f func(g *Gemm, i int)) {
	if g.Threads < 2 || n < 2 {
		for i := range n {
			f(g, i)
		}
		return
	}
	for len(g.helpers) < g.Threads {
		g.helpers = append(g.helpers, &Gemm{path: g.path})
	}
	var next, done atomic.Int64
	work := func(h *Gemm) {
		for {
			i := int(next.Add(1)) - 1
			if i >= n {
				break
			}
			f(h, i)
			done.Add(1)
		}
		// The pieces still out are short, and a thread that stays awake picks up the next product at once, where waking
		// a sleeping one can take longer than a piece. A worker that starts after the end finds nothing and leaves.
		for done.Load() < int64(n) {
			runtime.Gosched()
		}
	}
	for _, h := range g.helpers[1:min(g.Threads, n)] {
		go work(h)
	}
	work(g.helpers[0])
}

// spread computes the product in pieces of C, or says that it is too small for that.
func (g *Gemm) spread(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, accumulate bool) bool {
	if g.Threads < 2 || m*n*k < spreadMin {
		return false
	}
	// An A in place costs nothing to share between columns; a transposed one is packed, once per piece of columns but
	// only once in all when rows are cut.
	byRows := n < pieceCols*g.Threads || transA && m >= pieceRows*g.Threads
	size, unit, least := n, pieceCols, pieceCols
	if byRows {
		size, unit, least = m, pieceRows/4, pieceRows
	}
	pieces := min(size/least, piecesPerWorker*g.Threads, m*n*k/pieceMin)
	if pieces < 2 {
		return false
	}
	units := (size + unit - 1) / unit
	g.Each(pieces, func(h *Gemm, i int) {
		lo, hi := units*i/pieces*unit, min(size, units*(i+1)/pieces*unit)
		switch {
		case byRows && transA:
			h.mul(transA, transB, hi-lo, n, k, a[lo:], lda, b, ldb, c[lo*ldc:], ldc, accumulate)
		case byRows:
			h.mul(transA, transB, hi-lo, n, k, a[lo*lda:], lda, b, ldb, c[lo*ldc:], ldc, accumulate)
		case transB:
			h.mul(transA, transB, m, hi-lo, k, a, lda, b[lo*ldb:], ldb, c[lo:], ldc, accumulate)
		default:
			h.mul(transA, transB, m, hi-lo, k, a, lda, b[lo:], ldb, c[lo:], ldc, accumulate)
		}
	})
	return true
}
