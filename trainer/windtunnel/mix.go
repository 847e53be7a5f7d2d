package windtunnel

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Mix says how many turns of each role are drawn for a figure.
type Mix struct {
	Read, Look, Questioner, Solver, Screening, Reasoning, Equivalence, Dispute int

	Weights Weights // of the question forms; all zero means DefaultWeights
}

// Shares of the draws that must be balanced.
const (
	ungroundedScreens   = 0.30 // of screening turns
	unclearScreens      = 0.10 // of the ungrounded ones: not a question of the grammar
	rightScreens        = 0.50 // of the grounded ones
	ungroundedReasoning = 0.05 // of reasoning turns
	sameEquivalents     = 0.50 // of equivalence turns
)

// Turns draws the mix's turns about the figure, grouped by role in the order of Mix's fields.
func (s Scene) Turns(rng *rand.Rand, m Mix) []Turn {
	if m.Weights == (Weights{}) {
		m.Weights = DefaultWeights()
	}
	var out []Turn
	repeat := func(n int, draw func() Turn) {
		for range n {
			out = append(out, draw())
		}
	}
	ask := func() Question { return s.DrawQuestion(rng, m.Weights, true) }
	repeat(m.Read, s.ReadTurn)
	repeat(m.Look, func() Turn { return s.LookTurn(rng) })
	repeat(m.Questioner, func() Turn { return s.QuestionerTurn(ask()) })
	repeat(m.Solver, func() Turn { return s.SolverTurn(ask()) })
	repeat(m.Screening, func() Turn { return s.drawScreening(rng, m.Weights) })
	repeat(m.Reasoning, func() Turn { return s.drawReasoning(rng, m.Weights) })
	repeat(m.Equivalence, func() Turn { return s.drawEquivalence(rng, ask()) })
	repeat(m.Dispute, func() Turn { return s.drawDispute(rng, ask()) })
	return out
}

func (s Scene) drawScreening(rng *rand.Rand, w Weights) Turn {
	grounded := rng.Float64() >= ungroundedScreens
	q := s.DrawQuestion(rng, w, grounded)
	given := s.Solve(q).Answer
	if !grounded && rng.Float64() < unclearScreens {
		return s.ScreenTurn(garble(rng, q), s.WrongAnswer(rng, q, given))
	}
	if !grounded || rng.Float64() >= rightScreens {
		given = s.WrongAnswer(rng, q, given)
	}
	return s.ScreenTurn(q.Text(), given)
}

// garble breaks a question as a model's sampling may: a word lost, said twice or swapped with the next, until it no longer parses.
func garble(rng *rand.Rand, q Question) string {
	for {
		words := strings.Fields(q.Text())
		i := rng.IntN(len(words) - 1)
		switch rng.IntN(3) {
		case 0:
			words = slices.Delete(words, i, i+1)
		case 1:
			words = slices.Insert(words, i, words[i])
		default:
			words[i], words[i+1] = words[i+1], words[i]
		}
		text := strings.Join(words, " ")
		if _, ok := ParseQuestion(text); !ok {
			return text
		}
	}
}

// drawReasoning draws the score first, so that questions without room for it do not tilt the balance.
func (s Scene) drawReasoning(rng *rand.Rand, w Weights) Turn {
	score := []float64{ScoreGuess, ScoreFlawed, ScoreShortcut, ScoreExplicit}[rng.IntN(4)]
	grounded := rng.Float64() >= ungroundedReasoning
	for try := 0; ; try++ {
		if try == 20 {
			w = DefaultWeights() // the given forms have no room for this score
		}
		q := s.DrawQuestion(rng, w, grounded)
		r, ok := s.ReasoningAt(rng, q, score)
		if !ok {
			continue
		}
		if t, ok := s.ReasoningTurn(q.Text(), r); ok {
			return t
		}
	}
}

func (s Scene) drawDispute(rng *rand.Rand, q Question) Turn {
	truth := s.Solve(q)
	wrong := s.WrongAnswer(rng, q, truth.Answer)
	for sameAnswer(truth.Answer, wrong) {
		wrong = s.WrongAnswer(rng, q, truth.Answer)
	}
	reference, majority, reasoning := wrong, truth.Answer, truth.Reasoning
	if rng.IntN(2) == 0 {
		reference, majority = truth.Answer, wrong
		if r, ok := s.ReasoningAt(rng, q, ScoreFlawed); ok {
			reasoning = r
		}
	}
	t, _ := s.DisputeTurn(q.Text(), reference, majority, reasoning)
	return t
}

var numberWords = [10]string{"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"}

// drawEquivalence sets an answer beside another wording of it, or of a different one.
func (s Scene) drawEquivalence(rng *rand.Rand, q Question) Turn {
	truth := s.Solve(q).Answer
	same := rng.Float64() < sameEquivalents
	said := truth
	if !same {
		for said = s.WrongAnswer(rng, q, truth); sameAnswer(truth, said); {
			said = s.WrongAnswer(rng, q, truth)
		}
	}
	predicted := s.reword(rng, q, said)
	if rng.IntN(4) == 0 {
		truth, predicted = predicted, truth
	}
	return EquivalenceTurn(q.Text(), truth, predicted, same)
}

// reword writes an answer in another form that means the same.
func (s Scene) reword(rng *rand.Rand, q Question, answer string) string {
	noun := q.Noun.Noun()
	switch s.answerClass(q) {
	case 'l':
		return []string{answer, noun + " " + answer, "the " + noun + " " + answer}[rng.IntN(3)]
	case 'n':
		if q.Form == AskColor {
			return answer
		}
		return []string{answer, answer + " " + noun, "the " + answer + " " + noun}[rng.IntN(3)]
	}
	options := []string{answer, answer + " units"}
	if n, err := strconv.Atoi(answer); err == nil {
		options = append(options, answer+".0")
		if n >= 0 && n < len(numberWords) {
			options = append(options, numberWords[n])
		}
	}
	return options[rng.IntN(len(options))]
}
