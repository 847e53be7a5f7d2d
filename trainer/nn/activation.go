package nn

import (
	"math"

	"github.com/trinity-lab/trinity/trainer/backend/cpu"
)

// SwiGLUForward computes act = silu(gate)·up for rows of gateUp [rows, 2f] (gate first), and keeps sigmoid(gate) in sig [rows, f].
func SwiGLUForward(gateUp []float32, f int, act, sig []float32) {
	for i := 0; i*f < len(act); i++ {
		gate, up := gateUp[2*i*f:2*i*f+f], gateUp[2*i*f+f:2*i*f+2*f]
		a, s := act[i*f:i*f+f], sig[i*f:i*f+f]
		cpu.Sigmoid(s, gate)
		for j, v := range gate {
			a[j] = v * s[j] * up[j]
		}
	}
}

// SwiGLUBackward overwrites dGateUp, which may be gateUp itself, from dAct.
func SwiGLUBackward(gateUp []float32, f int, sig, dAct, dGateUp []float32) {
	for i := 0; i*f < len(dAct); i++ {
		gate, up := gateUp[2*i*f:2*i*f+f], gateUp[2*i*f+f:2*i*f+2*f]
		dGate, dUp := dGateUp[2*i*f:2*i*f+f], dGateUp[2*i*f+f:2*i*f+2*f]
		s, da := sig[i*f:i*f+f], dAct[i*f:i*f+f]
		for j, v := range gate {
			u := up[j]
			dUp[j] = da[j] * v * s[j]
			dGate[j] = da[j] * u * s[j] * (1 + v*(1-s[j]))
		}
	}
}

const (
	geluC = 0.7978845608028654 // sqrt(2/pi)
	geluK = 0.044715
)

// GELUTanhForward is the tanh approximation: y = x/2 (1 + tanh(c (x + k x³))). scratch keeps the tanh for the backward pass.
func GELUTanhForward(x, y, tanh []float32) {
	for i, v := range x {
		tanh[i] = -2 * geluC * (v + geluK*v*v*v)
	}
	cpu.Exp(tanh, tanh)
	for i, v := range x {
		t := 2/(1+tanh[i]) - 1
		tanh[i] = t
		y[i] = 0.5 * v * (1 + t)
	}
}

// GELUTanhBackward overwrites dx from dy.
func GELUTanhBackward(x, tanh, dy, dx []float32) {
	for i, v := range x {
		t := tanh[i]
		dx[i] = dy[i] * (0.5*(1+t) + 0.5*v*(1-t*t)*geluC*(1+3*geluK*v*v))
	}
}

// GELUForward is the exact form: y = x Φ(x).
func GELUForward(x, y []float32) {
	for i, v := range x {
		y[i] = float32(0.5 * float64(v) * (1 + math.Erf(float64(v)/math.Sqrt2)))
	}
}

// GELUBackward overwrites dx from dy.
func GELUBackward(x, dy, dx []float32) {
	for i, v := range x {
		z := float64(v)
		phi := 0.5 * (1 + math.Erf(z/math.Sqrt2))
		dx[i] = dy[i] * float32(phi+z*math.Exp(-z*z/2)/math.Sqrt(2*math.Pi))
	}
}
