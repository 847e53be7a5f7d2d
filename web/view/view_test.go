package view

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var paper = Coefficients{AlphaQ: .3, BetaQ: .7, RhoF: .5, WC: .5, WR: .3, WF: .2}

func TestQuestionerSum(t *testing.T) {
	for _, test := range []struct {
		name   string
		in     QuestionerSignals
		reward float64
		last   string
	}{
		{"malformed", QuestionerSignals{}, -.5, "malformed, so −ρ_f"},
		{"ungrounded", QuestionerSignals{FormatOK: true, Difficulty: 1}, 0, "0 × (0.3 × 0.5 + 0.7 × 0)"},
		{"selected", QuestionerSignals{FormatOK: true, Fact: 1, Corr: 1, Difficulty: .7, Chal: .5, Selected: true, Evaluable: 4, Incorrect: 2}, .5075, "1 × (0.3 × 0.525 + 0.7 × 0.5)"},
		{"unselected", QuestionerSignals{FormatOK: true, Fact: 1, Corr: 1, Difficulty: 1}, .15, "1 × (0.3 × 0.5 + 0.7 × 0)"},
		{"overturned", QuestionerSignals{FormatOK: true, Fact: 1, Difficulty: .7, Chal: .25, Selected: true, Evaluable: 4, Incorrect: 1}, .153125, "0.5 × (0.3 × 0.4375 + 0.7 × 0.25)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.in.Reward = test.reward
			sum := QuestionerSum(paper, test.in)
			require.Empty(t, sum.Mismatch)
			last := sum.Lines[len(sum.Lines)-1]
			require.Equal(t, test.last, last.Text)
			require.Equal(t, Exact(test.reward), last.Value)
		})
	}
}

func TestSolverSum(t *testing.T) {
	for _, test := range []struct {
		in     SolverSignals
		reward float64
		text   string
	}{
		{SolverSignals{}, 0, "malformed, so nothing"},
		{SolverSignals{FormatOK: true}, .2, "0.5 × 0 + 0.3 × 0 × 0 + 0.2"},
		{SolverSignals{FormatOK: true, Correct: 1, Reason: .5}, .85, "0.5 × 1 + 0.3 × 1 × 0.5 + 0.2"},
	} {
		test.in.Reward = test.reward
		sum := SolverSum(paper, test.in)
		require.Empty(t, sum.Mismatch)
		require.Equal(t, test.text, sum.Lines[0].Text)
	}
}

func TestSumSaysWhenTheStoredRewardDiffers(t *testing.T) {
	require.Equal(t, "0.2", SolverSum(paper, SolverSignals{FormatOK: true, Reward: .7}).Mismatch)
	require.NotEmpty(t, SolverSum(paper, SolverSignals{FormatOK: true, Reward: math.NaN()}).Mismatch)
}

func TestNumbers(t *testing.T) {
	require.Equal(t, "−0.5", Exact(-.5))
	require.Equal(t, "0", Exact(math.Copysign(0, -1)))
	require.Equal(t, "0.186667", Exact(.06+.3*.4*.5/6+.7/6*1))
	require.Equal(t, "+0.300", Change(.3))
	require.Equal(t, "−0.300", Change(-.3))
	require.Equal(t, "NaN", Change(math.NaN()))
	require.Equal(t, "∞", Mean(math.Inf(1)))
}

func TestSparkLeavesGaps(t *testing.T) {
	s := SparkOf([]float64{0, 1, math.NaN(), .5, .5}, 0, 1)
	require.Equal(t, []string{"1.0,17.0 18.5,1.0", "53.5,9.0 71.0,9.0"}, s.Lines)
	require.Empty(t, SparkOf([]float64{1}, 0, 1).Lines)
}

func TestTimes(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	require.Equal(t, "3 min ago", TimeOf(now.Add(-200*time.Second), now).Words)
	require.Equal(t, "1 Apr 12:00", TimeOf(now.AddDate(0, -1, 0), now).Words)
	require.Equal(t, Time{}, TimeOf(time.Time{}, now))
	require.Equal(t, "1 h 2 min", Duration(62*time.Minute))
}

func TestShort(t *testing.T) {
	require.Equal(t, "a b", Short(" a\n b ", 5))
	require.Equal(t, "äöü…", Short("äöü ß", 4))
}
