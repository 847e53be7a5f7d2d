package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// describe names a value's kind for errors.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "none"
	case undefined:
		return "the undefined " + v.name
	case bool:
		return "a truth value"
	case int, float64:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "a list"
	case Dict:
		return "a mapping"
	}
	return "a namespace"
}

// text is what {{ v }} writes. Lists and mappings are refused: Python's notation of them is not to be imitated by halves.
func (s *state) text(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case undefined:
		return ""
	case bool:
		if v {
			return "True"
		}
		return "False"
	case int:
		return strconv.Itoa(v)
	case float64:
		t := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(t, ".eIN") {
			t += ".0"
		}
		return t
	case string:
		return v
	}
	s.fail(fmt.Errorf("%s written as text is %w; use tojson", describe(v), ErrUnsupported))
	return ""
}

// tests are those after "is".
var tests = map[string]func(v any) bool{
	"defined":   func(v any) bool { return !isA[undefined](v) },
	"undefined": isA[undefined],
	"none":      func(v any) bool { return v == nil },
	"string":    isA[string],
	"mapping":   isA[Dict],
	"boolean":   isA[bool],
	"integer":   isA[int],
	"number":    func(v any) bool { _, ok := number(v); return ok },
	"true":      func(v any) bool { return v == true },
	"false":     func(v any) bool { return v == false },
	"sequence":  func(v any) bool { return isA[string](v) || isA[[]any](v) || isA[Dict](v) || isA[undefined](v) },
	"iterable":  func(v any) bool { return isA[string](v) || isA[[]any](v) || isA[Dict](v) || isA[undefined](v) },
}

func isA[T any](v any) bool { _, ok := v.(T); return ok }

func (c *condition) eval(s *state) any {
	s.spend(1)
	of := c.of.eval(s)
	if _, comparable := of.([]any); comparable && (c.test == "true" || c.test == "false") {
		return false
	}
	return tests[c.test](of)
}

// parameters are a call's evaluated arguments, of which each is to be asked for.
type parameters struct {
	positional []any
	named      map[string]any
}

// take returns the next argument, or the one of that name.
func (p *parameters) take(name string) (any, bool) {
	if len(p.positional) > 0 {
		v := p.positional[0]
		p.positional = p.positional[1:]
		return v, true
	}
	v, ok := p.named[name]
	delete(p.named, name)
	return v, ok
}

// str is take for strings; fallback stands for one that is left out or none.
func (p *parameters) str(name, fallback string) (string, error) {
	v, ok := p.take(name)
	if !ok || v == nil {
		return fallback, nil
	}
	t, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("%s is %s; it must be a string", name, describe(v))
	}
	return t, nil
}

func (c *call) eval(s *state) any {
	if !s.spend(1) {
		return undefined{}
	}
	p := &parameters{named: map[string]any{}}
	for _, e := range c.arguments.positional {
		p.positional = append(p.positional, e.eval(s))
	}
	for _, n := range c.arguments.named {
		p.named[n.name] = n.value.eval(s)
	}
	var v any
	var err error
	switch {
	case c.receiver == nil:
		v, err = functions[c.function](s, p)
	case c.filter:
		v, err = filters[c.function](s, c.receiver.eval(s), p)
	default:
		v, err = s.method(c.function, c.receiver.eval(s), p)
	}
	if err == nil && (len(p.positional) > 0 || len(p.named) > 0) {
		err = fmt.Errorf("some arguments of %s are %w", c.function, ErrUnsupported)
	}
	if err != nil {
		return s.failAt(c.at, "%s: %w", c.function, err)
	}
	if t, ok := v.(string); ok {
		return s.made(t)
	}
	return v
}

var functions = map[string]func(s *state, p *parameters) (any, error){
	"range": rangeFunction,
	"namespace": func(_ *state, p *parameters) (any, error) {
		n := &namespace{p.named}
		p.named = nil
		return n, nil
	},
	"raise_exception": func(_ *state, p *parameters) (any, error) {
		message, err := p.str("message", "")
		return nil, errors.Join(err, fmt.Errorf("the template refuses these messages: %.300s", message))
	},
}

