package windtunnel

import (
	"regexp"
	"strings"
)

// Reasoning is a chain of short statements, each ended by a full stop. These are their kinds.
type statementKind int

const (
	fact     statementKind = iota // "A 4", "A red", "red A", "red column 3", with a running state "B 7, max B 7"
	sum                           // any arithmetic: "4+3=7", "middle 5+4=9"
	relation                      // "7>4"
	list                          // "count A 1, B 2", "order B 7, A 4"
	verdict                       // "second A", "third A", "middle 4"
	refusal                       // "There is no red bar", "Not larger", "No single largest"
	bare                          // an answer alone: "7"
)

type statement struct {
	kind  statementKind
	head  string // entity, operands, or the leading word; the whole text of a relation or refusal
	value string // what is said of it
	tail  string // a fact's running state with its separator: ", max B 7", ">4, 1"
}

func (s statement) text() string {
	switch s.kind {
	case sum:
		return s.head + "=" + s.value
	case relation, refusal:
		return s.head
	case bare:
		return s.value
	}
	return s.head + " " + s.value + s.tail
}

func join(chain []statement) string {
	var b strings.Builder
	for i, s := range chain {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(s.text())
		b.WriteByte('.')
	}
	return b.String()
}

const (
	colorPattern  = `(?:red|blue|green|orange|purple|black)`
	namePattern   = `(?:[A-F]|` + colorPattern + `)`
	numberPattern = `\d{1,3}`
)

var (
	factPattern = regexp.MustCompile(`^(` + namePattern + `) (` + numberPattern + `|` + namePattern + `|column \d)` +
		`(, (?:max|min) ` + namePattern + ` \d+|, (?:tie|sum) ` + numberPattern + `|, \d to \d|[<>=]` + numberPattern + `(?:\.\d)?, \d)?$`)
	sumPattern      = regexp.MustCompile(`^((?:middle )?` + numberPattern + `[-+/]` + numberPattern + `)=(` + numberPattern + `(?:\.\d)?)$`)
	relationPattern = regexp.MustCompile(`^` + numberPattern + `[<>=]` + numberPattern + `$`)
	listPattern     = regexp.MustCompile(`^(count|order) (` + namePattern + ` \d{1,2}(?:, ` + namePattern + ` \d{1,2}){0,7})$`)
	verdictPattern  = regexp.MustCompile(`^(second|third|middle) (` + namePattern + `|\d{1,2})$`)
	refusalPattern  = regexp.MustCompile(`^(?:There is no (?:` + colorPattern + ` (?:bar|point|dot|row)|(?:bar|point|dot|row) [A-F])` +
		`|There are no (?:bars|points|dots|rows|letters)|Not larger|No single (?:largest|smallest|second|third))$`)
	barePattern = regexp.MustCompile(`^(?:` + namePattern + `|` + numberPattern + `(?:\.\d)?)$`)
)

const maxReasoning = 2000 // bytes; what a model wrote may be of any length

// parseReasoning reads a chain of statements; false when any part is not one.
func parseReasoning(text string) ([]statement, bool) {
	text = strings.TrimSpace(text)
	if len(text) > maxReasoning {
		return nil, false
	}
	if text == "" {
		return nil, true
	}
	var out []statement
	for part := range strings.SplitSeq(strings.TrimSuffix(text, "."), ". ") {
		s, ok := parseStatement(part)
		if !ok {
			return nil, false
		}
		out = append(out, s)
	}
	return out, true
}

func parseStatement(t string) (statement, bool) {
	if m := factPattern.FindStringSubmatch(t); m != nil {
		return statement{fact, m[1], m[2], m[3]}, true
	}
	if m := sumPattern.FindStringSubmatch(t); m != nil {
		return statement{kind: sum, head: m[1], value: m[2]}, true
	}
	if m := listPattern.FindStringSubmatch(t); m != nil {
		return statement{kind: list, head: m[1], value: m[2]}, true
	}
	if m := verdictPattern.FindStringSubmatch(t); m != nil {
		return statement{kind: verdict, head: m[1], value: m[2]}, true
	}
	switch {
	case relationPattern.MatchString(t):
		return statement{kind: relation, head: t}, true
	case refusalPattern.MatchString(t):
		return statement{kind: refusal, head: t}, true
	case barePattern.MatchString(t):
		return statement{kind: bare, value: t}, true
	}
	return statement{}, false
}

// factClass tells facts about the same entity apart by what they say: a value, a colour, a letter or a column.
func factClass(value string) byte {
	switch {
	case strings.HasPrefix(value, "column"):
		return 'c'
	case value[0] >= '0' && value[0] <= '9':
		return 'v'
	case len(value) == 1:
		return 'l'
	}
	return 'n'
}
