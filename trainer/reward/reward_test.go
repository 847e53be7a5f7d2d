package reward

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/trinity-lab/trinity/trainer/spec"
)

const tolerance = 1e-12

func TestQuestionerWorkedNumbers(t *testing.T) {
	k := Default()
	tests := []struct {
		name string
		c    Candidate
		chal float64
		want float64
	}{
		{"malformed", Candidate{FactQ: 1, CorrA: 1, Difficulty: 1, Selected: true}, 1, -.5},
		{"ungrounded", Candidate{FormatOK: true, Difficulty: 1, Selected: true}, 1, 0},
		{"hardest, never solved", Candidate{true, 1, 1, 1, true}, 1, 1},
		{"multi-step, half solved", Candidate{true, 1, 1, .7, true}, .5, .5075},
		{"single-step, always solved", Candidate{true, 1, 1, .4, true}, 0, .06},
		{"single-step, one of six failed", Candidate{true, 1, 1, .4, true}, 1. / 6, .56 / 3},
		{"unselected", Candidate{true, 1, 1, 1, false}, 1, .15},
		{"unselected .7", Candidate{true, 1, 1, .7, false}, 1, .105},
		{"unselected, answer wrong", Candidate{true, 1, 0, .7, false}, 1, .0525},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.InDelta(t, tt.want, k.Candidate(tt.c, tt.chal).Reward, tolerance)
		})
	}
}

func TestQuestionerTerms(t *testing.T) {
	got := Default().Candidate(Candidate{true, 1, 1, .7, true}, .75)
	require.Equal(t, 1., got.RFact)
	require.InDelta(t, .6125, got.RDiffTilde, tolerance)
	require.Equal(t, .75, got.RChal)
	require.InDelta(t, .70875, got.Reward, tolerance)
	require.Equal(t, .5, Fact(1, 0))
}

func TestSolverWorkedNumbers(t *testing.T) {
	k := Default()
	require.InDelta(t, .2, k.Rollout(Rollout{FormatOK: true, Reason: 1}), tolerance)
	for reason, want := range map[float64]float64{0: .7, .25: .775, .5: .85, 1: 1} {
		require.InDelta(t, want, k.Rollout(Rollout{FormatOK: true, Correct: 1, Reason: reason}), tolerance)
	}
	require.Zero(t, k.Rollout(Rollout{}))
}

func TestFigure2Arithmetic(t *testing.T) {
	require.InDelta(t, .0576, .16*.36, tolerance)
	require.InDelta(t, .0828, .23*.36, tolerance)
	// The plotted mean of R_chal is p_sel times its mean over selected candidates.
	rollouts := []Rollout{{true, 1, 1, true}, {true, 0, 0, true}, {true, 1, 1, true}, {true, 1, 1, true}}
	var sum float64
	for g := range 4 {
		sum += Default().Candidate(Candidate{true, 1, 1, .4, g == 2}, .25).RChal
	}
	chal, _ := Challenge(rollouts)
	require.InDelta(t, .25*chal, sum/4, tolerance)
}

func TestTrap01MalformedSolverEarnsNothingAndStaysInTheGroup(t *testing.T) {
	scored := Default().Score([]Candidate{{true, 1, 1, .7, true}},
		[]Rollout{{FormatOK: false, Correct: 1, Reason: 1}, {true, 1, .5, true}})
	require.Len(t, scored.Rollouts, 2)
	require.Zero(t, scored.Rollouts[0], "right answer, wrong format")
	require.InDelta(t, .85, scored.Rollouts[1], tolerance)
}

