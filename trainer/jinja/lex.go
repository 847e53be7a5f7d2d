package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind int

const (
	tokenEOF tokenKind = iota
	tokenData
	tokenBlock    // {%
	tokenBlockEnd // %}
	tokenPrint    // {{
	tokenPrintEnd // }}
	tokenName
	tokenInt
	tokenFloat
	tokenString // text is the string's value
	tokenOperator
)

type token struct {
	kind tokenKind
	text string
	line int
}

type lexer struct {
	source    string
	at        int
	tokens    []token
	counted   int  // bytes looked at for line breaks
	newlines  int  // in them
	lineStart bool // what comes next begins a line, as far as stripping is concerned
}

func lex(source string) ([]token, error) {
	source = strings.ReplaceAll(source, "\r\n", "\n")
	l := &lexer{source: strings.TrimSuffix(source, "\n"), lineStart: true}
	for l.at < len(l.source) {
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	l.add(tokenEOF, "the end of the template")
	return l.tokens, nil
}

func (l *lexer) add(kind tokenKind, text string) {
	l.tokens = append(l.tokens, token{kind, text, l.line()})
}

// line is the line that l.at is in. Each byte is looked at once.
func (l *lexer) line() int {
	l.newlines += strings.Count(l.source[l.counted:l.at], "\n")
	l.counted = l.at
	return l.newlines + 1
}

// next reads data up to a tag, and the tag.
func (l *lexer) next() error {
	rest := l.source[l.at:]
	i := 0
	for ; i < len(rest); i++ {
		if rest[i] == '{' && i+1 < len(rest) && strings.IndexByte("{%#", rest[i+1]) >= 0 {
			break
		}
	}
	data := rest[:i]
	if i == len(rest) {
		l.at = len(l.source)
		if data != "" {
			l.add(tokenData, data)
		}
		return nil
	}
	opening, control := rest[i+1], byte(0)
	if i+2 < len(rest) && (rest[i+2] == '-' || rest[i+2] == '+') {
		control = rest[i+2]
	}
	switch {
	case control == '-':
		data = strings.TrimRightFunc(data, unicode.IsSpace)
	case opening != '{' && control != '+':
		data = l.stripLine(data)
	}
	if data != "" {
		l.add(tokenData, data)
	}
	l.at += i + 2
	if control != 0 {
		l.at++
	}
	l.lineStart = false
	if opening == '#' {
		return l.comment()
	}
	return l.tag(opening)
}

// stripLine removes the indentation before a block or comment that begins its line.
func (l *lexer) stripLine(data string) string {
	from := strings.LastIndexByte(data, '\n') + 1
	if (from > 0 || l.lineStart) && strings.Trim(data[from:], " \t\v\f\r") == "" {
		return data[:from]
	}
	return data
}

func (l *lexer) comment() error {
	n := strings.Index(l.source[l.at:], "#}")
	if n < 0 {
		return fmt.Errorf("line %d: a comment without end", l.line())
	}
	control := byte(0)
	if n > 0 {
		control = l.source[l.at+n-1]
	}
	l.at += n + 2
	l.afterTag(control, true)
	return nil
}

// afterTag drops the white space that a tag's end takes with it.
func (l *lexer) afterTag(control byte, block bool) {
	rest := l.source[l.at:]
	switch {
	case control == '-':
		l.at += len(rest) - len(strings.TrimLeftFunc(rest, unicode.IsSpace))
	case block && control != '+' && strings.HasPrefix(rest, "\n"):
		l.at++
	}
	l.lineStart = l.at > 0 && l.source[l.at-1] == '\n'
}

// operators, the longer before their beginnings.
var operators = []string{"==", "!=", "<=", ">=", "//", "**", "+", "-", "*", "/", "%", "~", "<", ">", "=", ".", ",", ":", "|", "(", ")", "[", "]", "{", "}"}

func (l *lexer) tag(opening byte) error {
	kind, end, endKind := tokenBlock, "%}", tokenBlockEnd
	if opening == '{' {
		kind, end, endKind = tokenPrint, "}}", tokenPrintEnd
	}
	l.add(kind, "{"+string(opening))
	nested := 0
	for l.at < len(l.source) {
		rest := l.source[l.at:]
		c := rest[0]
		closing := rest
		if c == '-' || c == '+' {
			closing = rest[1:]
		}
		switch {
		case unicode.IsSpace(rune(c)):
			l.at++
		case nested == 0 && strings.HasPrefix(closing, end):
			l.add(endKind, end)
			l.at += len(rest) - len(closing) + len(end)
			l.afterTag(c, opening != '{')
			return nil
		case c == '"' || c == '\'':
			if err := l.quoted(c); err != nil {
				return err
			}
		case c >= '0' && c <= '9':
			l.number()
		case c == '_' || unicode.IsLetter(rune(c)):
			n := strings.IndexFunc(rest, func(r rune) bool {
				return r != '_' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
			})
			if n < 0 {
				n = len(rest)
			}
			if n == 0 {
				return fmt.Errorf("line %d: a name outside ASCII: %w", l.line(), ErrUnsupported)
			}
			l.add(tokenName, rest[:n])
			l.at += n
		default:
			op := ""
			for _, o := range operators {
				if strings.HasPrefix(rest, o) {
					op = o
					break
				}
			}
			switch op {
			case "":
				r, _ := utf8.DecodeRuneInString(rest)
				return fmt.Errorf("line %d: unexpected character %q", l.line(), r)
			case "(", "[", "{":
				nested++
			case ")", "]", "}":
				nested--
			}
			l.add(tokenOperator, op)
			l.at += len(op)
		}
	}
	return fmt.Errorf("line %d: a tag without %s", l.line(), end)
}

func (l *lexer) number() {
	rest := l.source[l.at:]
	n, kind := 0, tokenInt
	for n < len(rest) && (rest[n] >= '0' && rest[n] <= '9' || rest[n] == '.' && kind == tokenInt && n+1 < len(rest) && rest[n+1] >= '0' && rest[n+1] <= '9') {
		if rest[n] == '.' {
			kind = tokenFloat
		}
		n++
	}
	l.add(kind, rest[:n])
	l.at += n
}

// quoted reads a string in Python's notation.
func (l *lexer) quoted(quote byte) error {
	var b strings.Builder
	rest := l.source[l.at+1:]
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == quote:
			l.add(tokenString, b.String())
			l.at += i + 2
			return nil
		case c != '\\' || i+1 == len(rest):
			b.WriteByte(c)
		default:
			i++
			i += unescape(&b, rest[i:])
		}
	}
	return fmt.Errorf("line %d: a string without its closing %c", l.line(), quote)
}

// unescape writes what follows a backslash and returns how many bytes beyond the first it took.
func unescape(b *strings.Builder, rest string) int {
	if at := strings.IndexByte("ntr\\'\"abfv0", rest[0]); at >= 0 {
		b.WriteByte("\n\t\r\\'\"\a\b\f\v\x00"[at])
		return 0
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[rest[0]]
	if digits > 0 && len(rest) > digits {
		if v, err := strconv.ParseUint(rest[1:1+digits], 16, 32); err == nil && v <= unicode.MaxRune {
			b.WriteRune(rune(v))
			return digits
		}
	}
	if rest[0] == '\n' { // a line that is continued
		return 0
	}
	b.WriteByte('\\') // Python keeps what it does not know
	b.WriteByte(rest[0])
	return 0
}
