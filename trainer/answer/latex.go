package answer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxLength is the longest answer that is interpreted, in bytes. Longer text is compared as it stands.
	maxLength = 1024
	// maxDepth bounds nested groups.
	maxDepth = 24
)

// clean replaces typographic characters by plain ones: signs, spaces, superscripts, vulgar fractions, full-width forms.
func clean(s string) string {
	var b strings.Builder
	var raised bool // inside a run of superscripts
	for _, r := range strings.ToValidUTF8(s, "") {
		if up, ok := superscript(r); ok {
			if !raised {
				b.WriteByte('^')
			}
			raised = true
			b.WriteRune(up)
			continue
		}
		raised = false
		switch {
		case r >= '₀' && r <= '₉':
			r -= '₀' - '0'
		case r >= '！' && r <= '～': // full-width ASCII
			r -= '！' - '!'
		case r == '\u200b' || r == '\u200c' || r == '\u200d' || r == '\ufeff' || r == '\u00ad':
			continue
		case unicode.IsSpace(r) || unicode.IsControl(r):
			r = ' '
		}
		if plain, ok := plainForm(r); ok {
			b.WriteString(plain)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func superscript(r rune) (rune, bool) {
	const raised, level = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-"
	if i := strings.IndexRune(raised, r); i >= 0 {
		return rune(level[utf8.RuneCountInString(raised[:i])]), true
	}
	return 0, false
}

func plainForm(r rune) (string, bool) {
	switch r {
	case '−', '–', '—', '‐', '‑', '‒':
		return "-", true
	case '×', '·', '∙', '⋅', '∗':
		return "*", true
	case '÷', '∕', '⁄':
		return "/", true
	case '√':
		return `\sqrt `, true
	case 'π':
		return `\pi `, true
	case '∞':
		return "infinity", true
	case 'º', '˚', '∘':
		return "°", true
	case '℃':
		return "°C", true
	case '℉':
		return "°F", true
	case 'μ':
		return "µ", true
	case 'Ω':
		return "Ω", true
	case '“', '”', '„':
		return `"`, true
	case '‘', '’', '´', '`':
		return "'", true
	case '∶', '：':
		return ":", true
	case '≃', '≅':
		return "≈", true
	case '½':
		return " 1/2", true
	case '⅓':
		return " 1/3", true
	case '⅔':
		return " 2/3", true
	case '¼':
		return " 1/4", true
	case '¾':
		return " 3/4", true
	case '⅕':
		return " 1/5", true
	case '⅛':
		return " 1/8", true
	case '⅜':
		return " 3/8", true
	case '⅝':
		return " 5/8", true
	case '⅞':
		return " 7/8", true
	}
	return "", false
}

// latex rewrites LaTeX as plain text: \frac{1}{2} as 1/2, x^{2} as x^2, \text{cm} as cm. Plain text passes unchanged but
// for dollar signs that delimit mathematics.
type latex struct {
	s   string
	i   int
	out strings.Builder
}

func unlatex(s string) string {
	l := &latex{s: mathDelimiters(s)}
	l.run(0)
	return l.out.String()
}

// mathDelimiters drops dollar signs in pairs; a single one is a currency sign.
func mathDelimiters(s string) string {
	s = strings.ReplaceAll(s, "$$", "$")
	if n := strings.Count(s, "$") - strings.Count(s, `\$`); n%2 == 1 {
		return s
	}
	const escaped = "\x00"
	s = strings.ReplaceAll(s, `\$`, escaped)
	s = strings.ReplaceAll(s, "$", "")
	return strings.ReplaceAll(s, escaped, "$")
}

// run rewrites up to the closing brace of the group, or the end.
func (l *latex) run(depth int) {
	for l.i < len(l.s) {
		c := l.s[l.i]
		l.i++
		switch c {
		case '}':
			if depth > 0 {
				return
			}
		case '{':
			group := l.inner(depth)
			if strings.Contains(group, ",") && group != "," { // a set written without backslashes, not the LaTeX of 1{,}000
				group = "{" + group + "}"
			}
			l.out.WriteString(group)
		case '^', '_':
			l.script(c, depth)
		case '\\':
			l.command(depth)
		case '~': // a space that does not break, except at the start, where it says "about"
			if depth > 0 || l.out.Len() > 0 {
				c = ' '
			}
			l.out.WriteByte(c)
		default:
			l.out.WriteByte(c)
		}
	}
}

// inner rewrites the group whose opening brace has been read.
func (l *latex) inner(depth int) string {
	if depth >= maxDepth {
		rest := l.s[l.i:]
		l.i = len(l.s)
		return rest
	}
	sub := &latex{s: l.s, i: l.i}
	sub.run(depth + 1)
	l.i = sub.i
	return sub.out.String()
}

// argument rewrites the next group, command or character.
func (l *latex) argument(depth int) string {
	for l.i < len(l.s) && l.s[l.i] == ' ' {
		l.i++
	}
	if l.i >= len(l.s) {
		return ""
	}
	if l.s[l.i] == '{' {
		l.i++
		return strings.TrimSpace(l.inner(depth))
	}
	if l.s[l.i] == '\\' && depth < maxDepth {
		sub := &latex{s: l.s, i: l.i + 1}
		sub.command(depth + 1)
		l.i = sub.i
		return strings.TrimSpace(sub.out.String())
	}
	_, n := utf8.DecodeRuneInString(l.s[l.i:])
	l.i += n
	return l.s[l.i-n : l.i]
}

// radicand is the argument of a root, where a bare number is taken whole: √16 is not √1 followed by 6.
func (l *latex) radicand(depth int) string {
	for l.i < len(l.s) && l.s[l.i] == ' ' {
		l.i++
	}
	end := l.i
	for end < len(l.s) && (isDigit(l.s[end]) || l.s[end] == '.') {
		end++
	}
	if end > l.i {
		s := l.s[l.i:end]
		l.i = end
		return s
	}
	return l.argument(depth)
}

func (l *latex) script(c byte, depth int) {
	if l.i < len(l.s) && l.s[l.i] == '(' {
		l.out.WriteByte(c)
		return
	}
	arg := l.argument(depth)
	switch {
	case c == '^' && (arg == "°" || arg == "o"):
		l.out.WriteString("°")
	case arg == "":
	case isAtom(strings.TrimPrefix(arg, "-")):
		l.out.WriteString(string(c) + arg)
	case arg == "-" || arg == "+": // its number follows, as in 10^-3
		l.out.WriteString(string(c) + arg)
	default:
		l.out.WriteString(string(c) + "(" + arg + ")")
	}
}

// isAtom reports whether s needs no brackets as an operand: letters, digits and points only.
func isAtom(s string) bool {
	for _, r := range s {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '.' {
			return false
		}
	}
	return s != ""
}

func operand(s string) string {
	if isAtom(s) || strings.HasPrefix(s, "(") && strings.IndexByte(s, ')') == len(s)-1 {
		return s
	}
	return "(" + s + ")"
}

// command rewrites the command whose backslash has been read.
func (l *latex) command(depth int) {
	start := l.i
	for l.i < len(l.s) && (l.s[l.i] >= 'a' && l.s[l.i] <= 'z' || l.s[l.i] >= 'A' && l.s[l.i] <= 'Z') {
		l.i++
	}
	name := l.s[start:l.i]
	if name == "" {
		if l.i < len(l.s) {
			l.symbol(l.s[l.i])
			l.i++
		}
		return
	}
	switch name {
	case "frac", "dfrac", "tfrac", "cfrac", "nicefrac", "sfrac":
		l.fraction(operand(l.argument(depth)), operand(l.argument(depth)))
	case "sqrt":
		l.root(depth)
	case "text", "textbf", "textit", "textrm", "textsf", "texttt", "mathrm", "mathbf", "mathit", "mathsf", "mbox",
		"operatorname", "boxed", "fbox", "emph", "overline", "bar", "ce", "bm", "boldsymbol", "mathbb", "mathcal", "ensuremath":
		l.out.WriteString(l.argument(depth))
	case "left", "right", "big", "Big", "bigg", "Bigg", "bigl", "bigr", "displaystyle", "textstyle", "limits", "rm", "bf", "it":
	case "quad", "qquad", "space", "enspace", "thinspace":
		l.out.WriteByte(' ')
	case "cdot", "times", "ast":
		l.out.WriteByte('*')
	case "div":
		l.out.WriteByte('/')
	case "circ", "degree", "degrees", "textdegree":
		l.out.WriteString("°")
	case "percent":
		l.out.WriteByte('%')
	case "colon", "ratio":
		l.out.WriteByte(':')
	case "approx", "sim", "simeq", "cong":
		l.out.WriteString("≈")
	case "infty":
		l.out.WriteString("infinity")
	case "le", "leq", "leqslant":
		l.out.WriteString("<=")
	case "ge", "geq", "geqslant":
		l.out.WriteString(">=")
	case "ne", "neq":
		l.out.WriteString("!=")
	case "pm":
		l.out.WriteString("±")
	case "Omega", "ohm":
		l.out.WriteString("Ω")
	case "mu", "micro":
		l.out.WriteString("µ")
		for l.i < len(l.s) && l.s[l.i] == ' ' { // LaTeX swallows the space of "\mu m"
			l.i++
		}
	case "dots", "ldots", "cdots":
		l.out.WriteString("...")
	case "lbrace":
		l.out.WriteByte('{')
	case "rbrace":
		l.out.WriteByte('}')
	default:
		l.word(name)
	}
}

// word writes a named function or letter, such as \alpha, apart from the letters around it.
func (l *latex) word(name string) {
	if last, _ := utf8.DecodeLastRuneInString(l.out.String()); unicode.IsLetter(last) {
		l.out.WriteByte(' ')
	}
	l.out.WriteString(name)
	if l.i < len(l.s) && (l.s[l.i] == '\\' || isDigit(l.s[l.i])) {
		l.out.WriteByte(' ')
	}
}

// fraction writes a/b. After a whole number it is a mixed number if a and b are numerals, otherwise a product.
func (l *latex) fraction(a, b string) {
	before := strings.TrimRight(l.out.String(), " ")
	if before != "" && isDigit(before[len(before)-1]) {
		if allDigits(a) && allDigits(b) {
			l.out.WriteByte(' ')
		} else {
			l.out.WriteByte('*')
		}
	}
	l.out.WriteString(a + "/" + b)
}

func (l *latex) root(depth int) {
	index := ""
	if l.i < len(l.s) && l.s[l.i] == '[' {
		if end := strings.IndexByte(l.s[l.i:], ']'); end > 0 {
			index = strings.TrimSpace(l.s[l.i+1 : l.i+end])
			l.i += end + 1
		}
	}
	arg := l.radicand(depth)
	switch {
	case index == "" || index == "2":
		l.out.WriteString("sqrt(" + arg + ")")
	default:
		l.out.WriteString("(" + arg + ")^(1/" + index + ")")
	}
}

func (l *latex) symbol(c byte) {
	switch c {
	case ',', '!': // thin spaces, as between groups of thousands
	case ';', ':', ' ', '\\', '/':
		l.out.WriteByte(' ')
	case '(', ')', '[', ']': // delimiters of mathematics
	default:
		l.out.WriteByte(c)
	}
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func allDigits(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return s != ""
}
