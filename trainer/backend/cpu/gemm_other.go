//go:build !amd64 || purego

package cpu

const hasAVX2, hasAVX512 = false, false

type tileScratch struct{}

func (g *Gemm) mulTiled(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, accumulate bool) bool {
	return false
}
