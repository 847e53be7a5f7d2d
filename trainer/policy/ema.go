package policy

import "fmt"

// The Verifier is phi = W0 + D, with W0 the weights that both copies started from and D an fp32 delta. Averaging the delta
// on merged weights is exact where bf16 weights could not move at all (bf16(0.999) is 1), and is not the average of LoRA
// factors, whose product is another matrix.

// AverageDelta moves the Verifier's delta towards the policy's merged weights theta: D <- decay D + (1 - decay) (theta - W0),
// in float32.
func AverageDelta(delta, initial, theta []float32, decay float64) error {
	if len(delta) != len(initial) || len(initial) != len(theta) {
		return fmt.Errorf("average of %d weights with %d, from %d: the copies have different shapes", len(delta), len(theta), len(initial))
	}
	keep, take := float32(decay), float32(1-decay)
	for i, v := range theta {
		delta[i] = keep*delta[i] + take*(v-initial[i])
	}
	return nil
}

// Merge writes W0 + D into dst. Cast the result once, when loading it; never recover W0 by subtracting.
func Merge(dst, initial, delta []float32) error {
	if len(dst) != len(initial) || len(initial) != len(delta) {
		return fmt.Errorf("merge of %d weights and a delta of %d into %d: the shapes differ", len(initial), len(delta), len(dst))
	}
	for i := range dst {
		dst[i] = initial[i] + delta[i]
	}
	return nil
}
