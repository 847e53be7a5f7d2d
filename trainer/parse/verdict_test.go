package parse

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScreening(t *testing.T) {
	want := ScreeningVerdict{"ok", 1, 1, .7}
	tests := []struct {
		name, text string
		want       ScreeningVerdict
		err        string
	}{
		{"plain", `{"justification": "ok", "fact_q": 1, "corr_a": 1, "difficulty": 0.7}`, want, ""},
		{"contradiction is kept as written", `{"justification": "ok", "fact_q": 0, "corr_a": 1, "difficulty": 1.0}`, ScreeningVerdict{"ok", 0, 1, 1}, ""},
		{"fenced in prose", "Verdict:\n```json\n{\"justification\": \"ok\", \"fact_q\": 1, \"corr_a\": 1, \"difficulty\": 0.7,}\n```\nDone.", want, ""},
		{"after thinking", `<think>{"fact_q": 0, "corr_a": 0, "difficulty": 0.1}</think>{"justification": "ok", "fact_q": 1, "corr_a": 1, "difficulty": 0.7}`, want, ""},
		{"thinking prefix in the prompt", `hm</think>{"justification": "ok", "fact_q": 1, "corr_a": 1, "difficulty": 0.7}`, want, ""},
		{"quoted and boolean", `{"justification": "ok", "fact_q": "1", "corr_a": true, "difficulty": "0.7"}`, want, ""},
		{"justification missing", `{"fact_q": 1, "corr_a": 1, "difficulty": 0.7}`, ScreeningVerdict{"", 1, 1, .7}, ""},
		{"LaTeX before", `\frac{1}{2} {"justification": "\frac{1}{2} \times", "fact_q": 1, "corr_a": 1, "difficulty": 0.7}`, ScreeningVerdict{`\frac{1}{2} \times`, 1, 1, .7}, ""},
		{"brace missing", `{"justification": "ok", "fact_q": 1, "corr_a": 1, "difficulty": 0.7`, want, ""},
		{"agreeing twice", `{"justification": "ok", "fact_q": 1, "corr_a": 1, "difficulty": 0.7} {"justification": "ok", "fact_q": 1, "corr_a": 1, "difficulty": 0.7}`, want, ""},
		{"bare quotes", `{"justification": "bar "A", not "B"", "fact_q": 1, "corr_a": 1, "difficulty": 0.7}`, ScreeningVerdict{`bar "A", not "B"`, 1, 1, .7}, ""},

		{"cut in the justification", `{"justification": "Factuality: verified. -> difficulty 0.7`, ScreeningVerdict{}, "no JSON object"},
		{"cut before the last score", `{"justification": "ok", "fact_q": 1, "corr_a": 1, "diff`, ScreeningVerdict{}, "no JSON object"},
		{"cut in the last score", `{"justification": "ok", "fact_q": 1, "corr_a": 1, "difficulty": 0.`, ScreeningVerdict{}, "difficulty is"},
		{"off the rubric", `{"justification": "ok", "fact_q": 1, "corr_a": 1, "difficulty": 0.5}`, ScreeningVerdict{}, "difficulty is \"0.5\""},
		{"half grounded", `{"justification": "ok", "fact_q": 0.5, "corr_a": 1, "difficulty": 0.7}`, ScreeningVerdict{}, "fact_q"},
		{"boolean difficulty", `{"justification": "ok", "fact_q": 1, "corr_a": 1, "difficulty": true}`, ScreeningVerdict{}, "difficulty"},
		{"null", `{"justification": "ok", "fact_q": null, "corr_a": 1, "difficulty": 0.7}`, ScreeningVerdict{}, "fact_q"},
		{"prompt copied", `{"justification": "...", "fact_q": 0 or 1, "corr_a": 0 or 1, "difficulty": 0.1}`, ScreeningVerdict{}, "expected"},
		{"prose alone", `fact_q is 1, corr_a is 1 and difficulty is 0.7`, ScreeningVerdict{}, "no JSON object"},
		{"contradicting twice", `{"fact_q": 1, "corr_a": 1, "difficulty": 0.7} {"fact_q": 1, "corr_a": 0, "difficulty": 0.7}`, ScreeningVerdict{}, "contradict"},
		{"thinking never closed", `<think>{"fact_q": 1, "corr_a": 1, "difficulty": 0.7}`, ScreeningVerdict{}, "never closed"},
		{"verdict inside a broken justification", `{"note": 1, "justification": they said {"fact_q": 1, "corr_a": 1, "difficulty": 0.7}`, ScreeningVerdict{}, "expected"},
		{"verdict inside a justification", `{"justification": "they said {\"fact_q\": 1, \"corr_a\": 1, \"difficulty\": 0.7}"}`, ScreeningVerdict{}, "no JSON object"},
		{"not a number", `{"fact_q": NaN, "corr_a": 1, "difficulty": 0.7}`, ScreeningVerdict{}, "no JSON object"},
		{"empty", "", ScreeningVerdict{}, "no JSON object"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Screening(tt.text)
			requireParsed(t, tt.want, got, err, tt.err)
		})
	}
}

