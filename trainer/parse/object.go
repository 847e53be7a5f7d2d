package parse

import (
	"strings"
)

// kind is the JSON type of a member.
type kind byte

const (
	kindAbsent kind = iota
	kindString
	kindNumber
	kindWord // true, false or null
	kindOther
)

// member is one value of an object. cut is set where the text ended inside it, or so that more of it may be missing.
type member struct {
	kind kind
	text string // decoded string, or the literal as written; empty for arrays and objects
	cut  bool
}

// object is a flat JSON object, repaired.
type object map[string]member

// complete reports whether all keys are there. A number at the end of a cut-off text counts: level decides on it.
func (o object) complete(keys []string) bool {
	for _, k := range keys {
		if m := o[k]; m.kind == kindAbsent || m.cut && m.kind != kindNumber {
			return false
		}
	}
	return true
}

func (o object) agrees(other object, keys []string) bool {
	for _, k := range keys {
		if o[k] != other[k] {
			return false
		}
	}
	return true
}

// text returns a string or number member as text, trimmed.
func (o object) text(key string) (string, error) {
	m := o[key]
	switch {
	case m.kind == kindAbsent:
		return "", malformed("%q is missing", key)
	case m.cut:
		return "", malformed("%q is cut off", key)
	case m.kind != kindString && m.kind != kindNumber:
		return "", malformed("%q is neither a string nor a number", key)
	}
	return strings.TrimSpace(m.text), nil
}

// stripFence removes a Markdown code fence around all of s.
func stripFence(s string) string {
	s = strings.TrimSpace(s)
	if !strings.HasPrefix(s, "```") {
		return s
	}
	first, body, ok := strings.Cut(s[3:], "\n")
	if !ok {
		first, body = "", s[3:]
	}
	if tag := strings.TrimSpace(first); tag != "" && !strings.EqualFold(tag, "json") {
		return s
	}
	body = strings.TrimSpace(body)
	return strings.TrimSpace(strings.TrimSuffix(body, "```"))
}

// maxDepth bounds nested values.
const maxDepth = 16

// reader scans JSON with the repairs of this package: trailing or missing commas, doubled braces copied from a prompt
// template, a missing end, raw line breaks and bare quotes inside strings, and single LaTeX backslashes.
type reader struct {
	s string
	i int
}

// readObject reads the object that s starts with, and how many bytes it takes. On an error the members read before it are
// returned too.
func readObject(s string) (o object, end int, err error) {
	r := &reader{s: s, i: 1}
	r.space()
	doubled := r.peek() == '{'
	if doubled {
		r.i++
	}
	o, err = r.members()
	if err == nil && doubled {
		r.space()
		if r.peek() == '}' {
			r.i++
		}
	}
	return o, r.i, err
}

// peek returns the next byte, 0 at the end.
func (r *reader) peek() byte {
	if r.i < len(r.s) {
		return r.s[r.i]
	}
	return 0
}

func (r *reader) done() bool { return r.i >= len(r.s) }

func (r *reader) space() { r.i = skipSpace(r.s, r.i) }

func skipSpace(s string, i int) int {
	for i < len(s) && strings.IndexByte(" \t\r\n", s[i]) >= 0 {
		i++
	}
	return i
}

// members reads up to and including the closing brace, or to the end of a cut-off text.
func (r *reader) members() (object, error) {
	o := object{}
	for {
		r.space()
		if len(o) > 0 && r.peek() == ',' {
			r.i++
			r.space()
		}
		if r.done() {
			return o, nil
		}
		if r.peek() == '}' {
			r.i++
			return o, nil
		}
		if r.peek() != '"' {
			return o, malformed("a JSON key was expected at %.20q", r.s[r.i:])
		}
		r.i++
		key, cut := r.str(endsKey)
		r.space()
		if cut || r.done() {
			return o, nil
		}
		if r.peek() != ':' {
			return o, malformed("a colon was expected after %.20q", key)
		}
		r.i++
		value, err := r.value(0)
		if err != nil {
			return o, err
		}
		if old, twice := o[key]; twice && old != value {
			return o, malformed("%.40q is given twice with different values", key)
		}
		if value.kind != kindAbsent {
			o[key] = value
		}
	}
}

// value reads any JSON value. Arrays and objects are skipped: no role is asked for one.
func (r *reader) value(depth int) (member, error) {
	r.space()
	switch c := r.peek(); {
	case r.done():
		return member{}, nil
	case c == '"':
		r.i++
		end := endsMember
		if depth > 0 {
			end = endsElement
		}
		text, cut := r.str(end)
		return member{kindString, text, cut}, nil
	case c == '{' || c == '[':
		return r.skip(depth + 1)
	}
	start := r.i
	for !r.done() && isLiteral(r.s[r.i]) {
		r.i++
	}
	m := member{kindNumber, r.s[start:r.i], r.done()}
	switch strings.ToLower(m.text) {
	case "true", "false", "null":
		m.kind, m.cut = kindWord, false
	default:
		if m.text == "" || strings.Trim(m.text, "0123456789+-.eE") != "" {
			return m, malformed("a JSON value was expected at %.20q", r.s[start:])
		}
	}
	return m, nil
}

func isLiteral(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '+' || c == '-' || c == '.'
}

// skip passes over an array or object.
func (r *reader) skip(depth int) (member, error) {
	if depth > maxDepth {
		return member{}, malformed("values are nested more than %d deep", maxDepth)
	}
	r.i++
	for {
		r.space()
		switch r.peek() {
		case ']', '}':
			r.i++
			return member{kind: kindOther}, nil
		case ',', ':':
			r.i++
			continue
		}
		if r.done() {
			return member{kind: kindOther, cut: true}, nil
		}
		if _, err := r.value(depth); err != nil {
			return member{}, err
		}
	}
}
