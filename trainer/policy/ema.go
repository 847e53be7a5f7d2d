package policy

import (
	"fmt"
	"math"
)

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

// RoundToBF16 stores a merged Verifier in bfloat16, as an average kept in the checkpoint's own type would be, and takes D to
// be what is left. Merge and RoundToBF16 then give the same phi again. An average so stored stalls wherever it moves a
// weight by less than half a unit in the last place (reference g).
func RoundToBF16(phi, initial, delta []float32) error {
	if len(phi) != len(initial) || len(initial) != len(delta) {
		return fmt.Errorf("round %d weights of %d and a delta of %d: the shapes differ", len(phi), len(initial), len(delta))
	}
	for i, v := range phi {
		left := toBF16(v) - initial[i] // rounded where the two differ by orders of magnitude, hence once more
		phi[i] = toBF16(initial[i] + left)
		delta[i] = phi[i] - initial[i]
	}
	return nil
}

// toBF16 rounds to the nearest bfloat16, ties to even.
func toBF16(v float32) float32 {
	if v != v {
		return v
	}
	bits := math.Float32bits(v)
	return math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
}

// SquaredDistance is the sum of (a-b)^2, in order and in float64.
func SquaredDistance(a, b []float32) (float64, error) {
	if len(a) != len(b) {
		return 0, fmt.Errorf("distance of %d weights from %d: the shapes differ", len(a), len(b))
	}
	sum := 0.
	for i, v := range a {
		d := float64(v) - float64(b[i])
		sum += d * d
	}
	return sum, nil
}
