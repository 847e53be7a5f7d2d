package trinity

import (
	"math"

	"github.com/trinity-lab/trinity/trainer/reward"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// metricSkipped counts the images of a step that could not be used.
const metricSkipped = "corpus/skipped"

// figures are what is measured of each T, by metric.
type figures[T any] map[string]func(T) float64

// average sets each metric to the mean of its figure over list; that of nothing is NaN.
func average[T any](m map[string]spec.Float, list []T, by figures[T]) {
	for metric, figure := range by {
		m[metric] = mean(list, figure)
	}
}

func mean[T any](list []T, figure func(T) float64) spec.Float {
	if len(list) == 0 {
		return spec.Float(math.NaN())
	}
	sum := 0.
	for _, e := range list {
		sum += figure(e)
	}
	return spec.Float(sum / float64(len(list)))
}

func where[T any](list []T, condition func(T) bool) []T {
	var out []T
	for _, e := range list {
		if condition(e) {
			out = append(out, e)
		}
	}
	return out
}

// share is a figure whose mean is the share of those for which condition holds.
func share[T any](condition func(T) bool) func(T) float64 {
	return func(e T) float64 {
		if condition(e) {
			return 1
		}
		return 0
	}
}

// metrics are the step's figures, by the names of package spec. Reward means run over all candidates or all rollouts,
// malformed ones included as zeros, as plotted in Figure 2 (A.5).
func (s *step) metrics() map[string]spec.Float {
	m := map[string]spec.Float{metricSkipped: spec.Float(s.skipped)}
	var candidates []*candidate
	var rollouts []*rollout
	for _, e := range s.episodes {
		candidates, rollouts = append(candidates, e.candidates...), append(rollouts, e.rollouts...)
	}
	questionerMetrics(m, candidates)
	solverMetrics(m, rollouts)
	s.verifierMetrics(m)
	s.policyMetrics(m)
	if s.Oracle != nil {
		oracleMetrics(m, candidates, rollouts)
	}
	for phase, seconds := range s.seconds {
		m[spec.MetricSecondsPrefix+phase] = spec.Float(seconds)
		if n, ok := s.tokens[phase]; ok && seconds > 0 {
			m[spec.MetricTokensPerSecondPrefix+phase] = spec.Float(float64(n) / seconds)
		}
	}
	return m
}

func questionerMetrics(m map[string]spec.Float, candidates []*candidate) {
	selected := func(c *candidate) bool { return c.Selected }
	challenge := func(c *candidate) float64 { return c.RChal }
	average(m, candidates, figures[*candidate]{
		spec.MetricRFact:            func(c *candidate) float64 { return c.RFact },
		spec.MetricRDiff:            func(c *candidate) float64 { return c.Difficulty },
		spec.MetricRChal:            challenge,
		spec.MetricRQ:               func(c *candidate) float64 { return c.Reward },
		spec.MetricSelectRate:       share(selected),
		spec.MetricFormatQuestioner: share(func(c *candidate) bool { return c.FormatOK }),
	})
	m[spec.MetricRChalSelected] = mean(where(candidates, selected), challenge)
	m[spec.MetricRetainedQ] = spec.Float(len(where(candidates, func(c *candidate) bool { return c.Retained })))
}

func solverMetrics(m map[string]spec.Float, rollouts []*rollout) {
	average(m, rollouts, figures[*rollout]{
		spec.MetricRCorrect:     func(r *rollout) float64 { return r.Correct },
		spec.MetricRReason:      func(r *rollout) float64 { return r.Reason },
		spec.MetricRS:           func(r *rollout) float64 { return r.Reward },
		spec.MetricFormatSolver: share(func(r *rollout) bool { return r.FormatOK }),
	})
	m[spec.MetricRetainedS] = spec.Float(len(where(rollouts, func(r *rollout) bool { return r.Retained })))
}

func (s *step) verifierMetrics(m map[string]spec.Float) {
	disputed := func(e *episode) bool { return e.dispute != nil }
	episodes := s.withQuestion()
	m[spec.MetricDisputeRate] = mean(episodes, share(disputed))
	average(m, where(episodes, disputed), figures[*episode]{
		spec.MetricDisputeOverturned: share(func(e *episode) bool { return e.dispute.Overturned }),
		spec.MetricDisputeFallback:   share(func(e *episode) bool { return e.dispute.Outcome == reward.OutcomeFallback }),
	})
	m[spec.MetricVerifierParseFail] = spec.Float(float64(s.unparsed) / float64(s.calls))
	if s.Config.Verifier.Update == "ema" {
		m[spec.MetricVerifierDrift] = spec.Float(s.drift)
	}
}

// policyMetrics averages over the step's optimiser updates, the objective's figures weighted by an update's samples.
func (s *step) policyMetrics(m map[string]spec.Float) {
	var weighted []update
	for _, u := range s.updates {
		for range u.samples {
			weighted = append(weighted, u)
		}
	}
	average(m, weighted, figures[update]{
		spec.MetricLoss:            func(u update) float64 { return u.Loss },
		spec.MetricLossPolicy:      func(u update) float64 { return u.PolicyLoss },
		spec.MetricLossRegulariser: func(u update) float64 { return u.Regulariser },
		spec.MetricClipFraction:    func(u update) float64 { return u.ClipFraction },
		spec.MetricRatioMean:       func(u update) float64 { return u.RatioMean },
		spec.MetricKL:              func(u update) float64 { return u.KL },
	})
	m[spec.MetricGradNorm] = mean(s.updates, func(u update) float64 { return u.GradNorm })
	m[spec.MetricMismatch] = mean(s.mismatch, func(x float64) float64 { return x })
	m[spec.MetricLearningRate] = spec.Float(s.learningRate)
}

// oracleMetrics compare the Verifier's screening, as it judged before the gate's ablation and any dispute, and the
// Solver's answers with the truth. Solver accuracy runs over all rollouts, as R_correct does: an answer to an ungrounded
// question, and a malformed one, is not right.
func oracleMetrics(m map[string]spec.Float, candidates []*candidate, rollouts []*rollout) {
	grounded := func(c *candidate) bool { return c.Oracle.Grounded }
	right := func(c *candidate) bool { return c.Oracle.Right }
	formed := where(candidates, func(c *candidate) bool { return c.FormatOK })
	m[spec.MetricOracleGrounded] = mean(formed, share(grounded))
	m[spec.MetricOracleReferenceRight] = mean(formed, share(right))
	m[spec.MetricOracleSolverAccuracy] = mean(rollouts, share(func(r *rollout) bool { return r.Oracle != nil && r.Oracle.Right }))

	judged := where(formed, func(c *candidate) bool { return c.verdict })
	fact := func(c *candidate) float64 { return c.fact }
	correct := func(c *candidate) float64 { return c.correct }
	m[spec.MetricOracleFactFPR], m[spec.MetricOracleFactFNR] = errorRates(judged, grounded, fact)
	m[spec.MetricOracleCorrFPR], m[spec.MetricOracleCorrFNR] = errorRates(judged, right, correct)
}

// errorRates are the share of 1 among the verdicts where the truth is no, and that of 0 where it is yes.
func errorRates(judged []*candidate, truth func(*candidate) bool, verdict func(*candidate) float64) (falsePositive, falseNegative spec.Float) {
	untrue := func(c *candidate) bool { return !truth(c) }
	return mean(where(judged, untrue), share(func(c *candidate) bool { return verdict(c) == 1 })),
		mean(where(judged, truth), share(func(c *candidate) bool { return verdict(c) == 0 }))
}
