// Package nn holds the layers of a transformer, each as a forward function and its hand-written backward, over flat
// row-major float32 slices. Backward functions add to weight gradients; whether they add to or overwrite the gradient of
// their input is said by each. A nil weight gradient means that the weight is frozen and its gradient is not computed.
package nn

// Grow returns a slice of length n backed by *buf, allocating only when its capacity is exceeded. Contents are arbitrary.
func Grow(buf *[]float32, n int) []float32 {
	if cap(*buf) < n {
		*buf = make([]float32, n+min(n/4, 1<<14)) // with room for buffers that grow by little, at little cost to large ones
	}
	*buf = (*buf)[:n]
	return *buf
}
