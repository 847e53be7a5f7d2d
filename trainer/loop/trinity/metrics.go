package trinity

import (
	"math"

	"github.com/trinity-lab/trinity/trainer/reward"
	"github.com/trinity-lab/trinity/trainer/spec"
)

// metricSkipped counts the images of a step that could not be used.
const metricSkipped = "corpus/skipped"

// mean averages what is added to it; the mean of nothing is NaN.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(x float64) { m.sum += x; m.n++ }

func (m *mean) addIf(condition bool) {
	m.n++
	if condition {
		m.sum++
	}
}

func (m mean) value() spec.Float {
	if m.n == 0 {
		return spec.Float(math.NaN())
	}
	return spec.Float(m.sum / float64(m.n))
}

// metrics are the step's figures, by the names of package spec. Reward means run over all candidates or all rollouts,
// malformed ones included as zeros, as plotted in Figure 2 (A.5).
func (s *step) metrics() map[string]spec.Float {
	m := map[string]spec.Float{metricSkipped: spec.Float(s.skipped)}
	s.questionerMetrics(m)
	s.solverMetrics(m)
	s.verifierMetrics(m)
	s.policyMetrics(m)
	if s.Oracle != nil {
		s.oracleMetrics(m)
	}
	for phase, seconds := range s.seconds {
		m[spec.MetricSecondsPrefix+phase] = spec.Float(seconds)
		if n, ok := s.tokens[phase]; ok && seconds > 0 {
			m[spec.MetricTokensPerSecondPrefix+phase] = spec.Float(float64(n) / seconds)
		}
	}
	return m
}

func (s *step) questionerMetrics(m map[string]spec.Float) {
	var fact, difficulty, challenge, selectedChallenge, reward, selected, format mean
	retained := 0
	for _, e := range s.episodes {
		for _, c := range e.candidates {
			fact.add(c.RFact)
			difficulty.add(c.Difficulty)
			challenge.add(c.RChal)
			reward.add(c.Reward)
			selected.addIf(c.Selected)
			format.addIf(c.FormatOK)
			if c.Selected {
				selectedChallenge.add(c.RChal)
			}
			if c.Retained {
				retained++
			}
		}
	}
	m[spec.MetricRFact] = fact.value()
	m[spec.MetricRDiff] = difficulty.value()
	m[spec.MetricRChal] = challenge.value()
	m[spec.MetricRChalSelected] = selectedChallenge.value()
	m[spec.MetricRQ] = reward.value()
	m[spec.MetricSelectRate] = selected.value()
	m[spec.MetricFormatQuestioner] = format.value()
	m[spec.MetricRetainedQ] = spec.Float(retained)
}

func (s *step) solverMetrics(m map[string]spec.Float) {
	var correct, reason, reward, format mean
	retained := 0
	for _, e := range s.episodes {
		for _, r := range e.rollouts {
			correct.add(r.Correct)
			reason.add(r.Reason)
			reward.add(r.Reward)
			format.addIf(r.FormatOK)
			if r.Retained {
				retained++
			}
		}
	}
	m[spec.MetricRCorrect] = correct.value()
	m[spec.MetricRReason] = reason.value()
	m[spec.MetricRS] = reward.value()
	m[spec.MetricFormatSolver] = format.value()
	m[spec.MetricRetainedS] = spec.Float(retained)
}

func (s *step) verifierMetrics(m map[string]spec.Float) {
	var disputed, overturned, fallback mean
	for _, e := range s.withQuestion() {
		disputed.addIf(e.dispute != nil)
		if d := e.dispute; d != nil {
			overturned.addIf(d.Overturned)
			fallback.addIf(d.Outcome == reward.OutcomeFallback)
		}
	}
	m[spec.MetricDisputeRate] = disputed.value()
	m[spec.MetricDisputeOverturned] = overturned.value()
	m[spec.MetricDisputeFallback] = fallback.value()
	m[spec.MetricVerifierParseFail] = mean{float64(s.unparsed), s.calls}.value()
}

// policyMetrics averages over the step's optimiser updates, each weighted by its samples.
func (s *step) policyMetrics(m map[string]spec.Float) {
	var loss, policy, regulariser, clipped, ratio, kl, norm, mismatch mean
	for _, u := range s.updates {
		for range u.samples {
			loss.add(u.Loss)
			policy.add(u.PolicyLoss)
			regulariser.add(u.Regulariser)
			clipped.add(u.ClipFraction)
			ratio.add(u.RatioMean)
			kl.add(u.KL)
		}
		norm.add(u.GradNorm)
	}
	for _, x := range s.mismatch {
		mismatch.add(x)
	}
	m[spec.MetricLoss] = loss.value()
	m[spec.MetricLossPolicy] = policy.value()
	m[spec.MetricLossRegulariser] = regulariser.value()
	m[spec.MetricClipFraction] = clipped.value()
	m[spec.MetricRatioMean] = ratio.value()
	m[spec.MetricKL] = kl.value()
	m[spec.MetricGradNorm] = norm.value()
	m[spec.MetricMismatch] = mismatch.value()
	m[spec.MetricLearningRate] = spec.Float(s.learningRate)
}

// oracleMetrics compare the Verifier's screening, as it judged before the gate's ablation and any dispute, and the
// Solver's answers with the truth. Solver accuracy runs over all rollouts, as R_correct does: an answer to an ungrounded
// question, and a malformed one, is not right.
func (s *step) oracleMetrics(m map[string]spec.Float) {
	var factFPR, factFNR, corrFPR, corrFNR, accuracy, grounded, right mean
	for _, e := range s.episodes {
		for _, c := range e.candidates {
			if !c.FormatOK {
				continue
			}
			grounded.addIf(c.Oracle.Grounded)
			right.addIf(c.Oracle.Right)
			if c.verdict {
				rate(&factFPR, &factFNR, c.Oracle.Grounded, c.fact)
				rate(&corrFPR, &corrFNR, c.Oracle.Right, c.correct)
			}
		}
		for _, r := range e.rollouts {
			accuracy.addIf(r.Oracle != nil && r.Oracle.Right)
		}
	}
	m[spec.MetricOracleFactFPR] = factFPR.value()
	m[spec.MetricOracleFactFNR] = factFNR.value()
	m[spec.MetricOracleCorrFPR] = corrFPR.value()
	m[spec.MetricOracleCorrFNR] = corrFNR.value()
	m[spec.MetricOracleSolverAccuracy] = accuracy.value()
	m[spec.MetricOracleGrounded] = grounded.value()
	m[spec.MetricOracleReferenceRight] = right.value()
}

// rate counts a verdict among the false positives where the truth is no, else among the false negatives.
func rate(fpr, fnr *mean, truth bool, verdict float64) {
	if truth {
		fnr.addIf(verdict == 0)
	} else {
		fpr.addIf(verdict == 1)
	}
}
