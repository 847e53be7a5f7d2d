package cpu

import "math"

// The portable kernels. Products are converted before they are added: that forbids fusing, which a compiler might do
// in one loop and not in the next, and so keeps bits the same wherever an element lies.

func dotPortable(x, y []float32) float32 {
	y = y[:len(x)]
	var s0, s1, s2, s3 float32
	i := 0
	for ; i+4 <= len(x); i += 4 {
		s0 += float32(x[i] * y[i])
		s1 += float32(x[i+1] * y[i+1])
		s2 += float32(x[i+2] * y[i+2])
		s3 += float32(x[i+3] * y[i+3])
	}
	for ; i < len(x); i++ {
		s0 += float32(x[i] * y[i])
	}
	return (s0 + s1) + (s2 + s3)
}

func dotRowsPortable(x, w []float32, ldw, rows int, y []float32) {
	for r := range rows {
		y[r] = dotPortable(x, w[r*ldw:r*ldw+len(x)])
	}
}

func accumulateRowsPortable(p, v []float32, ldv, rows int, y []float32) {
	for r := range rows {
		axpyPortable(p[r], v[r*ldv:r*ldv+len(y)], y)
	}
}

func axpyPortable(alpha float32, x, y []float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] += float32(alpha * v)
	}
}

func scalePortable(alpha float32, x []float32) {
	for i := range x {
		x[i] *= alpha
	}
}

func addPortable(dst, x []float32) {
	dst = dst[:len(x)]
	for i, v := range x {
		dst[i] += v
	}
}

func expShiftPortable(dst, x []float32, shift float32) float32 {
	dst = dst[:len(x)]
	var sum float32
	for i, v := range x {
		dst[i] = float32(math.Exp(float64(v - shift)))
		sum += dst[i]
	}
	return sum
}

func sumExpShiftPortable(x []float32, shift float32) float32 {
	var sum float32
	for _, v := range x {
		sum += float32(math.Exp(float64(v - shift)))
	}
	return sum
}

func sigmoidPortable(dst, x []float32) {
	dst = dst[:len(x)]
	for i, v := range x {
		dst[i] = float32(1 / (1 + math.Exp(-float64(v))))
	}
}

func largestPortable(x []float32) float32 {
	top := x[0]
	for _, v := range x[1:] {
		if v > top {
			top = v
		}
	}
	return top
}

func adamWPortable(w, g, m, v []float32, c *adamWConstants) {
	g, m, v = g[:len(w)], m[:len(w)], v[:len(w)]
	for i := range w {
		d := g[i] * c.gradScale
		m[i] = float32(c.beta1*m[i]) + float32(c.rest1*d)
		v[i] = float32(c.beta2*v[i]) + float32(c.rest2*float32(d*d))
		root := float32(math.Sqrt(float64(v[i])))
		w[i] = float32(w[i]*c.keep) - float32(c.step*(m[i]/(float32(root*c.rootScale)+c.eps)))
	}
}
