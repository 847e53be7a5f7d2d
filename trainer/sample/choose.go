package sample

import (
	"cmp"
	"math"
	"slices"

	"github.com/trinity-lab/trinity/trainer/backend/cpu"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// Chooser picks tokens from logits; it keeps scratch space and is not safe for concurrent use.
type Chooser struct {
	probs []float32
	order []int32
}

// Choose draws a token from logits [vocab] with the uniform number u in [0, 1): divided by the temperature, restricted to
// the top-k most likely and then to the smallest set whose mass reaches top-p. Temperature 0 takes the most likely, the
// lowest id first. It returns the token and its log-probability over the full vocabulary at temperature 1.
func (c *Chooser) Choose(logits []float32, s spec.SamplingConfig, u float64) (int32, float32) {
	lse := cpu.LogSumExp(logits)
	var token int32
	switch {
	case s.Temperature == 0:
		for i, v := range logits {
			if v > logits[token] {
				token = int32(i)
			}
		}
	case s.TopK > 0 && s.TopK < len(logits) || s.TopP < 1:
		token = c.filtered(c.heat(logits, s.Temperature), s, u)
	default:
		token = draw(c.heat(logits, s.Temperature), u)
	}
	return token, logits[token] - lse
}

// heat returns the distribution at a temperature, which may be as small as a float64 can be.
func (c *Chooser) heat(logits []float32, temperature float64) []float32 {
	c.probs = append(c.probs[:0], logits...)
	if temperature != 1 {
		top := slices.Max(logits)
		for i, v := range logits {
			c.probs[i] = float32(max(float64(v-top)/temperature, -1e4))
		}
	}
	cpu.Softmax(c.probs)
	return c.probs
}

func draw(p []float32, u float64) int32 {
	var sum float64
	last := 0
	for i, v := range p {
		if v > 0 {
			sum += float64(v)
			last = i
			if u < sum {
				return int32(i)
			}
		}
	}
	return int32(last) // u fell beyond a sum rounded below one
}

func (c *Chooser) filtered(p []float32, s spec.SamplingConfig, u float64) int32 {
	floor := float32(0)
	if s.TopK == 0 || s.TopK >= len(p) { // tokens below this share cannot be among the first to reach top-p, and need no sorting
		floor = float32((1 - s.TopP) / float64(len(p)))
	}
	c.order = c.order[:0]
	for i, v := range p {
		if v >= floor {
			c.order = append(c.order, int32(i))
		}
	}
	slices.SortFunc(c.order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(p[b], p[a]), cmp.Compare(a, b))
	})
	if s.TopK > 0 && s.TopK < len(c.order) {
		c.order = c.order[:s.TopK]
	}
	var total float64
	for _, i := range c.order {
		total += float64(p[i])
	}
	var mass float64
	keep := len(c.order)
	for k, i := range c.order {
		mass += float64(p[i])
		if mass >= s.TopP*total {
			keep = k + 1
			break
		}
	}
	u *= math.Min(mass, total)
	var sum float64
	for _, i := range c.order[:keep] {
		sum += float64(p[i])
		if u < sum {
			return i
		}
	}
	return c.order[keep-1]
}
