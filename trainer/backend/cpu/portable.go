package cpu

// axpyPortable: y += alpha x. The conversion forbids fusing, so bits do not depend on the loop it is compiled into.
func axpyPortable(alpha float32, x, y []float32) {
	for i, v := range x {
		y[i] += float32(alpha * v)
	}
}
