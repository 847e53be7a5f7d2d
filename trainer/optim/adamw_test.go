package optim

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/trinity-lab/trinity/trainer/spec"
)

// Two steps by hand: decoupled decay on one tensor, none on the other, a gradient clipped from norm 5 to 1.
func TestAdamWAgainstTheDefinition(t *testing.T) {
	c := spec.OptimizerConfig{WeightDecay: .1, Beta1: .9, Beta2: .95, Epsilon: 1e-8, GradientClip: 1}
	w := [][]float32{{1, -2}, {.5}}
	g := [][]float32{{3, 0}, {4}}
	a := NewAdamW(c, 3)
	want := []float64{1, -2, .5}
	m, v := make([]float64, 3), make([]float64, 3)
	for step := 1; step <= 2; step++ {
		grads := []float64{3, 0, 4}
		copy(g[0], []float32{3, 0})
		g[1][0] = 4
		norm := a.Step([]Parameter{{Weight: w[0], Grad: g[0], Decay: true, Rate: 1}, {Weight: w[1], Grad: g[1], Rate: 2}}, .01)
		require.InDelta(t, 5, norm, 1e-6)
		for i := range want {
			lr := .01
			if i == 2 {
				lr = .02
			}
			x := grads[i] / 5
			m[i] = .9*m[i] + .1*x
			v[i] = .95*v[i] + .05*x*x
			if i < 2 {
				want[i] -= lr * .1 * want[i]
			}
			want[i] -= lr * (m[i] / (1 - math.Pow(.9, float64(step)))) / (math.Sqrt(v[i]/(1-math.Pow(.95, float64(step)))) + 1e-8)
		}
	}
	require.InDelta(t, want[0], w[0][0], 1e-5)
	require.InDelta(t, want[1], w[0][1], 1e-5)
	require.InDelta(t, want[2], w[1][0], 1e-5)
	require.Equal(t, []float32{0, 0}, g[0], "gradients are cleared")
	require.Equal(t, 2, a.Steps)
}

func TestRate(t *testing.T) {
	c := spec.OptimizerConfig{LearningRate: 1, WarmupSteps: 5, MinimumFactor: .1}
	require.InDelta(t, .2, Rate(c, 0, 105), 1e-9)
	require.InDelta(t, 1, Rate(c, 4, 105), 1e-9)
	require.InDelta(t, 1, Rate(c, 5, 105), 1e-9)
	require.InDelta(t, .55, Rate(c, 55, 105), 1e-9, "half way down")
	require.InDelta(t, .1, Rate(c, 105, 105), 1e-9)
	require.InDelta(t, .1, Rate(c, 500, 105), 1e-9)
	require.InDelta(t, 1, Rate(spec.OptimizerConfig{LearningRate: 1}, 0, 1), 1e-9)
}
