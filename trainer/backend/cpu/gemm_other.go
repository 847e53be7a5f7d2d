//go:build !amd64 || purego

package cpu

const hasAVX2 = false

func (g *Gemm) mulAVX2(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, accumulate bool) {
	g.mulPortable(transA, transB, m, n, k, a, lda, b, ldb, c, ldc, accumulate)
}
