package trinity

import (
	"context"

	"github.com/trinity-lab/trinity/trainer/policy"
	"github.com/trinity-lab/trinity/trainer/reward"
)

// reward applies Eq. 1 and Eq. 2 to every episode, then standardises each image's candidates and rollouts apart (A.3).
func (s *step) reward(context.Context) error {
	k := reward.Coefficients(s.Config.Reward)
	questioner, solver := s.turns()
	for _, e := range s.episodes {
		scored := k.Score(candidateSignals(e.candidates), rolloutSignals(e.rollouts))
		var earned []float64
		for g, c := range e.candidates {
			r := scored.Candidates[g]
			c.RFact, c.RDiffTilde, c.RChal, c.Reward = r.RFact, r.RDiffTilde, r.RChal, r.Reward
			earned = append(earned, c.Reward)
		}
		for g, a := range policy.Advantages(earned) {
			c := e.candidates[g]
			c.Advantage, c.Retained = a, questioner && retained(a, c.sampled)
		}
		for i, r := range e.rollouts {
			r.Reward = scored.Rollouts[i]
		}
		for i, a := range policy.Advantages(scored.Rollouts) {
			r := e.rollouts[i]
			r.Advantage, r.Retained = a, solver && retained(a, r.sampled)
		}
	}
	return nil
}

// turns says which roles the step updates: both, or where they alternate (appendix D) the one whose turn it is. The other
// still asks or answers, since neither role can be rewarded without the other.
func (s *step) turns() (questioner, solver bool) {
	n := s.Config.Optimizer.Alternate
	if n == 0 {
		return true, true
	}
	questioner = s.n/n%2 == 0
	return questioner, !questioner
}

// retained says whether an update may learn from a completion; one without tokens has no likelihood to change.
func retained(advantage float64, c sampled) bool {
	return policy.Retained(advantage) && len(c.tokens) > 0
}

func candidateSignals(candidates []*candidate) []reward.Candidate {
	out := make([]reward.Candidate, len(candidates))
	for i, c := range candidates {
		out[i] = reward.Candidate{FormatOK: c.FormatOK, FactQ: c.FactQ, CorrA: c.CorrA, Difficulty: c.Difficulty, Selected: c.Selected}
	}
	return out
}

func rolloutSignals(rollouts []*rollout) []reward.Rollout {
	out := make([]reward.Rollout, len(rollouts))
	for i, r := range rollouts {
		out[i] = reward.Rollout{FormatOK: r.FormatOK, Correct: r.Correct, Reason: r.Reason, Evaluable: r.Evaluable}
	}
	return out
}
