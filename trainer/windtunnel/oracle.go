package windtunnel

import (
	"strings"

	"github.com/trinity-lab/trinity/trainer/answer"
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
func (s Scene) Judge(question, given string) Verdict {
	q, ok := ParseQuestion(question)
	if !ok {
		return Verdict{}
	}
	v := Verdict{Parsed: true, Level: q.Level()}
	if truth := s.Solve(q); truth.Grounded {
		v.Grounded, v.Answer = true, truth.Answer
		v.AnswerRight = sameAnswer(truth.Answer, given)
	}
	return v
}

// sameAnswer compares as the trainer's rules do, where also "the red bar" means "red".
func sameAnswer(truth, said string) bool {
	return answer.Match(bareAnswer(truth), bareAnswer(said)).Verdict == answer.VerdictMatch
}

// bareAnswer leaves out what the figure's things are called.
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
