package policy

import "math"

// GSPO holds the constants of Eq. 3. The fields are those of the run's configuration, so that one converts to the other.
type GSPO struct {
	ClipLow     float64 // the ratio is clipped below at 1 - ClipLow: 3e-4
	ClipHigh    float64 // and above at 1 + ClipHigh: 4e-4
	Regulariser float64 // coefficient of the old-policy regulariser: 0.10
}

// DefaultGSPO returns the paper's constants.
func DefaultGSPO() GSPO { return GSPO{ClipLow: 3e-4, ClipHigh: 4e-4, Regulariser: 0.10} }

// Loss is Eq. 3 of one rollout.
type Loss struct {
	Policy      float64 // -min(rho A, clip(rho) A)
	Regulariser float64 // coefficient times the mean over tokens of e^l - l - 1
	Ratio       float64 // rho, the sequence-level ratio exp(mean l)
	KL          float64 // mean over tokens of e^l - l - 1: estimates KL(old || current)
	Clipped     bool    // the clipped branch was taken: the surrogate has no gradient
}

// Total is the rollout's loss.
func (l Loss) Total() float64 { return l.Policy + l.Regulariser }

// Rollout is Eq. 3 for one completion. logRatios [tokens] are l_t = log pi_theta - log pi_old over the full vocabulary,
// with the rollout policy as anchor, never an initial or reference policy. Where grad is not nil, grad[t] is set to the
// derivative of the loss by the current log-probability of token t; it has the length of logRatios.
// A completion without tokens has ratio 1 and its loss is the constant -A.
func (g GSPO) Rollout(logRatios []float64, advantage float64, grad []float64) Loss {
	n := float64(len(logRatios))
	var mean, kl float64
	for _, l := range logRatios {
		mean += l / n
		kl += (math.Expm1(l) - l) / n
	}
	loss := Loss{Ratio: math.Exp(mean), KL: kl, Regulariser: g.Regulariser * kl}
	surrogate := loss.Ratio * advantage
	clipped := min(max(loss.Ratio, 1-g.ClipLow), 1+g.ClipHigh) * advantage
	loss.Clipped = clipped < surrogate
	loss.Policy = -min(surrogate, clipped)
	if grad == nil {
		return loss
	}
	var slope float64
	if !loss.Clipped {
		slope = -surrogate / n
	}
	for t, l := range logRatios {
		grad[t] = slope + g.Regulariser*math.Expm1(l)/n
	}
	return loss
}

// Rollout is one member of an update.
type Rollout struct {
	LogRatios []float64 // [tokens]
	Advantage float64
	Padding   bool // keeps the schedules of workers aligned: no loss, not counted
}

// BatchLoss are means over the Count retained rollouts of an update; KL is the mean over their tokens.
type BatchLoss struct {
	Policy, Regulariser float64
	Ratio, KL           float64
	ClipFraction        float64
	Count, Tokens       int
}

// Total is the loss of the update.
func (b BatchLoss) Total() float64 { return b.Policy + b.Regulariser }

// Batch is the loss of an update: the mean over the retained rollouts of both roles, so that a role weighs as many
// rollouts as it kept (A.3). grads is nil, or holds a slice for each rollout, of the length of its LogRatios, set to the
// derivative of the mean; those of rollouts that take no part are zeroed. Without any retained rollout all is zero.
func (g GSPO) Batch(rollouts []Rollout, grads [][]float64) BatchLoss {
	var b BatchLoss
	for _, r := range rollouts {
		if !r.Padding && Retained(r.Advantage) {
			b.Count++
			b.Tokens += len(r.LogRatios)
		}
	}
	share := 1 / float64(b.Count)
	for i, r := range rollouts {
		var grad []float64
		if grads != nil {
			grad = grads[i]
		}
		if r.Padding || !Retained(r.Advantage) {
			clear(grad)
			continue
		}
		loss := g.Rollout(r.LogRatios, r.Advantage, grad)
		for t := range grad {
			grad[t] *= share
		}
		b.Policy += loss.Policy * share
		b.Regulariser += loss.Regulariser * share
		b.Ratio += loss.Ratio * share
		if b.Tokens > 0 {
			b.KL += loss.KL * float64(len(r.LogRatios)) / float64(b.Tokens)
		}
		if loss.Clipped {
			b.ClipFraction += share
		}
	}
	return b
}
