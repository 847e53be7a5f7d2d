// Package policy turns rewards into a policy gradient: group-relative advantages and which rollouts are kept (Trinity
// A.3), the GSPO loss with its old-policy regulariser (Eq. 3), and the Verifier's moving average. It is pure.
package policy

import "math"

const (
	// StdEpsilon is added to a group's standard deviation, and is the deviation below which the group has no variance.
	StdEpsilon = 1e-8
	// DropBelow is the largest magnitude of an advantage that is dropped.
	DropBelow = 1e-6
)

// Advantages standardises the rewards of one image and role, (R - mean) / (population std + 1e-8), in float64: in float32
// six equal rewards of 0.85 have a deviation of 6e-8 and an advantage near 0.86. A group without variance has no signal,
// except where its mean is negative: then the raw rewards are the advantages, so that a Questioner whose every candidate
// is malformed is still pushed away from them (A.3).
func Advantages(rewards []float64) []float64 {
	out := make([]float64, len(rewards))
	if len(rewards) == 0 {
		return out
	}
	n := float64(len(rewards))
	var mean, square float64
	for _, r := range rewards {
		mean += r / n
	}
	for _, r := range rewards {
		square += (r - mean) * (r - mean) / n
	}
	std := math.Sqrt(square)
	if std < StdEpsilon {
		if mean < 0 {
			copy(out, rewards)
		}
		return out
	}
	for i, r := range rewards {
		out[i] = (r - mean) / (std + StdEpsilon)
	}
	return out
}

// Retained reports whether a rollout with this advantage takes part in the update.
func Retained(advantage float64) bool { return math.Abs(advantage) > DropBelow }
