package view

import (
	"fmt"
	"math"
)

// Coefficients are the constants of Eq. 1 and Eq. 2.
type Coefficients struct{ AlphaQ, BetaQ, RhoF, WC, WR, WF float64 }

// QuestionerSignals are what Eq. 1 is computed from. Chal is 0 where the candidate was not selected.
type QuestionerSignals struct {
	FormatOK             bool
	Fact, Corr           float64
	Difficulty, Chal     float64
	Selected             bool
	Reward, Advantage    float64
	Retained             bool
	Evaluable, Incorrect int // of the rollouts, behind Chal
}

// QuestionerSum works out Trinity Eq. 1 with the numbers in.
func QuestionerSum(c Coefficients, s QuestionerSignals) Sum {
	sum := Sum{Equation: "Eq. 1", Reward: Exact(s.Reward), Advantage: Exact(s.Advantage), Retained: s.Retained}
	if !s.FormatOK {
		sum.Lines = []SumLine{{Symbol{"R", "Q"}, "malformed, so −ρ_f", Exact(-c.RhoF)}}
		sum.check(-c.RhoF, s.Reward)
		return sum
	}
	fact := s.Fact * (1 + s.Corr) / 2
	discounted := s.Difficulty * (0.5 + 0.5*s.Chal)
	reward := fact * (c.AlphaQ*discounted + c.BetaQ*s.Chal)
	challenge := "0, since it was not selected"
	if s.Selected {
		challenge = fmt.Sprintf("%d incorrect of %d evaluable", s.Incorrect, s.Evaluable)
	}
	sum.Lines = []SumLine{
		{Symbol{"R", "fact"}, fmt.Sprintf("%s × (1 + %s) / 2", Exact(s.Fact), Exact(s.Corr)), Exact(fact)},
		{Symbol{"R", "chal"}, challenge, Exact(s.Chal)},
		{Symbol{"R̃", "diff"}, fmt.Sprintf("%s × (0.5 + 0.5 × %s)", Exact(s.Difficulty), Exact(s.Chal)), Exact(discounted)},
		{Symbol{"R", "Q"}, fmt.Sprintf("%s × (%s × %s + %s × %s)", Exact(fact), Exact(c.AlphaQ), Exact(discounted), Exact(c.BetaQ), Exact(s.Chal)), Exact(reward)},
	}
	sum.check(reward, s.Reward)
	return sum
}

// SolverSignals are what Eq. 2 is computed from.
type SolverSignals struct {
	FormatOK          bool
	Correct, Reason   float64
	Reward, Advantage float64
	Retained          bool
}

// SolverSum works out Trinity Eq. 2 with the numbers in.
func SolverSum(c Coefficients, s SolverSignals) Sum {
	sum := Sum{Equation: "Eq. 2", Reward: Exact(s.Reward), Advantage: Exact(s.Advantage), Retained: s.Retained}
	if !s.FormatOK {
		sum.Lines = []SumLine{{Symbol{"R", "S"}, "malformed, so nothing", "0"}}
		sum.check(0, s.Reward)
		return sum
	}
	reward := c.WC*s.Correct + c.WR*s.Correct*s.Reason + c.WF
	sum.Lines = []SumLine{
		{Symbol{"R", "S"}, fmt.Sprintf("%s × %s + %s × %s × %s + %s", Exact(c.WC), Exact(s.Correct), Exact(c.WR), Exact(s.Correct), Exact(s.Reason), Exact(c.WF)), Exact(reward)},
	}
	sum.check(reward, s.Reward)
	return sum
}

// check notes a worked value that is not the stored one.
func (s *Sum) check(worked, stored float64) {
	if !(math.Abs(worked-stored) <= 1e-9) {
		s.Mismatch = Exact(worked)
	}
}
