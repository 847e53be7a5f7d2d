package tokenizer

import (
	"slices"
	"strings"
)

// matcher finds added tokens in text: the leftmost, and of those the longest.
type matcher struct {
	byFirst [256][]literal // longest first
}

type literal struct {
	text string
	id   int32
}

func newMatcher(tokens []literal) *matcher {
	m := &matcher{}
	for _, t := range tokens {
		if t.text != "" {
			m.byFirst[t.text[0]] = append(m.byFirst[t.text[0]], t)
		}
	}
	for _, list := range m.byFirst {
		slices.SortStableFunc(list, func(a, b literal) int { return len(b.text) - len(a.text) })
	}
	return m
}

// cut calls plain for the stretches between tokens and token for each token.
func (m *matcher) cut(text string, plain func(string), token func(int32)) {
	from := 0
	for i := 0; i < len(text); {
		t, ok := m.at(text[i:])
		if !ok {
			i++
			continue
		}
		if from < i {
			plain(text[from:i])
		}
		token(t.id)
		i += len(t.text)
		from = i
	}
	if from < len(text) {
		plain(text[from:])
	}
}

func (m *matcher) at(text string) (literal, bool) {
	for _, t := range m.byFirst[text[0]] {
		if strings.HasPrefix(text, t.text) {
			return t, true
		}
	}
	return literal{}, false
}
