package windtunnel

import (
	"slices"
	"strings"
)

// The reasoning scores of the rubric (F.4), and the word that ends the justification of each.
const (
	ScoreGuess    = 0.0  // "guess": no reasoning
	ScoreFlawed   = 0.25 // "misread" or "error": a wrong reading, or a wrong or irrelevant step
	ScoreShortcut = 0.5  // "shortcut": right, with steps left out
	ScoreExplicit = 1.0  // "explicit": every step shown
)

// GradeReasoning scores reasoning about a question by the rubric. The justification restates each claim with the true value beside the
// said one and stops at the first fault; its last word decides the score. ok is false where the question or reasoning is not in the grammar.
func (s Scene) GradeReasoning(question, reasoning string) (score float64, justification string, ok bool) {
	q, ok := ParseQuestion(question)
	if !ok {
		return 0, "", false
	}
	said, ok := parseReasoning(reasoning)
	if !ok {
		return 0, "", false
	}
	if !slices.ContainsFunc(said, func(st statement) bool { return st.kind != bare }) {
		return ScoreGuess, "guess.", true
	}
	g := grader{}
	g.chain, g.answer = s.chain(q)
	for _, st := range said {
		if fault := g.check(st); fault != "" {
			return ScoreFlawed, strings.Join(append(g.notes, fault), ". ") + ".", true
		}
	}
	if g.skipped || g.next < len(g.chain) {
		return ScoreShortcut, strings.Join(append(g.notes, "shortcut"), ". ") + ".", true
	}
	return ScoreExplicit, strings.Join(append(g.notes, "explicit"), ". ") + ".", true
}

// grader walks along the canonical chain while it reads the given one, which must be a subsequence of it.
type grader struct {
	chain   []statement
	answer  string
	next    int
	skipped bool
	notes   []string
}

func (g *grader) note(text string) string {
	g.notes = append(g.notes, text)
	return ""
}

// check notes one claim; a fault is returned as the last note.
func (g *grader) check(st statement) (fault string) {
	if st.kind == bare {
		if g.answer == "" {
			return g.refusal() + " error"
		}
		return g.compare(g.answer, st.value, "error")
	}
	i := g.match(st)
	if i < 0 {
		if g.answer == "" {
			return g.refusal() + " error"
		}
		if st.kind == refusal {
			return "refused error"
		}
		return st.head + " error"
	}
	if i > g.next {
		g.skipped = true
	}
	g.next = i + 1
	truth := g.chain[i]
	switch st.kind {
	case fact:
		return g.checkFact(truth, st)
	case sum:
		if !sameOperands(truth.head, st.head) {
			return truth.head + " said " + st.head + " error"
		}
		return g.compare(st.head+"="+truth.value, st.value, "error", truth.value)
	case verdict:
		return g.compare(truth.text(), st.value, "error", truth.value)
	case list:
		word := "error"
		if st.head == "count" {
			word = "misread"
		}
		if st.value != truth.value {
			return truth.text() + " " + word
		}
		return g.note(truth.text())
	}
	if st.head != truth.head {
		return truth.head + " said " + st.head + " error"
	}
	return g.note(truth.head)
}

// compare notes "truth said value"; the truth to compare with is the note itself unless given.
func (g *grader) compare(note, said, word string, truth ...string) string {
	text := note + " said " + said
	if want := append(truth, note)[0]; want != said {
		return text + " " + word
	}
	return g.note(text)
}

func (g *grader) checkFact(truth, st statement) string {
	text := truth.head + " " + truth.value + " said " + st.value
	if st.value != truth.value {
		return text + " misread"
	}
	if st.tail == "" {
		g.skipped = g.skipped || truth.tail != ""
		return g.note(text)
	}
	text += truth.tail
	if st.tail != truth.tail {
		return text + " error"
	}
	return g.note(text)
}

// refusal is why the question has no answer.
func (g *grader) refusal() string { return g.chain[len(g.chain)-1].head }

// match finds the canonical statement that a claim is about, at or after the current place; -1 when it belongs to none.
func (g *grader) match(st statement) int {
	loose := -1
	for i := g.next; i < len(g.chain); i++ {
		c := g.chain[i]
		if c.kind != st.kind {
			continue
		}
		exact, near := true, true
		switch st.kind {
		case fact:
			near = c.head == st.head && factClass(c.value) == factClass(st.value)
			exact = near && tailClass(c.tail) == tailClass(st.tail)
		case sum:
			near = operator(c.head) == operator(st.head)
			exact = near && sameOperands(c.head, st.head)
		case list, verdict:
			near = c.head == st.head
		}
		if near && exact {
			return i
		}
		if near && loose < 0 {
			loose = i
		}
	}
	return loose
}

// operator is the sign of a sum, told apart for the middle pair of a median.
func operator(head string) string {
	if strings.HasPrefix(head, "middle ") {
		return "middle"
	}
	return head[strings.IndexAny(head, "+-/"):][:1]
}

func sameOperands(a, b string) bool {
	if a == b {
		return true
	}
	if operator(a) != "+" || operator(b) != "+" {
		return false
	}
	x, y, _ := strings.Cut(b, "+")
	return a == y+"+"+x
}

// tailClass tells the running states of a fact apart: none, a comparison, or anything carried along.
func tailClass(tail string) byte {
	switch {
	case tail == "":
		return 0
	case strings.IndexByte("<=>", tail[0]) >= 0:
		return 'c'
	}
	return 'r'
}
