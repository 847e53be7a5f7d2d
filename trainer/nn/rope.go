package nn

// Rotate applies rotary position embedding to a head x [2h] in the "rotate half" layout, in place: dimension j is paired
// with j+h and turned by the angle whose cosine and sine are given [h].
func Rotate(x, cos, sin []float32) {
	h := len(cos)
	for j, c := range cos {
		a, b := x[j], x[j+h]
		x[j], x[j+h] = a*c-b*sin[j], b*c+a*sin[j]
	}
}

// RotateBack is the inverse of Rotate, which is also its backward.
func RotateBack(x, cos, sin []float32) {
	h := len(cos)
	for j, c := range cos {
		a, b := x[j], x[j+h]
		x[j], x[j+h] = a*c+b*sin[j], b*c-a*sin[j]
	}
}

// HeadNorm is per-head RMSNorm followed by rotary embedding, as Qwen3 applies it to queries and keys; without w [d] it is the
// embedding alone, as in Qwen2.5.

// HeadNormForward turns head x [d] into y: y = rotate(x·r·w), returning r (1 without w).
func HeadNormForward(x, w []float32, eps float64, cos, sin, y []float32) float32 {
	if w == nil {
		copy(y, x)
		Rotate(y, cos, sin)
		return 1
	}
	var inv [1]float32
	RMSNormForward(x, w, eps, y, inv[:])
	Rotate(y, cos, sin)
	return inv[0]
}

// HeadNormBackward turns dy (destroyed) into dx, which is overwritten, and adds to dw unless it is nil.
func HeadNormBackward(x, w []float32, r float32, cos, sin, dy, dx, dw []float32) {
	RotateBack(dy, cos, sin)
	if w == nil {
		copy(dx, dy)
		return
	}
	clear(dx)
	rmsNormRowBackward(x, w, r, dy, dx, dw)
}
