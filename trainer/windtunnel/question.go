package windtunnel

import (
	"strconv"
	"strings"
)

// Form is a kind of question.
type Form int

// The forms of question, by level.
const (
	AskValue Form = iota // level 1: read one thing off
	AskColor
	AskLetter
	AskCount
	AskColumn

	AskSum // level 2: one operation
	AskDifference
	AskLargest
	AskSmallest
	AskCompare
	AskAbove

	AskSum3 // level 3: a chain of operations
	AskRange
	AskLarger
	AskTogether
	AskSecond
	AskTotal

	AskAboveMean // level 4: the question must first be put another way
	AskMedian
	AskThird
	forms
)

// Templates: {n} noun, {s} plural, {1} {2} {3} references such as "bar A" or "the red bar", {c} colour, {k} number.
var templates = [forms]string{
	AskValue:      "What is the value of {1}?",
	AskColor:      "What colour is {1}?",
	AskLetter:     "Which {n} is {c}?",
	AskCount:      "How many {s} are there?",
	AskColumn:     "Which column is {1} in?",
	AskSum:        "What is the sum of {1} and {2}?",
	AskDifference: "How much larger is {1} than {2}?",
	AskLargest:    "Which {n} has the largest value?",
	AskSmallest:   "Which {n} has the smallest value?",
	AskCompare:    "Which is larger, {1} or {2}?",
	AskAbove:      "How many {s} are above {k}?",
	AskSum3:       "What is the sum of {1}, {2} and {3}?",
	AskRange:      "What is the range of the {s}?",
	AskLarger:     "How many {s} are larger than {1}?",
	AskTogether:   "How much larger are {1} and {2} together than {3}?",
	AskSecond:     "Which {n} has the second largest value?",
	AskTotal:      "What is the total of the {s}?",
	AskAboveMean:  "How many {s} are above the mean?",
	AskMedian:     "What is the median of the {s}?",
	AskThird:      "Which {n} is largest when the top two are left out?",
}

var levels = [forms]int{1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 4, 4, 4}

var difficulties = [5]float64{0, 0.1, 0.4, 0.7, 1.0}

// Ref names an entity by its letter 'A'..'F', or by its colour where Letter is 0.
type Ref struct {
	Letter byte
	Color  Color
}

func (r Ref) name() string {
	if r.Letter == 0 {
		return r.Color.String()
	}
	return string(r.Letter)
}

func (r Ref) text(k Kind) string {
	if r.Letter == 0 {
		return "the " + r.Color.String() + " " + k.Noun()
	}
	return k.Noun() + " " + string(r.Letter)
}

// Question is a parsed question. Fields that the form does not use are zero, so equal questions compare equal.
type Question struct {
	Form   Form
	Noun   Kind // the kind of figure that the question speaks of
	Refs   [3]Ref
	Color  Color
	Number int // 1..MaxValue-1
}

// String is the form's template, such as "What is the median of the {s}?".
func (f Form) String() string { return templates[f] }

// Level is 1..4 (F.3: observable, single-step, multi-step, conceptual).
func (q Question) Level() int { return levels[q.Form] }

// Difficulty is 0.1, 0.4, 0.7 or 1.0 (F.3).
func (q Question) Difficulty() float64 { return difficulties[q.Level()] }

// refs is how many references the form has.
func (f Form) refs() int {
	n := 0
	for _, p := range []string{"{1}", "{2}", "{3}"} {
		if strings.Contains(templates[f], p) {
			n++
		}
	}
	return n
}

// Text writes the question in English; ParseQuestion is its exact inverse.
func (q Question) Text() string {
	return strings.NewReplacer("{n}", q.Noun.Noun(), "{s}", plurals[q.Noun], "{c}", q.Color.String(), "{k}", strconv.Itoa(q.Number),
		"{1}", q.Refs[0].text(q.Noun), "{2}", q.Refs[1].text(q.Noun), "{3}", q.Refs[2].text(q.Noun)).Replace(templates[q.Form])
}

// ParseQuestion reads a question of the grammar. It accepts exactly what Text writes.
func ParseQuestion(text string) (Question, bool) {
	for f := range forms {
		for noun := range kinds {
			q := Question{Form: f, Noun: noun}
			if q.parse(templates[f], text) && q.valid() {
				return q, true
			}
		}
	}
	return Question{}, false
}

func (q *Question) parse(template, text string) bool {
	for {
		literal, rest, found := strings.Cut(template, "{")
		var ok bool
		if text, ok = strings.CutPrefix(text, literal); !ok {
			return false
		}
		if !found {
			return text == ""
		}
		slot := rest[0]
		template = rest[2:]
		if text, ok = q.parseSlot(slot, text); !ok {
			return false
		}
	}
}

func (q *Question) parseSlot(slot byte, text string) (rest string, ok bool) {
	switch slot {
	case 'n':
		return strings.CutPrefix(text, q.Noun.Noun())
	case 's':
		return strings.CutPrefix(text, plurals[q.Noun])
	case 'c':
		q.Color, rest, ok = cutColor(text)
		return rest, ok
	case 'k':
		if text == "" || text[0] < '1' || text[0] >= '0'+MaxValue {
			return "", false
		}
		q.Number = int(text[0] - '0')
		return text[1:], true
	}
	ref := &q.Refs[slot-'1']
	if rest, ok = strings.CutPrefix(text, q.Noun.Noun()+" "); ok {
		if rest == "" || rest[0] < 'A' || rest[0] >= 'A'+MaxEntities {
			return "", false
		}
		ref.Letter = rest[0]
		return rest[1:], true
	}
	if text, ok = strings.CutPrefix(text, "the "); !ok {
		return "", false
	}
	if ref.Color, rest, ok = cutColor(text); !ok {
		return "", false
	}
	return strings.CutPrefix(rest, " "+q.Noun.Noun())
}

func cutColor(text string) (Color, string, bool) {
	for c, name := range colorNames {
		if rest, ok := strings.CutPrefix(text, name); ok {
			return Color(c), rest, true
		}
	}
	return 0, "", false
}

// valid refuses what the grammar leaves out: the colour of a colour, the column of anything but a dot, and a thing named twice.
func (q Question) valid() bool {
	n := q.Form.refs()
	for i := range n {
		for j := range i {
			if q.Refs[i] == q.Refs[j] {
				return false
			}
		}
	}
	switch q.Form {
	case AskColor:
		return q.Refs[0].Letter != 0
	case AskColumn:
		return q.Noun == Scatter && q.Refs[0].Letter == 0
	}
	return true
}
