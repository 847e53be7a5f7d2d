package windtunnel

import (
	"strings"

	"github.com/trinity-lab/trinity/trainer/answer"
	"github.com/trinity-lab/trinity/trainer/spec"
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

// Judge is the oracle about a figure of the corpus, by its SHA-256; empty for other images. With GradeReasoning it makes
// a corpus the loop's oracle.
func (c *Corpus) Judge(image, question, given string) spec.OracleVerdict {
	scene, ok := c.Scene(image)
	if !ok {
		return spec.OracleVerdict{}
	}
	v := scene.Judge(question, given)
	return spec.OracleVerdict{Parsed: v.Parsed, Grounded: v.Grounded, Right: v.AnswerRight, Level: v.Level, Answer: v.Answer}
}

// GradeReasoning is the true score of reasoning about a figure of the corpus; ok is false where there is none.
func (c *Corpus) GradeReasoning(image, question, reasoning string) (score float64, ok bool) {
	scene, ok := c.Scene(image)
	if !ok {
		return 0, false
	}
	score, _, ok = scene.GradeReasoning(question, reasoning)
	return score, ok
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
