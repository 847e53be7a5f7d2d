// Package cpu holds the float32 kernels of the CPU engine: matrix products, row reductions and the fused optimiser
// step, in AVX2 assembly on amd64 and in portable Go elsewhere (or with the build tag purego).
//
// Kernels are single-threaded and deterministic: equal inputs of equal length give equal bits on one machine. They
// check lengths, because assembly cannot, and panic where a slice is too short, as an index out of range would.
package cpu

import (
	"fmt"
	"math"
)

// Softmax replaces x by exp(x_i) / Σ exp(x_j). Entries of -Inf give 0; if all are, the result is all zero.
func Softmax(x []float32) {
	if len(x) == 0 {
		return
	}
	top := largest(x)
	if math.IsInf(float64(top), -1) && !anyNaN(x) {
		clear(x)
		return
	}
	scale(1/expShift(x, x, top), x)
}

// LogSumExp returns log Σ exp(x_i), computed about the largest entry; -Inf for an empty x.
func LogSumExp(x []float32) float32 {
	if len(x) == 0 {
		return float32(math.Inf(-1))
	}
	top := largest(x)
	if math.IsInf(float64(top), 0) && !anyNaN(x) {
		return top
	}
	return float32(float64(top) + math.Log(float64(sumExpShift(x, top))))
}

func anyNaN(x []float32) bool {
	for _, v := range x {
		if v != v {
			return true
		}
	}
	return false
}

// Sigmoid sets dst_i = 1 / (1 + exp(-x_i)). dst may be x.
func Sigmoid(dst, x []float32) {
	mustHold("Sigmoid", "dst", dst, len(x))
	if len(x) > 0 {
		sigmoid(dst, x)
	}
}

// Exp sets dst_i = exp(x_i). dst may be x.
func Exp(dst, x []float32) {
	mustHold("Exp", "dst", dst, len(x))
	if len(x) > 0 {
		expShift(dst, x, 0)
	}
}

// Dot returns Σ x_i y_i.
func Dot(x, y []float32) float32 {
	mustHold("Dot", "y", y, len(x))
	if len(x) == 0 {
		return 0
	}
	return dot(x, y)
}

// Axpy adds alpha x to y.
func Axpy(alpha float32, x, y []float32) {
	mustHold("Axpy", "y", y, len(x))
	if len(x) > 0 {
		axpy(alpha, x, y)
	}
}

// Scale multiplies x by alpha.
func Scale(alpha float32, x []float32) {
	if len(x) > 0 {
		scale(alpha, x)
	}
}

// Add adds x to dst.
func Add(dst, x []float32) {
	mustHold("Add", "dst", dst, len(x))
	if len(x) > 0 {
		add(dst, x)
	}
}

// SumSquares returns Σ x_i². Partial sums of a few thousand entries are added in float64, so that the norm of a
// gradient of millions of entries keeps its digits.
func SumSquares(x []float32) float32 {
	const part = 4096
	var sum float64
	for len(x) > 0 {
		head := x[:min(part, len(x))]
		sum += float64(dot(head, head))
		x = x[len(head):]
	}
	return float32(sum)
}

// DotRows sets y_r = x · w[r*ldw : r*ldw+len(x)] for r in 0..rows-1: attention scores over a KV cache. A row's bits do
// not depend on rows.
func DotRows(x, w []float32, ldw, rows int, y []float32) {
	if rows <= 0 {
		return
	}
	mustHold("DotRows", "y", y, rows)
	if len(x) == 0 {
		clear(y[:rows])
		return
	}
	checkMatrix("w", rows, len(x), w, ldw)
	dotRows(x, w, ldw, rows, y)
}

// AccumulateRows adds Σ_r p[r] v[r*ldv : r*ldv+len(y)] to y, in the order of r: attention output over a KV cache.
func AccumulateRows(p, v []float32, ldv, rows int, y []float32) {
	if rows <= 0 || len(y) == 0 {
		return
	}
	mustHold("AccumulateRows", "p", p, rows)
	checkMatrix("v", rows, len(y), v, ldv)
	accumulateRows(p, v, ldv, rows, y)
}

func mustHold(kernel, name string, x []float32, n int) {
	if len(x) < n {
		panic(fmt.Sprintf("cpu: %s: %s needs %d floats, has %d", kernel, name, n, len(x)))
	}
}

// Path names the kernels in use on this machine: "avx512", "avx2" or "portable".
func Path() string {
	switch {
	case hasAVX512:
		return "avx512"
	case hasAVX2:
		return "avx2"
	}
	return "portable"
}
