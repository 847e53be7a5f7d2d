package cpu

import (
	"fmt"
	"unsafe"
)

// blockA bounds a block of A, in floats: its rows stream past a panel of B from the second-level cache.
const blockA = 128 * 1024

// Gemm is one worker's GEMM with its packing buffers; not safe for concurrent use. The zero value is ready to use.
// After the first call of a given size it allocates nothing.
//
// Every element of C is accumulated in the order of k in one chain that starts from zero (or from C), so a row of C has
// the same bits whatever m and n are and wherever the row lies. The portable path rounds after each multiplication and
// the assembly does not, so bits differ between those two; AVX2 and AVX-512 give the same.
type Gemm struct {
	// Threads is how many goroutines share a large product or Each; 0 and 1 mean none but the caller's. It never changes
	// a bit of the result.
	Threads int

	helpers        []*Gemm // one a thread, while work is spread
	panelA, panelB []float32
	buffer         []float32
	scratch        tileScratch
	path           path // the fastest one allowed; tests force slower ones
}

// path is a way to multiply, the fastest first.
type path int

const (
	pathAVX512 path = iota
	pathAVX2
	pathPortable
)

// Mul computes C = op(A)·op(B), or C += op(A)·op(B) with accumulate. Row-major. op(A) is [m,k]: a stored [m,k] with
// stride lda, or [k,m] with transA; op(B) is [k,n]: stored [k,n], or [n,k] with transB. C is [m,n] with stride ldc.
// Bounds are exact: it never touches C outside m×n. It panics where a slice is too short for its shape.
func (g *Gemm) Mul(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, accumulate bool) {
	if m <= 0 || n <= 0 {
		return
	}
	checkMatrix("C", m, n, c, ldc)
	if k <= 0 {
		if !accumulate {
			for i := range m {
				clear(c[i*ldc : i*ldc+n])
			}
		}
		return
	}
	if transA {
		checkMatrix("A", k, m, a, lda)
	} else {
		checkMatrix("A", m, k, a, lda)
	}
	if transB {
		checkMatrix("B", n, k, b, ldb)
	} else {
		checkMatrix("B", k, n, b, ldb)
	}
	if g.spread(transA, transB, m, n, k, a, lda, b, ldb, c, ldc, accumulate) {
		return
	}
	g.mul(transA, transB, m, n, k, a, lda, b, ldb, c, ldc, accumulate)
}

func (g *Gemm) mul(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, accumulate bool) {
	if !g.mulTiled(transA, transB, m, n, k, a, lda, b, ldb, c, ldc, accumulate) {
		g.mulPortable(transA, transB, m, n, k, a, lda, b, ldb, c, ldc, accumulate)
	}
}

// Buffer returns n floats of this Gemm's own, with arbitrary contents; the next call hands them out again.
func (g *Gemm) Buffer(n int) []float32 {
	g.buffer = grow(g.buffer, n)
	return g.buffer[:n]
}

func checkMatrix(name string, rows, cols int, x []float32, ld int) {
	if ld < cols || len(x) < (rows-1)*ld+cols {
		panic(fmt.Sprintf("cpu: %s is [%d,%d] with stride %d and needs %d floats, has %d", name, rows, cols, ld, (rows-1)*ld+cols, len(x)))
	}
}

// mulPortable is GEMM without assembly: rows of C are swept once per k, four k at a time.
func (g *Gemm) mulPortable(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, accumulate bool) {
	rsA, csA := lda, 1
	if transA {
		rsA, csA = 1, lda
	}
	if transB {
		g.panelB = grow(g.panelB, k*n)
		for j := range n {
			for p, v := range b[j*ldb : j*ldb+k] {
				g.panelB[p*n+j] = v
			}
		}
		b, ldb = g.panelB, n
	}
	for i := range m {
		row := c[i*ldc : i*ldc+n]
		if !accumulate {
			clear(row)
		}
		ai := i * rsA
		p := 0
		for ; p+4 <= k; p += 4 {
			a0, a1, a2, a3 := a[ai+p*csA], a[ai+(p+1)*csA], a[ai+(p+2)*csA], a[ai+(p+3)*csA]
			b0, b1 := b[p*ldb : p*ldb+n][:len(row)], b[(p+1)*ldb : (p+1)*ldb+n][:len(row)]
			b2, b3 := b[(p+2)*ldb : (p+2)*ldb+n][:len(row)], b[(p+3)*ldb : (p+3)*ldb+n][:len(row)]
			for j, s := range row {
				// The conversions forbid fusing, which a compiler might do in one loop and not in the other.
				s += float32(a0 * b0[j])
				s += float32(a1 * b1[j])
				s += float32(a2 * b2[j])
				row[j] = s + float32(a3*b3[j])
			}
		}
		for ; p < k; p++ {
			axpyPortable(a[ai+p*csA], b[p*ldb:p*ldb+n], row)
		}
	}
}

// grow returns a slice of at least n floats that starts on a cache line; contents are not kept.
func grow(s []float32, n int) []float32 {
	if cap(s) >= n {
		return s[:cap(s)]
	}
	const line = 64
	s = make([]float32, n+line/4)
	skip := (line - int(uintptr(unsafe.Pointer(&s[0]))%line)) % line / 4
	return s[skip:]
}