// filters are those after "|".
var filters = map[string]func(s *state, v any, p *parameters) (any, error){
	"length": length, "count": length,
	"default": defaultFilter, "d": defaultFilter,
	"tojson": func(s *state, v any, _ *parameters) (any, error) { return s.json(v, 0) },
	"string": func(s *state, v any, _ *parameters) (any, error) { return s.text(v), nil },
	"safe":   func(s *state, v any, _ *parameters) (any, error) { return v, nil },
	"trim":   onString("strip"), "upper": onString("upper"), "lower": onString("lower"), "replace": onString("replace"),
	"list":  func(s *state, v any, _ *parameters) (any, error) { return append([]any{}, s.iterate(v)...), nil },
	"items": func(s *state, v any, p *parameters) (any, error) { return s.method("items", v, p) },
	"first": func(s *state, v any, _ *parameters) (any, error) { return element(s.iterate(v), 0), nil },
	"last":  func(s *state, v any, _ *parameters) (any, error) { return element(s.iterate(v), -1), nil },
	"join":  join,
}

func element(list []any, at int) any {
	if i, ok := index(at, len(list)); ok {
		return list[i]
	}
	return undefined{"an element of nothing"}
}

func rangeFunction(s *state, p *parameters) (any, error) {
	var bounds []int
	for _, v := range p.positional {
		n, ok := v.(int)
		if !ok {
			return nil, fmt.Errorf("%s is not a whole number", describe(v))
		}
		bounds = append(bounds, n)
	}
	p.positional = nil
	step := 1
	switch len(bounds) {
	case 1:
		bounds = []int{0, bounds[0]}
	case 3:
		step = bounds[2]
	case 2:
	default:
		return nil, errors.New("it takes one to three numbers")
	}
	if step == 0 {
		return nil, errors.New("the step is 0")
	}

	out := []any{}
	for i := bounds[0]; step > 0 && i < bounds[1] || step < 0 && i > bounds[1]; i += step {
		if !s.spend(1) {
			return nil, s.err
		}
		out = append(out, i)
	}
	return out, nil
}

func length(_ *state, v any, _ *parameters) (any, error) {
	switch v := v.(type) {
	case string:
		return utf8.RuneCountInString(v), nil
	case []any:
		return len(v), nil
	case Dict:
		return len(v), nil
	case undefined:
		return 0, nil
	}
	return nil, fmt.Errorf("%s has no length", describe(v))
}

func defaultFilter(s *state, v any, p *parameters) (any, error) {
	fallback, ok := p.take("default_value")
	if !ok {
		fallback = ""
	}
	alsoFalse, _ := p.take("boolean")
	if isA[undefined](v) || s.truth(alsoFalse) && !s.truth(v) {
		return fallback, nil
	}
	return v, nil
}

func join(s *state, v any, p *parameters) (any, error) {
	between, err := p.str("d", "")
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	for i, e := range s.iterate(v) {
		if i > 0 {
			out.WriteString(s.made(between))
		}
		out.WriteString(s.made(s.text(e)))
	}
	return out.String(), nil
}

// onString makes a filter of a string's method; other values count as their text.
func onString(method string) func(s *state, v any, p *parameters) (any, error) {
	return func(s *state, v any, p *parameters) (any, error) { return s.stringMethod(method, s.text(v), p) }
}

func (s *state) method(name string, of any, p *parameters) (any, error) {
	switch of := of.(type) {
	case string:
		return s.stringMethod(name, of, p)
	case Dict:
		return s.dictMethod(name, of, p)
	case undefined:
		return nil, fmt.Errorf("%s is undefined", of.name)
	}
	return nil, fmt.Errorf("this method of %s is %w", describe(of), ErrUnsupported)
}