func TestReasoning(t *testing.T) {
	for text, want := range map[string]float64{"0.0": 0, "0": 0, "0.25": .25, ".5": .5, "1": 1, "1.0": 1} {
		got, err := Reasoning(`{"justification": "Shortcuts: none. -> score 0.5", "reasoning_score": ` + text + `}`)
		require.NoError(t, err, text)
		require.Equal(t, want, got.Score)
	}
	for _, text := range []string{
		`{"justification": "Visual: fine. -> score 0.5`,                         // the scores are lost: not 0.5
		`{"justification": "Visual: fine. -> score 0.5"}`,                       //
		`{"justification": "fine", "reasoning_score": 0.75}`,                    // off the rubric
		`{"justification": "fine", "reasoning_score": 0`,                        // perhaps the start of 0.25
		`{"justification": "fine", "reasoning_score": 0.`,                       //
		`{"justification": "fine", "reasoning_score": "high"}`,                  //
		`{"justification": "fine", "reasoning_score": 1, "reasoning_score": 0}`, //
	} {
		_, err := Reasoning(text)
		require.ErrorIs(t, err, ErrMalformed, text)
	}
	got, err := Reasoning(`{"justification": "fine", "reasoning_score": 0.25`)
	require.NoError(t, err, "cut, but no other level starts with 0.25")
	require.Equal(t, .25, got.Score)
}

func TestTrap05UnparsableDisputeVerdictIsAnErrorNotAGuess(t *testing.T) {
	got, err := Dispute(`{"correct_answer": "majority", "justification": "I count 7 bars"}`)
	require.NoError(t, err)
	require.Equal(t, DisputeVerdict{true, "I count 7 bars"}, got)
	got, err = Dispute(`{"correct_answer": "Ref", "justification": "cut in the mid`)
	require.NoError(t, err, "the verdict came first and is whole")
	require.False(t, got.Majority)
	for _, text := range []string{
		"The majority is right.", `{"correct_answer": "7"}`, `{"correct_answer": "maj`, `{"correct_answer": "B"}`,
		`{"correct_answer": "ref" or "majority"}`, `{"justification": "the majority"}`, "",
	} {
		_, err := Dispute(text)
		require.ErrorIs(t, err, ErrMalformed, text)
	}
}

func TestTrap12LiteralBracesOfTheTemplatesAreAccepted(t *testing.T) {
	for text, want := range map[string]bool{
		`{"match": 1}`: true, `{{"match": 0}}`: false, `{{"match": 1}}.`: true, `{ {"match": true} }`: true, "```json\n{\"match\": 0}\n```": false,
	} {
		got, err := Equivalence(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got.Match, text)
	}
	got, err := Dispute(`{{"correct_answer": "majority", "justification": "x"}}`)
	require.NoError(t, err)
	require.True(t, got.Majority)
	for _, text := range []string{"1", "match: 1", `{"match": 2}`, `{"match": 0.5}`, `{"Match": 1}`, `{"match": "yes"}`} {
		_, err := Equivalence(text)
		require.ErrorIs(t, err, ErrMalformed, text)
	}
}

func TestHostileTextIsCheap(t *testing.T) {
	for _, unit := range []string{"{", `{"`, `{"a`, `{"a":`, `{"a":[`, `"`, `\`, `{"a":"\`, "<think>", `\boxed{`, "```"} {
		text := strings.Repeat(unit, 1<<16/len(unit))
		_, err := Screening(text)
		require.Error(t, err)
		_, err = Questioner(text, Options{})
		require.Error(t, err)
		_, err = Solver(text, Options{ThinkOpenInPrompt: true})
		require.Error(t, err)
	}
}

func seed(f *testing.F) {
	for _, s := range []string{
		`{"question": "How many bars are red?", "answer": "3"}`,
		"<think>a</think>```json\n{\"question\": \"What is \\frac{1}{2}?\", \"answer\": \"\\sqrt{2}\",}\n```",
		`<think>a</think><answer>\boxed{\frac{1}{\{2\}}}</answer>`,
		`{"justification": "a "b" c", "fact_q": 1, "corr_a": 0, "difficulty": 0.4}`,
		`{{"match": 1}}`, `{"reasoning_score": 0.2`, `{"correct_answer": "majority", "justification": "\ud83d\ude00 \u12`, `{"a": [1, {"b": "c"}, [`,
	} {
		f.Add(s, true)
		f.Add(s, false)
	}
}

func FuzzRoles(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, text string, prefix bool) {
		o := Options{ThinkOpenInPrompt: prefix}
		qa, err := Questioner(text, o)
		if err == nil && (qa.Question == "" || qa.Answer == "" || len(strings.Fields(qa.Answer)) > MaxAnswerWords) {
			t.Fatalf("accepted %+v", qa)
		}
		s, err2 := Solver(text, o)
		if err2 == nil && (s.Answer == "" || !strings.Contains(text, s.Answer) || !strings.Contains(text, s.Think)) {
			t.Fatalf("accepted %+v", s)
		}
		for _, err := range []error{err, err2} {
			if err != nil && !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
		}
	})
}

func FuzzVerdicts(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, text string, _ bool) {
		if v, err := Screening(text); err == nil && !slices.Contains([]float64{.1, .4, .7, 1}, v.Difficulty) {
			t.Fatalf("accepted %+v", v)
		}
		if v, err := Reasoning(text); err == nil && !slices.Contains([]float64{0, .25, .5, 1}, v.Score) {
			t.Fatalf("accepted %+v", v)
		}
		if _, err := Equivalence(text); err != nil && !errors.Is(err, ErrMalformed) {
			t.Fatal(err)
		}
		if _, err := Dispute(text); err != nil && !errors.Is(err, ErrMalformed) {
			t.Fatal(err)
		}
	})
}
