package parse

import (
	"strconv"
	"strings"
	"unicode/utf16"
)

// endsKey, endsMember and endsElement decide whether the quote before s[i:] closes a key, a member's value or a value
// inside an array or nested object. Models leave quotes inside strings bare; such a quote is followed by neither.
func endsKey(s string, i int) bool {
	i = skipSpace(s, i)
	return i >= len(s) || s[i] == ':'
}

func endsMember(s string, i int) bool {
	i = skipSpace(s, i)
	if i < len(s) && s[i] == ',' {
		i = skipSpace(s, i+1)
	}
	if i >= len(s) || s[i] == '}' {
		return true
	}
	return s[i] == '"' && keyFollows(s[i+1:])
}

func endsElement(s string, i int) bool {
	i = skipSpace(s, i)
	return i >= len(s) || strings.IndexByte(",]}:", s[i]) >= 0
}

// keyFollows reports whether s is a short identifier, its closing quote and a colon, as far as a cut-off text goes.
func keyFollows(s string) bool {
	const longest = 48
	for i := 0; i < len(s) && i < longest; i++ {
		if s[i] == '"' {
			j := skipSpace(s, i+1)
			return i > 0 && (j >= len(s) || s[j] == ':')
		}
		if !isLiteral(s[i]) && s[i] != '_' {
			return false
		}
	}
	return len(s) < longest
}

// str reads a string whose opening quote has been read, up to the quote for which ends holds. cut reports that the text
// ended first.
func (r *reader) str(ends func(string, int) bool) (text string, cut bool) {
	var b strings.Builder
	for !r.done() {
		c := r.s[r.i]
		r.i++
		switch {
		case c == '"' && ends(r.s, r.i):
			return b.String(), false
		case c == '\\':
			r.escape(&b)
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

// escape reads what follows a backslash. Where JSON's escape is more likely a LaTeX command written with one backslash
// (\frac is form feed and "rac" to JSON), the backslash is kept.
func (r *reader) escape(b *strings.Builder) {
	c := r.peek()
	switch c {
	case '"', '\\', '/':
		b.WriteByte(c)
		r.i++
		return
	case 'u':
		if x, ok := r.unicode(); ok {
			b.WriteRune(x)
			return
		}
	case 'n', 't', 'r':
		if !isLaTeX(r.s[r.i:]) {
			b.WriteByte(map[byte]byte{'n': '\n', 't': '\t', 'r': '\r'}[c])
			r.i++
			return
		}
	}
	b.WriteByte('\\')
}

// unicode reads the four hexadecimal digits of \u, and the second half of a surrogate pair.
func (r *reader) unicode() (rune, bool) {
	x, ok := hex4(r.s[r.i:])
	if !ok {
		return 0, false
	}
	r.i += 5
	if utf16.IsSurrogate(x) {
		if rest := r.s[r.i:]; strings.HasPrefix(rest, `\u`) {
			if low, ok := hex4(rest[1:]); ok {
				if pair := utf16.DecodeRune(x, low); pair != '\uFFFD' {
					r.i += 6
					return pair, true
				}
			}
		}
		return '\uFFFD', true
	}
	return x, true
}

// hex4 reads "uXXXX".
func hex4(s string) (rune, bool) {
	if len(s) < 5 {
		return 0, false
	}
	x, err := strconv.ParseUint(s[1:5], 16, 16)
	return rune(x), err == nil
}

// isLaTeX reports whether s starts with the name of a LaTeX command in n, r or t, which are also JSON escapes. (Those in b
// and f always mean LaTeX: nobody writes a backspace or a form feed.)
func isLaTeX(s string) bool {
	end := 0
	for end < len(s) && (s[end] >= 'a' && s[end] <= 'z' || s[end] >= 'A' && s[end] <= 'Z') {
		end++
	}
	switch s[:end] {
	case "nabla", "ne", "neg", "neq", "nleq", "ngeq", "nmid", "not", "notin", "nparallel", "nu",
		"rVert", "rangle", "rbrace", "rceil", "rfloor", "rho", "right", "rightarrow", "rightleftharpoons", "rm", "rvert",
		"tan", "tanh", "tau", "text", "textbf", "textit", "textrm", "textsf", "tfrac", "therefore", "theta", "tilde", "times",
		"to", "top", "triangle", "triangleq":
		return true
	}
	return false
}
