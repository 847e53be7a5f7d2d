// Package optim holds the optimiser and its learning-rate schedule.
package optim

import (
	"math"

	"github.com/trinity-lab/trinity/trainer/backend/cpu"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// Parameter is one tensor to train.
type Parameter struct {
	Weight, Grad []float32
	Decay        bool    // whether weight decay applies
	Rate         float32 // factor on the learning rate
}

// AdamW is AdamW with decoupled weight decay and global-norm gradient clipping over a list of parameters.
type AdamW struct {
	Config spec.OptimizerConfig
	Steps  int       // updates done
	M, V   []float32 // first and second moments, in parameter order
}

// NewAdamW returns an optimiser for n weights in all.
func NewAdamW(c spec.OptimizerConfig, n int) *AdamW {
	return &AdamW{Config: c, M: make([]float32, n), V: make([]float32, n)}
}

// Step updates the weights at the given learning rate, zeroes the gradients, and returns the gradient's norm before clipping.
func (a *AdamW) Step(params []Parameter, learningRate float64) float64 {
	var square float64
	for _, p := range params {
		for x := p.Grad; len(x) > 0; { // blocks keep the float32 partial sums short
			n := min(len(x), 4096)
			square += float64(cpu.SumSquares(x[:n]))
			x = x[n:]
		}
	}
	norm := math.Sqrt(square)
	scale := 1.0
	if c := a.Config.GradientClip; c > 0 && norm > c {
		scale = c / norm
	}
	a.Steps++
	at := 0
	for _, p := range params {
		n := len(p.Weight)
		decay := 0.0
		if p.Decay {
			decay = a.Config.WeightDecay
		}
		cpu.AdamW(p.Weight, p.Grad, a.M[at:at+n], a.V[at:at+n], cpu.AdamWParams{
			LR: float32(learningRate) * p.Rate, Beta1: float32(a.Config.Beta1), Beta2: float32(a.Config.Beta2), Eps: float32(a.Config.Epsilon),
			WeightDecay: float32(decay), GradScale: float32(scale),
			C1: float32(1 - math.Pow(a.Config.Beta1, float64(a.Steps))), C2: float32(1 - math.Pow(a.Config.Beta2, float64(a.Steps))),
		})
		clear(p.Grad)
		at += n
	}
	return norm
}

// Rate is the learning rate of a step (from 0): linear warm-up, then a cosine down to MinimumFactor of the peak at the end.
func Rate(c spec.OptimizerConfig, step, steps int) float64 {
	if step < c.WarmupSteps {
		return c.LearningRate * float64(step+1) / float64(c.WarmupSteps)
	}
	progress := float64(step-c.WarmupSteps) / float64(max(1, steps-c.WarmupSteps))
	cosine := 0.5 * (1 + math.Cos(math.Pi*math.Min(1, progress)))
	return c.LearningRate * (c.MinimumFactor + (1-c.MinimumFactor)*cosine)
}
