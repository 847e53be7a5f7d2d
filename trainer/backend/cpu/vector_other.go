//go:build !amd64 || purego

package cpu

func dot(x, y []float32) float32 { return dotPortable(x, y) }

func dotRows(x, w []float32, ldw, rows int, y []float32) { dotRowsPortable(x, w, ldw, rows, y) }

func accumulateRows(p, v []float32, ldv, rows int, y []float32) {
	accumulateRowsPortable(p, v, ldv, rows, y)
}

func axpy(alpha float32, x, y []float32) { axpyPortable(alpha, x, y) }

func scale(alpha float32, x []float32) { scalePortable(alpha, x) }

func add(dst, x []float32) { addPortable(dst, x) }

func expShift(dst, x []float32, shift float32) float32 { return expShiftPortable(dst, x, shift) }

func sumExpShift(x []float32, shift float32) float32 { return sumExpShiftPortable(x, shift) }

func sigmoid(dst, x []float32) { sigmoidPortable(dst, x) }

func largest(x []float32) float32 { return largestPortable(x) }

func adamW(w, g, m, v []float32, c *adamWConstants) { adamWPortable(w, g, m, v, c) }
