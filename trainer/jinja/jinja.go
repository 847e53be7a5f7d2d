// Package jinja renders the chat templates of checkpoint folders: the part of the Jinja language that they are written in,
// with the settings that transformers renders them with (trim_blocks and lstrip_blocks on).
//
// A template comes with a download and is not trusted: it reaches no file, clock or environment, and its work and
// its output are bounded. What is not supported is refused by name and never rendered differently.
package jinja

import (
	"errors"
	"fmt"
	"strings"
)

// Bounds on what a template may cost. Those of released models need a few hundred units.
const (
	maxSource = 1 << 17 // bytes of a template
	maxNested = 100     // depth of expressions, blocks and values
	maxWork   = 1 << 20 // units: a step of evaluation, or 64 bytes or an element made or compared
)

// Errors that Parse and Render wrap.
var (
	ErrUnsupported = errors.New("not supported in a chat template")
	ErrTooMuch     = errors.New("the template does too much")
)

// Dict is a mapping in its order. Values in templates are nil, bool, int, float64, string, []any and Dict.
type Dict []Entry

// Entry is one item of a Dict.
type Entry struct {
	Key   string
	Value any
}

// Get returns the value of a key.
func (d Dict) Get(key string) (any, bool) {
	for _, e := range d {
		if e.Key == key {
			return e.Value, true
		}
	}
	return nil, false
}

// Template is a parsed template. It may be rendered by several goroutines.
type Template struct{ body []statement }

// Parse reads a template. Errors name the line; those about what this package leaves out wrap ErrUnsupported.
func Parse(source string) (*Template, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d are read", ErrTooMuch, len(source), maxSource)
	}
	tokens, err := lex(source)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	body := p.statements()
	if t := p.peek(); p.err == nil && t.kind != tokenEOF {
		p.fail(fmt.Errorf("line %d: %q without its beginning", t.line, t.text))
	}
	return &Template{body}, p.err
}

// Render writes the template with the given variables. It returns the template's own error where it calls raise_exception,
// and one that wraps ErrTooMuch where it exceeds the bounds.
func (t *Template) Render(variables Dict) (string, error) {
	s := &state{out: &strings.Builder{}, scopes: []map[string]any{{}}}
	for _, v := range variables {
		s.scopes[0][v.Key] = v.Value
	}
	s.run(t.body)
	if s.err != nil {
		return "", s.err
	}
	return s.out.String(), nil
}