func (s *state) dictMethod(name string, d Dict, p *parameters) (any, error) {
	s.spend(len(d))
	out := []any{}
	switch name {
	case "get":
		key, err := p.str("key", "")
		fallback, _ := p.take("default")
		if v, ok := d.Get(key); ok {
			return v, err
		}
		return fallback, err
	case "items", "keys", "values":
		for _, e := range d {
			switch name {
			case "items":
				out = append(out, []any{e.Key, e.Value})
			case "keys":
				out = append(out, e.Key)
			default:
				out = append(out, e.Value)
			}
		}
		return out, nil
	}
	return nil, fmt.Errorf("this method of a mapping is %w", ErrUnsupported)
}

func (s *state) stringMethod(name, v string, p *parameters) (any, error) {
	if !s.spend(1 + len(v)/16) {
		return nil, s.err
	}
	switch name {
	case "upper":
		return strings.ToUpper(v), nil
	case "lower":
		return strings.ToLower(v), nil
	case "strip", "lstrip", "rstrip":
		return strip(name, v, p)
	case "startswith", "endswith":
		part, err := p.str("prefix", "")
		if name == "startswith" {
			return strings.HasPrefix(v, part), err
		}
		return strings.HasSuffix(v, part), err
	case "split":
		return s.split(v, p)
	case "replace":
		from, err := p.str("old", "")
		to, err2 := p.str("new", "")
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		n := strings.Count(v, from)
		if !s.spend(n + n*len(to)/64) {
			return nil, s.err
		}
		return strings.ReplaceAll(v, from, to), nil
	}
	return nil, fmt.Errorf("this method of a string is %w", ErrUnsupported)
}

func strip(name, v string, p *parameters) (any, error) {
	cut, err := p.str("chars", "")
	in := func(r rune) bool { return strings.ContainsRune(cut, r) }
	if cut == "" {
		in = func(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }
	}
	if name != "rstrip" {
		v = strings.TrimLeftFunc(v, in)
	}
	if name != "lstrip" {
		v = strings.TrimRightFunc(v, in)
	}
	return v, err
}

func (s *state) split(v string, p *parameters) (any, error) {
	by, err := p.str("sep", "")
	if err != nil {
		return nil, err
	}
	most := -1
	if n, ok := p.take("maxsplit"); ok {
		if most, ok = n.(int); !ok {
			return nil, errors.New("maxsplit is not a whole number")
		}
	}
	if !s.spend(1 + len(v)/4 + strings.Count(v, by)) {
		return nil, s.err
	}
	var parts []string
	switch {
	case by == "" && most < 0:
		parts = strings.Fields(v)
	case by == "":
		return nil, fmt.Errorf("maxsplit without a separator is %w", ErrUnsupported)
	case most < 0:
		parts = strings.Split(v, by)
	default:
		parts = strings.SplitN(v, by, most+1)
	}
	out := make([]any, len(parts))
	for i, part := range parts {
		out[i] = part
	}
	return out, nil
}

// json is tojson as transformers defines it: without escapes for HTML, ", " and ": " between.
func (s *state) json(v any, depth int) (string, error) {
	if depth > maxNested {
		return "", fmt.Errorf("%w: values nested more than %d deep", ErrTooMuch, maxNested)
	}
	if !s.spend(1) {
		return "", s.err
	}
	var b strings.Builder
	write := func(i int, key string, v any) error {
		part, err := s.json(v, depth+1)
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(key)
		b.WriteString(s.made(part))
		return err
	}
	switch v := v.(type) {
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if err := write(i, "", e); err != nil {
				return "", err
			}
		}
		b.WriteByte(']')
		return b.String(), nil
	case Dict:
		b.WriteByte('{')
		for i, e := range v {
			if err := write(i, quote(e.Key)+": ", e.Value); err != nil {
				return "", err
			}
		}
		b.WriteByte('}')
		return b.String(), nil
	case string:
		s.spend(len(v) / 16)
		return quote(v), nil
	case nil:
		return "null", nil
	case bool:
		return strconv.FormatBool(v), nil
	case int, float64:
		return s.text(v), nil
	}
	return "", fmt.Errorf("%s has no JSON", describe(v))
}

func quote(v string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // a string and a buffer do not fail
	return strings.TrimSuffix(b.String(), "\n")
}
