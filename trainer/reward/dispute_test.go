package reward

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func votes(keys string, correct ...float64) []Vote {
	out := make([]Vote, len(keys))
	for i, k := range keys {
		out[i] = Vote{Formatted: k != '-', Key: string(k)}
		if i < len(correct) {
			out[i].Correct = correct[i]
		}
	}
	return out
}

func TestDisputeThresholds(t *testing.T) {
	rule := DefaultDispute()
	for i, want := range []int{2, 3, 3, 4, 5, 6, 6} {
		require.Equal(t, want, rule.Required(i+2), "n = %d", i+2)
	}
	require.Equal(t, 21, DisputeRule{Threshold: .7}.Required(30))
}

func TestTrap04DisputeNeedsAMajorityOfFormattedAnswersAllScoredWrong(t *testing.T) {
	tests := []struct {
		name  string
		votes []Vote
		ref   string
		want  bool
	}{
		{"three of four against the reference, the fourth with it", votes("aaar", 0, 0, 0, 1), "r", true},
		{"malformed answers do not count", votes("aa--"), "r", true},
		{"one formatted answer is too few", votes("a---"), "r", false},
		{"none formatted", votes("----"), "r", false},
		{"empty", nil, "r", false},
		{"half is too few", votes("aabb"), "r", false},
		{"two of three is too few", votes("aab"), "r", false},
		{"majority is the reference", votes("rrra"), "r", false},
		{"a member was scored correct", votes("aaab", 0, 1, 0, 0), "r", false},
		{"a minority scored correct does not matter", votes("baaa", 1, 0, 0, 0), "r", true},
		{"five of six", votes("aaaaab"), "r", true},
		{"four of six", votes("aaaabb"), "r", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, got := DefaultDispute().Trigger(tt.votes, tt.ref)
			require.Equal(t, tt.want, got)
			if got {
				require.Equal(t, "a", c.Key)
				require.GreaterOrEqual(t, len(c.Members), c.Required)
			}
		})
	}
	c, ok := DefaultDispute().Trigger(votes("b-aaa"), "r")
	require.True(t, ok)
	require.Equal(t, Consensus{Key: "a", Members: []int{2, 3, 4}, Formatted: 4, Required: 3}, c)

	_, ok = DisputeRule{Threshold: .5, MinimumN: 2}.Trigger(votes("aabb"), "r")
	require.False(t, ok, "a tie is no consensus")
}

func TestTrap05UnparsedVerdictAdoptsTheMajority(t *testing.T) {
	require.Equal(t, Resolution{OutcomeFallback, true, "7"}, Settle(Unparsed, "6", "7"))
	require.Equal(t, Resolution{OutcomeReference, false, "6"}, Settle(SidesWithReference, "6", "7"))
	require.Equal(t, Resolution{OutcomeMajority, true, "7"}, Settle(SidesWithMajority, "6", "7"))
	require.Equal(t, 3, DisputeAttempts(0), "at least two retries")
	require.Equal(t, 6, DisputeAttempts(5))
}

func rolloutsOf(correct ...float64) []Rollout {
	out := make([]Rollout, len(correct))
	for i, c := range correct {
		out[i] = Rollout{FormatOK: true, Correct: c, Evaluable: true}
	}
	return out
}

func TestTrap06OverrideHalvesTheQuestionerAndRecomputesEverything(t *testing.T) {
	k := Default()
	asked := Candidate{true, 1, 1, .7, true}
	before := k.Score([]Candidate{asked}, rolloutsOf(0, 0, 0, 1))
	require.Equal(t, .75, before.RChal)
	require.InDelta(t, .70875, before.Candidates[0].Reward, tolerance)

	overridden := Settle(SidesWithMajority, "6", "7").Candidate(asked)
	require.Zero(t, overridden.CorrA)
	require.True(t, overridden.Selected)
	after := k.Score([]Candidate{overridden}, rolloutsOf(1, 1, 1, 0))
	require.Equal(t, .25, after.RChal)
	require.Equal(t, .5, after.Candidates[0].RFact)
	require.InDelta(t, .153125, after.Candidates[0].Reward, tolerance)

	// All four in the majority: from .91 to .0525.
	require.InDelta(t, .91, k.Score([]Candidate{asked}, rolloutsOf(0, 0, 0, 0)).Candidates[0].Reward, tolerance)
	require.InDelta(t, .0525, k.Score([]Candidate{overridden}, rolloutsOf(1, 1, 1, 1)).Candidates[0].Reward, tolerance)

	require.Equal(t, asked, Settle(SidesWithReference, "6", "7").Candidate(asked))
}
