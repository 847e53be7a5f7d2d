package windtunnel

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// allQuestions lists the whole grammar.
func allQuestions() []Question {
	var refs []Ref
	for i := range MaxEntities {
		refs = append(refs, Ref{Letter: byte('A' + i)})
	}
	for c := range Color(Colors) {
		refs = append(refs, Ref{Color: c})
	}
	var out []Question
	for form := range forms {
		for noun := range kinds {
			base := []Question{{Form: form, Noun: noun}}
			if form == AskLetter {
				base = nil
				for c := range Color(Colors) {
					base = append(base, Question{Form: form, Noun: noun, Color: c})
				}
			}
			if form == AskAbove {
				base = nil
				for k := 1; k < MaxValue; k++ {
					base = append(base, Question{Form: form, Noun: noun, Number: k})
				}
			}
			for slot := range form.refs() {
				var wider []Question
				for _, q := range base {
					for _, r := range refs {
						q.Refs[slot] = r
						wider = append(wider, q)
					}
				}
				base = wider
			}
			for _, q := range base {
				if q.valid() {
					out = append(out, q)
				}
			}
		}
	}
	return out
}

func TestParseInvertsText(t *testing.T) {
	seen := map[string]bool{}
	for _, q := range allQuestions() {
		text := q.Text()
		require.False(t, seen[text], "two questions read %q", text)
		require.False(t, strings.ContainsAny(text, "{}"), text)
		seen[text] = true
		got, ok := ParseQuestion(text)
		require.True(t, ok, text)
		require.Equal(t, q, got, text)
	}
	t.Logf("the grammar has %d questions in %d forms", len(seen), forms)
	require.Greater(t, len(seen), 12000)
}

func TestParseQuestionRefuses(t *testing.T) {
	for _, text := range []string{
		"", "?", "What is the value of bar A", "What is the value of bar A? ", "what is the value of bar A?", "What is the value of bar G?",
		"What is the value of the pink bar?", "What is the value of the red?", "What is the sum of bar A and bar A?", "What is the sum of bar A and dot B?",
		"What colour is the red bar?", "Which column is bar A in?", "Which column is dot A in?", "How many bars are above 0?", "How many bars are above 9?",
		"How many bars are above 12?", "How many bar are there?", "Which bars is red?", "What is the sum of bar A, bar B and bar A?", "{1}", "What is the value of {1}?",
	} {
		_, ok := ParseQuestion(text)
		require.False(t, ok, text)
	}
}

func TestParsersTakeAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		if q, ok := ParseQuestion(text); ok && q.Text() != text {
			t.Fatalf("%q parsed as %q", text, q.Text())
		}
		if chain, ok := parseReasoning(text); ok && len(chain) > 0 && join(chain) != strings.TrimSuffix(strings.TrimSpace(text), ".")+"." {
			t.Fatalf("%q parsed as %q", text, join(chain))
		}
	})
}

func TestLevels(t *testing.T) {
	count := map[int]int{}
	for form := range forms {
		q := Question{Form: form}
		count[q.Level()]++
		require.Contains(t, []float64{0.1, 0.4, 0.7, 1.0}, q.Difficulty())
	}
	for level := 1; level <= 4; level++ {
		require.GreaterOrEqual(t, count[level], 3)
	}
}
