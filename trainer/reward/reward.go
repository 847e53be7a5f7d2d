// Package reward computes the rewards of an episode: Trinity Eq. 1 for the Questioner and Eq. 2 for the Solver, the gate
// that selects a question, and what a dispute changes. It is pure: no I/O, no clock, no randomness of its own.
package reward

// Coefficients are those of Eq. 1 (AlphaQ, BetaQ, RhoF) and Eq. 2 (WC, WR, WF). The fields are those of the run's
// configuration, so that one converts to the other.
type Coefficients struct {
	AlphaQ float64 `yaml:"alpha_q" json:"alpha_q"` // weight of the discounted difficulty
	BetaQ  float64 `yaml:"beta_q" json:"beta_q"`   // weight of the Solver-validated challenge
	RhoF   float64 `yaml:"rho_f" json:"rho_f"`     // penalty of a malformed candidate
	WC     float64 `yaml:"w_c" json:"w_c"`         // weight of correctness
	WR     float64 `yaml:"w_r" json:"w_r"`         // weight of reasoning, paid on correct answers alone
	WF     float64 `yaml:"w_f" json:"w_f"`         // weight of format
}

// Default returns the paper's coefficients.
func Default() Coefficients {
	return Coefficients{AlphaQ: 0.3, BetaQ: 0.7, RhoF: 0.5, WC: 0.5, WR: 0.3, WF: 0.2}
}

// Candidate holds the signals of one Questioner proposal.
type Candidate struct {
	FormatOK   bool
	FactQ      float64 // 0 or 1: every premise is visible and the image is needed
	CorrA      float64 // 0 or 1: the proposed answer is right
	Difficulty float64 // R_diff as the Verifier gave it: 0.1, 0.4, 0.7 or 1.0; 0 where not screened
	Selected   bool    // the Solver was asked this one; at most one an episode
}

// Rollout holds the signals of one Solver completion.
type Rollout struct {
	FormatOK  bool    // false for malformed and truncated completions
	Correct   float64 // 0 or 1, against the reference after any dispute
	Reason    float64 // 0, 0.25, 0.5 or 1
	Evaluable bool    // counts in R_chal's denominator (A.3); normally FormatOK
}

// CandidateReward is a candidate's reward with the terms it is made of.
type CandidateReward struct {
	RFact      float64 // 0, 0.5 or 1
	RDiffTilde float64 // difficulty discounted by challenge, [0, 1]
	RChal      float64 // [0, 1]; 0 where not selected
	Reward     float64 // Eq. 1
}

// Clamp resolves a self-contradictory screening: an ungrounded question has no right answer (section 2).
func Clamp(factQ, corrA float64) (fact, corr float64) {
	if factQ == 0 {
		return 0, 0
	}
	return factQ, corrA
}

// Fact is the factuality gate R_fact = R_fact-q (1 + R_corr-a) / 2, in {0, 0.5, 1}.
func Fact(factQ, corrA float64) float64 {
	factQ, corrA = Clamp(factQ, corrA)
	return factQ * (1 + corrA) / 2
}

// DiscountedDifficulty is R~_diff = R_diff (0.5 + 0.5 R_chal): a question that every Solver answers was not hard.
func DiscountedDifficulty(difficulty, chal float64) float64 { return difficulty * (0.5 + 0.5*chal) }

// Challenge is R_chal, the failure rate over the evaluable rollouts, and how many those are. Where none is evaluable it
// is 0, which a caller should record: nothing was learnt about the question (A.3).
func Challenge(rollouts []Rollout) (chal float64, evaluable int) {
	var correct float64
	for _, r := range rollouts {
		if r.Evaluable {
			evaluable++
			correct += r.Correct
		}
	}
	if evaluable == 0 {
		return 0, 0
	}
	return 1 - correct/float64(evaluable), evaluable
}

// Candidate is Eq. 1. chal is the R_chal of the episode; an unselected candidate gets none of it. A malformed candidate
// was never screened, so its terms are zero.
func (k Coefficients) Candidate(c Candidate, chal float64) CandidateReward {
	if !c.FormatOK {
		return CandidateReward{Reward: -k.RhoF}
	}
	if !c.Selected {
		chal = 0
	}
	r := CandidateReward{RFact: Fact(c.FactQ, c.CorrA), RDiffTilde: DiscountedDifficulty(c.Difficulty, chal), RChal: chal}
	r.Reward = r.RFact * (k.AlphaQ*r.RDiffTilde + k.BetaQ*r.RChal)
	return r
}

// Rollout is Eq. 2. A malformed or truncated completion has 0 whatever its answer, and stays in its group.
func (k Coefficients) Rollout(r Rollout) float64 {
	if !r.FormatOK {
		return 0
	}
	return k.WC*r.Correct + k.WR*r.Reason*r.Correct + k.WF
}

// Scored are the rewards of an episode, in the order of its candidates and rollouts.
type Scored struct {
	RChal      float64 // 0 where nothing was selected or evaluable
	Evaluable  int     // R_chal's denominator
	Candidates []CandidateReward
	Rollouts   []float64
}

// Score rewards one episode: all candidates of an image, and the rollouts of the selected one.
func (k Coefficients) Score(candidates []Candidate, rollouts []Rollout) Scored {
	s := Scored{Candidates: make([]CandidateReward, len(candidates)), Rollouts: make([]float64, len(rollouts))}
	for _, c := range candidates {
		if c.Selected {
			s.RChal, s.Evaluable = Challenge(rollouts)
		}
	}
	for g, c := range candidates {
		s.Candidates[g] = k.Candidate(c, s.RChal)
	}
	for i, r := range rollouts {
		s.Rollouts[i] = k.Rollout(r)
	}
	return s
}

// Select returns the hardest candidate that is well formed, grounded and right, by raw R_diff. Among several equally hard
// ones it takes the pick(n)-th of n; pick must return 0..n-1, from the run's own stream, and is called for ties alone. It
// returns -1 where no candidate passes: the image then contributes Questioner rollouts only.
func Select(candidates []Candidate, pick func(n int) int) int {
	var best []int
	for g, c := range candidates {
		if !c.FormatOK || c.FactQ != 1 || c.CorrA != 1 {
			continue
		}
		if len(best) > 0 && c.Difficulty < candidates[best[0]].Difficulty {
			continue
		}
		if len(best) > 0 && c.Difficulty > candidates[best[0]].Difficulty {
			best = best[:0]
		}
		best = append(best, g)
	}
	switch len(best) {
	case 0:
		return -1
	case 1:
		return best[0]
	}
	return best[pick(len(best))]
}
