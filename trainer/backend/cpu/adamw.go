package cpu

import "math"

// AdamWParams are the constants of one optimiser step.
type AdamWParams struct {
	LR           float32
	Beta1, Beta2 float32
	Eps          float32 // added to the root of the corrected second moment
	WeightDecay  float32 // decoupled: w shrinks by LR*WeightDecay, outside the moments
	GradScale    float32 // the gradient is multiplied by this first (clipping, averaging); 0 means a zero gradient, not 1
	C1, C2       float32 // bias corrections 1-Beta1^t and 1-Beta2^t at step t >= 1
}

// adamWConstants are what the kernels broadcast. The assembly reads the fields in this order.
type adamWConstants struct {
	gradScale, beta1, rest1, beta2, rest2, rootScale, eps, step, keep float32
}

// AdamW updates w in place from the gradient g, with first and second moments m and v (Loshchilov & Hutter,
// "Decoupled Weight Decay Regularization", Algorithm 2):
//
//	m = β1 m + (1-β1) g,  v = β2 v + (1-β2) g²,  w -= LR (m/C1 / (√(v/C2) + ε) + λ w)
//
// All four have the length of w; g is not changed.
func AdamW(w, g, m, v []float32, p AdamWParams) {
	if len(w) == 0 {
		return
	}
	mustHold("AdamW", "g", g, len(w))
	mustHold("AdamW", "m", m, len(w))
	mustHold("AdamW", "v", v, len(w))
	c := p.constants()
	adamW(w, g, m, v, &c)
}

func (p AdamWParams) constants() adamWConstants {
	return adamWConstants{
		gradScale: p.GradScale,
		beta1:     p.Beta1,
		rest1:     float32(1 - float64(p.Beta1)),
		beta2:     p.Beta2,
		rest2:     float32(1 - float64(p.Beta2)),
		rootScale: float32(1 / math.Sqrt(float64(p.C2))),
		eps:       p.Eps,
		step:      float32(float64(p.LR) / float64(p.C1)),
		keep:      float32(1 - float64(p.LR)*float64(p.WeightDecay)),
	}
}
