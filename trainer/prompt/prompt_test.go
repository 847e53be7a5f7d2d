package prompt

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/trinity-lab/trinity/trainer/spec"
)

func TestWindtunnelTexts(t *testing.T) {
	s, err := Load("windtunnel")
	require.NoError(t, err)
	v := Values{Question: "Q?", Answer: "a", Reference: "r", Prediction: "p", Majority: "m", Reasoning: "why"}
	for want, template := range map[string]Template{
		"Ask.":                                 s.Questioner,
		"Solve: Q?":                            s.Solver,
		"Screen: Q? Answer: a":                 s.Screening,
		"Grade: Q? Reasoning: why":             s.Reasoning,
		"Same? Q? Reference: r Predicted: p":   s.Equivalence,
		"Dispute: Q? A: r B: m Reasoning: why": s.Dispute,
	} {
		system, user := template.Render(v)
		require.Empty(t, system)
		require.Equal(t, want, user)
	}
}

// Trap 12: equivalence is text-only; screening, reasoning and dispute see the image.
func TestWhoSeesTheImage(t *testing.T) {
	for _, name := range []string{"windtunnel", "trinity"} {
		s, err := Load(name)
		require.NoError(t, err)
		require.False(t, s.Equivalence.Image)
		for _, template := range []Template{s.Questioner, s.Solver, s.Screening, s.Reasoning, s.Dispute} {
			require.True(t, template.Image)
		}
	}
}

// The full prompts keep Appendix F's keys in their order, its levels and its limits.
func TestTrinityCoversAppendixF(t *testing.T) {
	s, err := Load("trinity")
	require.NoError(t, err)
	inOrder := func(text string, parts ...string) {
		t.Helper()
		for _, p := range parts {
			i := strings.Index(text, p)
			require.GreaterOrEqual(t, i, 0, p)
			text = text[i+len(p):]
		}
	}
	inOrder(s.Questioner.System, "34 words", "1 to 10 words", `{"question":`, `"answer":`)
	inOrder(s.Solver.System, "<think>", "</think>", "<answer>", `\boxed{`, "</answer>")
	inOrder(s.Screening.System, "fact_q: 0 or 1", "corr_a: 0 or 1", "0.1, 0.4, 0.7 or 1.0", "Cap at 0.4", "OBSERVABLE", "SINGLE STEP", "CONCEPTUAL", "at most 0.7", "15 seconds",
		`"justification":`, `"fact_q":`, `"corr_a":`, `"difficulty": 0.1 or 0.4 or 0.7 or 1.0`)
	inOrder(s.Reasoning.System, "at most 0.25", "at most 0.25", "at most 0.5", "0.0", "0.25", "0.5", "1.0", `"justification":`, `"reasoning_score": 0.0 or 0.25 or 0.5 or 1.0`)
	inOrder(s.Equivalence.System, `{"match": 0 or 1}`)
	inOrder(s.Dispute.System, `{"correct_answer": "ref" or "majority", "justification":`)
}

// Values are hostile: whatever they hold, they appear as they are and nothing inside them is filled.
func TestValuesAreFilledOnce(t *testing.T) {
	s, err := Load("trinity")
	require.NoError(t, err)
	_, user := s.Dispute.Render(Values{Question: "{reference}{question}", Reference: "{majority}", Majority: "secret", Reasoning: "{{question}} {answer}"})
	require.Contains(t, user, "Question: {reference}{question}\n")
	require.Contains(t, user, `"{majority}"`)
	require.Contains(t, user, "{{question}} {answer}")
	require.Equal(t, 1, strings.Count(user, "secret"))
	rapid.Check(t, func(t *rapid.T) {
		q := rapid.StringOf(rapid.RuneFrom([]rune("{}questionanswer "))).Draw(t, "q")
		_, user := Template{User: "<{question}>"}.Render(Values{Question: q, Answer: "filled"})
		require.Equal(t, "<"+q+">", user)
	})
}

func TestHashesDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{"windtunnel", "trinity"} {
		s, err := Load(name)
		require.NoError(t, err)
		for role := range required {
			h := s.template(role).Hash()
			require.Len(t, h, 64)
			require.False(t, seen[h])
			seen[h] = true
		}
	}
	require.NotEqual(t, Template{System: "a", User: "bc"}.Hash(), Template{System: "ab", User: "c"}.Hash())
	require.Equal(t, Template{}, Set{}.Judge(spec.Judge("other")))
}

func TestFaultySets(t *testing.T) {
	for text, want := range map[string]string{
		"solver: {user: hi}":     "placeholders",
		"solve: {user: hi}":      "not found",
		"questioner: {user: ''}": "missing",
	} {
		_, err := parse("x", []byte(text))
		require.Error(t, err, want)
	}
	_, err := Load("../presets/windtunnel")
	require.ErrorContains(t, err, "unknown")
	require.ErrorContains(t, check("solver", Template{User: "{question} {foo}"}, []string{"question"}), "foo")
}
