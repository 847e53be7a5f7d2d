package nn

import (
	"math"

	"github.com/trinity-lab/trinity/trainer/backend/cpu"
)

// RMSNorm is y = x / sqrt(mean(x²) + eps) · w over rows of width len(w).

// RMSNormForward normalises the rows of x [len(inv), len(w)] into y and keeps each row's inverse root mean square in inv.
func RMSNormForward(x, w []float32, eps float64, y, inv []float32) {
	d := len(w)
	for i := range inv {
		xi, yi := x[i*d:i*d+d], y[i*d:i*d+d]
		r := float32(1 / math.Sqrt(float64(cpu.SumSquares(xi))/float64(d)+eps))
		inv[i] = r
		for j, v := range xi {
			yi[j] = v * r * w[j]
		}
	}
}

// RMSNormBackward adds to dx [rows, d], and to dw unless it is nil.
func RMSNormBackward(x, w, inv, dy, dx, dw []float32) {
	d := len(w)
	for i, r := range inv {
		rmsNormRowBackward(x[i*d:i*d+d], w, r, dy[i*d:i*d+d], dx[i*d:i*d+d], dw)
	}
}

// rmsNormRowBackward: dx += r (w dy - x r²/d Σ dy w x).
func rmsNormRowBackward(x, w []float32, r float32, dy, dx, dw []float32) {
	var s float32
	for j, v := range x {
		s += dy[j] * v * w[j]
	}
	if dw != nil {
		for j, v := range x {
			dw[j] += dy[j] * v * r
		}
	}
	s *= r * r * r / float32(len(x))
	for j, v := range x {
		dx[j] += r*w[j]*dy[j] - v*s
	}
}

// Norm is LayerNorm, y = (x - mean) / sqrt(var + eps) · w + b over rows of width len(w); without b it is RMSNorm.
type Norm struct{ W, B []float32 }

// Forward normalises the rows of x [len(inv), d] into y, keeping mean and inverse standard deviation of each row (of
// RMSNorm the inverse root mean square alone).
func (n *Norm) Forward(x []float32, eps float64, y, mean, inv []float32) {
	if n.B == nil {
		RMSNormForward(x, n.W, eps, y, inv)
		return
	}
	d := len(n.W)
	for i := range inv {
		xi, yi := x[i*d:i*d+d], y[i*d:i*d+d]
		var sum float32
		for _, v := range xi {
			sum += v
		}
		m := sum / float32(d)
		var sq float32
		for _, v := range xi {
			sq += (v - m) * (v - m)
		}
		r := float32(1 / math.Sqrt(float64(sq)/float64(d)+eps))
		mean[i], inv[i] = m, r
		for j, v := range xi {
			yi[j] = (v-m)*r*n.W[j] + n.B[j]
		}
	}
}

// Backward adds to dx, and to grad's weights unless they are nil.
func (n *Norm) Backward(x, mean, inv, dy, dx []float32, grad *Norm) {
	if n.B == nil {
		RMSNormBackward(x, n.W, inv, dy, dx, grad.W)
		return
	}
	d := len(n.W)
	for i, r := range inv {
		xi, dyi, dxi, m := x[i*d:i*d+d], dy[i*d:i*d+d], dx[i*d:i*d+d], mean[i]
		var sum, dot float32
		for j, v := range xi {
			g := dyi[j] * n.W[j]
			sum += g
			dot += g * (v - m) * r
		}
		sum /= float32(d)
		dot /= float32(d)
		for j, v := range xi {
			dxi[j] += r * (dyi[j]*n.W[j] - sum - (v-m)*r*dot)
		}
		if grad.W != nil {
			for j, v := range xi {
				grad.W[j] += dyi[j] * (v - m) * r
				grad.B[j] += dyi[j]
			}
		}
	}
}
