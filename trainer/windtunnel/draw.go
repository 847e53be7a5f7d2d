package windtunnel

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Weights are the relative frequencies of the question forms.
type Weights [forms]float64

// DefaultWeights give every form its share, and more to those whose chains are long or that have many wordings.
func DefaultWeights() Weights {
	return Weights{
		AskValue: 3, AskColor: 1, AskLetter: 1, AskCount: 1, AskColumn: 1,
		AskSum: 3, AskDifference: 2.5, AskLargest: 2, AskSmallest: 2, AskCompare: 1.5, AskAbove: 1.5,
		AskSum3: 2, AskRange: 1.5, AskLarger: 1.5, AskTogether: 1.5, AskSecond: 2, AskTotal: 1.5,
		AskAboveMean: 2, AskMedian: 2, AskThird: 2,
	}
}

func (w Weights) draw(rng *rand.Rand) Form {
	var total float64
	for _, v := range w {
		total += v
	}
	x := rng.Float64() * total
	for f, v := range w {
		if x -= v; x < 0 {
			return Form(f)
		}
	}
	return AskValue
}

// DrawQuestion draws a question about the figure whose premises hold, or, when grounded is false, one with a premise that fails: a wrong noun, an
// absent letter or colour, or a comparison that is not so.
func (s Scene) DrawQuestion(rng *rand.Rand, w Weights, grounded bool) Question {
	for try := 0; ; try++ {
		if try == 20 {
			w = DefaultWeights() // the figure has no such question in the given forms
		}
		form := w.draw(rng)
		fault := rng.IntN(5) // of ungrounded questions: 0 wrong noun, 1-2 absent entity, 3-4 false premise
		// A form is kept for some tries: otherwise those that seldom hold would be rarer than their weight.
		for range 20 {
			q := s.drawForm(rng, form)
			if !grounded && fault == 0 {
				q.Noun = (s.Kind + 1 + Kind(rng.IntN(int(kinds)-1))) % kinds
			}
			if !grounded && fault > 0 && fault < 3 {
				s.estrange(rng, &q)
			}
			if q.valid() && s.Solve(q).Grounded == grounded {
				return q
			}
		}
	}
}

// drawForm fills a form's slots with things of the figure.
func (s Scene) drawForm(rng *rand.Rand, form Form) Question {
	q := Question{Form: form, Noun: s.Kind}
	byLetter := form == AskColor || form != AskColumn && s.Kind != Scatter && rng.IntN(5) < 3
	order := rng.Perm(len(s.Entities))
	for i := range form.refs() {
		e := s.Entities[order[i]]
		if byLetter {
			q.Refs[i].Letter = 'A' + byte(order[i])
		} else {
			q.Refs[i].Color = e.Color
		}
	}
	switch form {
	case AskLetter:
		q.Color = s.Entities[order[0]].Color
	case AskAbove:
		q.Number = 1 + rng.IntN(MaxValue-1)
	}
	return q
}

// estrange puts a letter or colour into the question that the figure lacks, where there is one.
func (s Scene) estrange(rng *rand.Rand, q *Question) {
	var absent []Color
	for c := range Color(Colors) {
		if _, ok := s.find(Ref{Color: c}); !ok {
			absent = append(absent, c)
		}
	}
	if q.Form == AskLetter && len(absent) > 0 {
		q.Color = absent[rng.IntN(len(absent))]
	}
	n := q.Form.refs()
	if n == 0 {
		return
	}
	ref := &q.Refs[rng.IntN(n)]
	switch {
	case ref.Letter != 0 && len(s.Entities) < MaxEntities:
		ref.Letter = byte('A' + len(s.Entities) + rng.IntN(MaxEntities-len(s.Entities)))
	case ref.Letter == 0 && len(absent) > 0:
		ref.Color = absent[rng.IntN(len(absent))]
	}
}

