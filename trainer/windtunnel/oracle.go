package windtunnel

import (
	"strconv"
	"strings"
)

// Verdict is the exact truth about a question and an answer to it.
type Verdict struct {
	Parsed      bool   // the question is in the grammar
	Grounded    bool   // its premises hold in the figure and its answer is unique
	AnswerRight bool   // grounded, and the answer given equals the truth
	Level       int    // 1..4; 0 where not parsed
	Answer      string // the true answer; "" unless grounded
}

// Judge is the oracle. It measures the roles of a run and never rewards them.
func (s Scene) Judge(question, answer string) Verdict {
	q, ok := ParseQuestion(question)
	if !ok {
		return Verdict{}
	}
	v := Verdict{Parsed: true, Level: q.Level()}
	if truth := s.Solve(q); truth.Grounded {
		v.Grounded, v.Answer = true, truth.Answer
		v.AnswerRight = sameAnswer(truth.Answer, answer)
	}
	return v
}

// sameAnswer compares by value for numbers and by name for the rest, where "the red bar" means "red".
func sameAnswer(truth, said string) bool {
	t, s := bareAnswer(truth), bareAnswer(said)
	a, errA := strconv.ParseFloat(t, 64)
	b, errB := strconv.ParseFloat(s, 64)
	if errA == nil || errB == nil {
		return errA == nil && errB == nil && a == b
	}
	return t == s
}

func bareAnswer(text string) string {
	t := strings.ToLower(strings.Trim(strings.TrimSpace(text), "."))
	t = strings.TrimPrefix(t, "the ")
	for k := range kinds {
		for _, noun := range []string{plurals[k], k.Noun()} {
			t = strings.TrimPrefix(strings.TrimSuffix(t, " "+noun), noun+" ")
		}
	}
	return strings.TrimSpace(t)
}
