package windtunnel

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzModelText feeds what a model may say to every function that takes its text.
func FuzzModelText(f *testing.F) {
	f.Add("What is the sum of bar A and bar B?", "A 4. B 3. 4+3=7.", uint64(1))
	f.Add("How many dots are above the mean?", "red 4. blue 7, sum 11. 11/2=5.5. red 4<5.5, 0. blue 7>5.5, 1.", uint64(2))
	f.Add("What is the median of the points?", "order A 4, B 3. middle 4+3=7.", uint64(3))
	f.Add("How many rows are above 3?", "A 7>3, 1. There are no bars. -1. 007.", uint64(4))
	tables := testTables(f)
	f.Fuzz(func(t *testing.T, question, text string, seed uint64) {
		s := Generate(rand.New(rand.NewPCG(seed, 0)), tables)
		q, parsed := ParseQuestion(question)
		if parsed {
			require.Equal(t, question, q.Text())
		}
		v := s.Judge(question, text)
		require.Equal(t, parsed, v.Parsed)
		turn := s.ScreenTurn(question, text)
		require.True(t, json.Valid([]byte(turn.Completion)), turn.Completion)
		require.Equal(t, v.AnswerRight, strings.Contains(turn.Completion, `"corr_a": 1`))
		if turn, ok := s.ReasoningTurn(question, text); ok {
			require.True(t, parsed)
			require.True(t, json.Valid([]byte(turn.Completion)), turn.Completion)
		}
		if turn, ok := s.DisputeTurn(question, text, v.Answer, text); ok {
			require.Contains(t, turn.Completion, `"majority"`)
		}
	})
}