func TestTrap02SelectionIsOnRawDifficultyBehindTheGate(t *testing.T) {
	never := func(int) int { t.Fatal("a tie-break was drawn without a tie"); return 0 }
	candidates := []Candidate{
		{true, 1, 1, .4, false},
		{true, 1, 0, 1, false},  // wrong answer
		{true, 0, 0, 1, false},  // ungrounded
		{false, 1, 1, 1, false}, // malformed
		{true, 1, 1, .7, false},
	}
	require.Equal(t, 4, Select(candidates, never))
	require.Equal(t, -1, Select(candidates[1:4], never))
	require.Equal(t, -1, Select(nil, never))

	tie := []Candidate{{true, 1, 1, .7, false}, {true, 1, 1, .4, false}, {true, 1, 1, .7, false}, {true, 1, 1, .7, false}}
	for draw, want := range []int{0, 2, 3} {
		require.Equal(t, want, Select(tie, func(n int) int { require.Equal(t, 3, n); return draw }))
	}
	// Unselected candidates earn no challenge, so at most 0.15.
	require.InDelta(t, .15, Default().Candidate(Candidate{true, 1, 1, 1, false}, 1).Reward, tolerance)
}

func TestTrap03ChallengeDividesByEvaluableAnswers(t *testing.T) {
	rollouts := []Rollout{{true, 1, 1, true}, {true, 0, 0, true}, {false, 0, 0, false}, {false, 0, 0, false}}
	chal, n := Challenge(rollouts)
	require.Equal(t, .5, chal)
	require.Equal(t, 2, n)
	chal, n = Challenge(rollouts[2:])
	require.Zero(t, chal)
	require.Zero(t, n)
	scored := Default().Score([]Candidate{{true, 1, 1, .7, false}}, rollouts)
	require.Zero(t, scored.RChal, "nothing was selected")
}

func TestTrap12ClampsRightAnswerToUngroundedQuestion(t *testing.T) {
	fact, corr := Clamp(0, 1)
	require.Zero(t, fact)
	require.Zero(t, corr)
	fact, corr = Clamp(1, 1)
	require.Equal(t, 1., fact)
	require.Equal(t, 1., corr)
	require.Equal(t, -1, Select([]Candidate{{true, 0, 1, 1, false}}, nil))
	require.Zero(t, Default().Candidate(Candidate{true, 0, 1, 1, true}, 1).Reward)
}

func TestCoefficientsConvertFromTheConfiguration(t *testing.T) {
	require.Equal(t, Default(), Coefficients(spec.RewardConfig{AlphaQ: .3, BetaQ: .7, RhoF: .5, WC: .5, WR: .3, WF: .2}))
}

func TestRewardsStayInRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bit := rapid.SampledFrom([]float64{0, 1})
		candidate := rapid.Custom(func(t *rapid.T) Candidate {
			return Candidate{rapid.Bool().Draw(t, "format"), bit.Draw(t, "fact"), bit.Draw(t, "corr"),
				rapid.SampledFrom([]float64{.1, .4, .7, 1}).Draw(t, "difficulty"), false}
		})
		rollout := rapid.Custom(func(t *rapid.T) Rollout {
			ok := rapid.Bool().Draw(t, "format")
			return Rollout{ok, bit.Draw(t, "correct"), rapid.SampledFrom([]float64{0, .25, .5, 1}).Draw(t, "reason"), ok}
		})
		candidates := rapid.SliceOfN(candidate, 1, 8).Draw(t, "candidates")
		rollouts := rapid.SliceOfN(rollout, 0, 8).Draw(t, "rollouts")
		if g := Select(candidates, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "tie") }); g >= 0 {
			candidates[g].Selected = true
			for _, c := range candidates {
				if c.FormatOK && c.FactQ == 1 && c.CorrA == 1 && c.Difficulty > candidates[g].Difficulty {
					t.Fatalf("candidate %d was selected over a harder one", g)
				}
			}
		}
		scored := Default().Score(candidates, rollouts)
		for g, r := range scored.Candidates {
			limit := .15
			if candidates[g].Selected {
				limit = 1
			}
			if math.IsNaN(r.Reward) || r.Reward < -.5 || r.Reward > limit+tolerance {
				t.Fatalf("R_Q %g outside [-0.5, %g]", r.Reward, limit)
			}
		}
		for _, r := range scored.Rollouts {
			if r < 0 || r > 1+tolerance {
				t.Fatalf("R_S %g outside [0, 1]", r)
			}
		}
	})
}