// WrongAnswer draws a plausible answer that is not the truth: a near miss, another entity's value or name, or a random one of the right sort.
func (s Scene) WrongAnswer(rng *rand.Rand, q Question, truth string) string {
	other := s.Entities[rng.IntN(len(s.Entities))]
	for {
		var w string
		switch s.answerClass(q) {
		case 'n':
			w = colorNames[rng.IntN(Colors)]
			if rng.IntN(3) > 0 {
				w = s.Entities[rng.IntN(len(s.Entities))].Color.String()
			}
		case 'l':
			w = string(rune('A' + rng.IntN(len(s.Entities))))
		default:
			w = s.wrongNumber(rng, q, truth, other.Value)
		}
		if w != truth {
			return w
		}
	}
}

func (s Scene) wrongNumber(rng *rand.Rand, q Question, truth string, other int) string {
	n, err := strconv.ParseFloat(truth, 64)
	if err != nil {
		// A question without an answer gets one that could have been meant.
		n = float64(rng.IntN(MaxValue + 1))
		if q.Form == AskSum || q.Form == AskSum3 || q.Form == AskTotal {
			n += float64(rng.IntN(MaxValue + 1))
		}
	}
	switch rng.IntN(5) {
	case 0:
		return strconv.Itoa(other)
	case 1:
		if q.Form == AskSum || q.Form == AskSum3 || q.Form == AskTotal {
			return strconv.Itoa(rng.IntN(20))
		}
	}
	delta := float64(1 + rng.IntN(3))
	if rng.IntN(2) == 0 && n >= delta {
		delta = -delta
	}
	return strconv.FormatFloat(n+delta, 'f', -1, 64)
}

// answerClass is the sort of answer a question asks for: 'v' number, 'n' colour, 'l' letter.
func (s Scene) answerClass(q Question) byte {
	switch q.Form {
	case AskColor:
		return 'n'
	case AskLargest, AskSmallest, AskSecond, AskThird:
		if s.Kind == Scatter {
			return 'n'
		}
		return 'l'
	case AskLetter:
		return 'l'
	case AskCompare:
		if q.Refs[0].Letter == 0 {
			return 'n'
		}
		return 'l'
	}
	return 'v'
}

// CorruptReasoning draws reasoning about a question at one of the rubric's four levels, each as likely as another where the question has room for it,
// and returns it with its score.
func (s Scene) CorruptReasoning(rng *rand.Rand, q Question) (reasoning string, score float64) {
	levels := []float64{ScoreGuess, ScoreFlawed, ScoreShortcut, ScoreExplicit}
	for _, i := range rng.Perm(len(levels)) {
		if r, ok := s.ReasoningAt(rng, q, levels[i]); ok {
			return r, levels[i]
		}
	}
	return s.Solve(q).Reasoning, ScoreExplicit
}

// ReasoningAt draws reasoning that GradeReasoning scores as asked; false where the question leaves no room, as for a shortcut in one step.
func (s Scene) ReasoningAt(rng *rand.Rand, q Question, score float64) (string, bool) {
	for range 30 {
		var r string
		switch score {
		case ScoreExplicit:
			r = s.Solve(q).Reasoning
		case ScoreGuess:
			r = s.guess(rng, q)
		case ScoreShortcut:
			r = s.shortcut(rng, q)
		default:
			r = s.flaw(rng, q)
		}
		if got, _, ok := s.GradeReasoning(q.Text(), r); ok && got == score {
			return r, true
		}
	}
	return "", false
}

func (s Scene) guess(rng *rand.Rand, q Question) string {
	truth := s.Solve(q)
	switch {
	case rng.IntN(10) == 0:
		return ""
	case rng.IntN(2) == 0 && truth.Grounded:
		return truth.Answer + "."
	}
	return s.WrongAnswer(rng, q, truth.Answer) + "."
}

// shortcut leaves steps out of the canonical chain.
func (s Scene) shortcut(rng *rand.Rand, q Question) string {
	chain, answer := s.chain(q)
	ending := statement{kind: bare, value: answer}
	var kept []statement
	switch rng.IntN(4) {
	case 0: // readings without their running state
		for _, st := range chain {
			st.tail = ""
			kept = append(kept, st)
		}
	case 1: // the conclusion only
		kept = chain[len(chain)-1:]
	case 2: // readings, then the answer
		for _, st := range chain {
			if st.kind == fact {
				kept = append(kept, st)
			}
		}
	default: // some steps missing
		for _, st := range chain {
			if rng.IntN(3) > 0 {
				kept = append(kept, st)
			}
		}
	}
	if answer != "" && rng.IntN(2) == 0 {
		kept = append(slices.Clip(kept), ending)
	}
	return join(kept)
}

// flaw draws a misreading carried through, a slip in a step, or a chain about something else.
func (s Scene) flaw(rng *rand.Rand, q Question) string {
	switch x := rng.IntN(20); {
	case x < 9:
		return s.misread(rng, q).Solve(q).Reasoning
	case x < 16:
		if r, ok := s.slip(rng, q); ok {
			return r
		}
	}
	other := s.drawForm(rng, q.Form)
	if rng.IntN(3) == 0 || other == q {
		other = s.DrawQuestion(rng, DefaultWeights(), true)
	}
	return s.Solve(other).Reasoning
}

// misread is the scene with one thing changed that the question turns on.
func (s Scene) misread(rng *rand.Rand, q Question) Scene {
	out := s
	out.Entities = slices.Clone(s.Entities)
	i := rng.IntN(len(out.Entities))
	e := &out.Entities[i]
	switch q.Form {
	case AskColor, AskLetter:
		j := rng.IntN(len(out.Entities))
		e.Color, out.Entities[j].Color = out.Entities[j].Color, e.Color
	case AskColumn:
		e.Column = 1 + rng.IntN(MaxColumn)
	case AskCount:
		last := out.Entities[len(out.Entities)-1]
		if len(out.Entities) < MaxEntities && rng.IntN(2) == 0 && s.Kind != Scatter {
			out.Entities = append(out.Entities, Entity{Letter: last.Letter + 1})
		} else {
			out.Entities = out.Entities[:len(out.Entities)-1]
		}
	default:
		delta := 1 + rng.IntN(2)
		if rng.IntN(2) == 0 {
			delta = -delta
		}
		e.Value = max(0, min(MaxValue, e.Value+delta))
	}
	return out
}

// slip changes one derived step: a result, a running state, a relation, an order or a conclusion.
func (s Scene) slip(rng *rand.Rand, q Question) (string, bool) {
	chain, _ := s.chain(q)
	var derived []int
	for i, st := range chain {
		if st.kind != fact && st.kind != refusal || st.tail != "" {
			derived = append(derived, i)
		}
	}
	if len(derived) == 0 {
		return "", false
	}
	st := &chain[derived[rng.IntN(len(derived))]]
	other := s.Entities[rng.IntN(len(s.Entities))]
	switch st.kind {
	case sum:
		st.value = nudge(rng, st.value)
	case relation:
		st.head = replaceSign(rng, st.head)
	case verdict:
		if st.head == "middle" {
			st.value = strconv.Itoa(other.Value)
		} else {
			st.value = other.Name()
		}
	case list:
		parts := strings.Split(st.value, ", ")
		if len(parts) > 1 && st.head == "order" {
			i := rng.IntN(len(parts) - 1)
			parts[i], parts[i+1] = parts[i+1], parts[i]
		} else if len(parts) > 1 {
			parts = parts[:len(parts)-1]
		}
		st.value = strings.Join(parts, ", ")
	case fact:
		word := strings.Fields(st.tail)
		switch {
		case strings.Contains(st.tail, "max") || strings.Contains(st.tail, "min"):
			st.tail = ", " + word[1] + " " + other.Name() + " " + strconv.Itoa(other.Value)
		case rng.IntN(2) == 0 && strings.ContainsAny(st.tail, "<=>"):
			st.tail = replaceSign(rng, st.tail)
		default:
			st.tail = strings.TrimSuffix(st.tail, word[len(word)-1]) + nudge(rng, word[len(word)-1])
		}
	}
	return join(chain), true
}

func nudge(rng *rand.Rand, number string) string {
	n, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return number
	}
	delta := float64(1 + rng.IntN(2))
	if rng.IntN(2) == 0 && n >= delta {
		delta = -delta
	}
	return strconv.FormatFloat(n+delta, 'f', -1, 64)
}

func replaceSign(rng *rand.Rand, text string) string {
	i := strings.IndexAny(text, "<=>")
	return text[:i] + string("<=>"[rng.IntN(3)]) + text[i+1:]
}
