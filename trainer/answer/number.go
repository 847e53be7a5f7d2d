package answer

import (
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// real is a number, exact where it can be.
type real struct {
	rat *big.Rat // nil for an irrational number
	f   float64
}

const (
	maxDigits   = 40   // of one numeral
	maxExponent = 60   // of a power
	maxBits     = 2048 // of an exact result
)

func exact(r *big.Rat) (real, bool) {
	if r.Num().BitLen() > maxBits || r.Denom().BitLen() > maxBits {
		return real{}, false
	}
	f, _ := r.Float64()
	return real{rat: r, f: f}, true
}

func inexact(f float64) (real, bool) {
	return real{f: f}, !math.IsNaN(f) && !math.IsInf(f, 0)
}

func (a real) neg() real {
	if a.rat != nil {
		return real{new(big.Rat).Neg(a.rat), -a.f}
	}
	return real{f: -a.f}
}

func (a real) combine(op byte, b real) (real, bool) {
	if a.rat != nil && b.rat != nil {
		r := new(big.Rat)
		switch op {
		case '+':
			return exact(r.Add(a.rat, b.rat))
		case '-':
			return exact(r.Sub(a.rat, b.rat))
		case '*':
			return exact(r.Mul(a.rat, b.rat))
		}
		if b.rat.Sign() == 0 {
			return real{}, false
		}
		return exact(r.Quo(a.rat, b.rat))
	}
	switch op {
	case '+':
		return inexact(a.f + b.f)
	case '-':
		return inexact(a.f - b.f)
	case '*':
		return inexact(a.f * b.f)
	}
	return inexact(a.f / b.f)
}

func (a real) power(e real) (real, bool) {
	if e.rat == nil || math.Abs(e.f) > maxExponent || a.f == 0 && e.f <= 0 {
		return real{}, false
	}
	if a.rat == nil || !e.rat.IsInt() {
		return inexact(math.Pow(a.f, e.f))
	}
	n := int(e.rat.Num().Int64())
	r := real{rat: big.NewRat(1, 1), f: 1}
	for range max(n, -n) {
		var ok bool
		if r, ok = r.combine('*', a); !ok {
			return real{}, false
		}
	}
	if n < 0 {
		return real{rat: big.NewRat(1, 1), f: 1}.combine('/', r)
	}
	return r, true
}

func (a real) root() (real, bool) {
	if a.f < 0 {
		return real{}, false
	}
	if a.rat != nil {
		num, den := new(big.Int).Sqrt(a.rat.Num()), new(big.Int).Sqrt(a.rat.Denom())
		if r := new(big.Rat).SetFrac(num, den); new(big.Rat).Mul(r, r).Cmp(a.rat) == 0 {
			return exact(r)
		}
	}
	return inexact(math.Sqrt(a.f))
}

// expression reads the arithmetic that answers are written in: numerals, mixed numbers, fractions, products, powers,
// roots and pi. Sums are read beside a root or pi, or as a factor in brackets: 3-5 and (3-5) are more likely ranges.
type expression struct {
	s     string
	i     int
	depth int
	sum   [2]bool // a sum stood outside brackets, inside them
	ops   bool    // a product, quotient or power stood outside brackets
	root  bool    // a root or pi occurred
	pi    bool
}

// readNumber reads the longest number at the start of s.
func readNumber(s string) (x real, e *expression, ok bool) {
	e = &expression{s: s}
	x, ok = e.total()
	if (e.sum[0] || e.sum[1] && !e.ops) && !e.root {
		return real{}, e, false
	}
	return x, e, ok
}

func (e *expression) space() {
	for e.i < len(e.s) && e.s[e.i] == ' ' {
		e.i++
	}
}

func (e *expression) peek() byte {
	if e.i < len(e.s) {
		return e.s[e.i]
	}
	return 0
}

// total reads terms joined by + and -. What cannot be read is left.
func (e *expression) total() (real, bool) {
	x, ok := e.signed()
	for ok {
		mark := e.i
		e.space()
		op := e.peek()
		if op != '+' && op != '-' {
			e.i = mark
			break
		}
		e.i++
		e.space()
		y, more := e.term()
		if !more {
			e.i = mark
			break
		}
		e.sum[min(e.depth, 1)] = true
		x, ok = x.combine(op, y)
	}
	return x, ok
}

func (e *expression) signed() (real, bool) {
	e.space()
	sign := e.peek()
	if sign == '-' || sign == '+' {
		e.i++
		e.space()
	}
	x, ok := e.term()
	if sign == '-' {
		x = x.neg()
	}
	return x, ok
}

// term reads factors joined by * and at most one /, or by standing before a root or pi.
func (e *expression) term() (real, bool) {
	x, ok := e.factor()
	divided := false
	for ok {
		mark := e.i
		e.space()
		op := e.peek()
		switch {
		case op == '*' || op == '/':
			if op == '/' && divided {
				return real{}, false // 1/2/2020 is a date
			}
			e.i++
			e.space()
		case e.word("sqrt(") || e.word("pi"):
			op = '*'
		default:
			e.i = mark
			return x, true
		}
		y, more := e.factor()
		if !more {
			e.i = mark
			return x, true
		}
		divided = divided || op == '/'
		e.ops = e.ops || e.depth == 0
		x, ok = x.combine(op, y)
	}
	return x, ok
}

// word reports whether w stands here, not followed by a letter.
func (e *expression) word(w string) bool {
	rest, ok := strings.CutPrefix(e.s[e.i:], w)
	return ok && (strings.HasSuffix(w, "(") || rest == "" || !isLetter(rest[0]))
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func (e *expression) factor() (real, bool) {
	x, ok := e.base()
	if !ok || e.peek() != '^' {
		return x, ok
	}
	mark := e.i
	e.i++
	sign := e.peek()
	if sign == '-' || sign == '+' {
		e.i++
	}
	p, more := e.base()
	if !more {
		e.i = mark
		return x, true
	}
	if sign == '-' {
		p = p.neg()
	}
	e.ops = e.ops || e.depth == 0
	return x.power(p)
}

func (e *expression) base() (real, bool) {
	switch {
	case e.word("sqrt("):
		e.i += len("sqrt(")
		x, ok := e.bracketed()
		if !ok {
			return real{}, false
		}
		e.root = true
		return x.root()
	case e.word("pi"):
		e.i += len("pi")
		e.root, e.pi = true, true
		return real{f: math.Pi}, true
	case e.peek() == '(':
		e.i++
		return e.bracketed()
	}
	return e.numeral()
}

// bracketed reads up to the closing bracket of one that has been read.
func (e *expression) bracketed() (real, bool) {
	if e.depth++; e.depth > maxDepth {
		return real{}, false
	}
	x, ok := e.total()
	e.depth--
	e.space()
	if !ok || e.peek() != ')' {
		return real{}, false
	}
	e.i++
	return x, true
}

var (
	grouped  = regexp.MustCompile(`^\d{1,3}(?:,\d{3})+(?:\.\d+)?|^\d{1,3}(?: \d{3})+(?:\.\d+)?`)
	plain    = regexp.MustCompile(`^(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d{1,2})?`)
	fraction = regexp.MustCompile(`^ (\d+)/(\d+)`)
)

// numeral reads digits, with separators of thousands, a decimal point, an exponent, or a fraction after a space. In
// brackets a comma separates coordinates.
func (e *expression) numeral() (real, bool) {
	rest := e.s[e.i:]
	text := grouped.FindString(rest)
	if e.depth > 0 || text == "" || text[0] == '0' || follows(rest, text, "0123456789,") || strings.Contains(text, " ") && follows(rest, text, "/") {
		text = plain.FindString(rest)
	}
	if text == "" || len(text) > maxDigits {
		return real{}, false
	}
	if exp := strings.IndexAny(text, "eE"); exp >= 0 && len(rest) > len(text) && isLetter(rest[len(text)]) {
		text = text[:exp]
	}
	r, ok := new(big.Rat).SetString(strings.NewReplacer(",", "", " ", "").Replace(text))
	if !ok {
		return real{}, false
	}
	e.i += len(text)
	if m := fraction.FindStringSubmatch(e.s[e.i:]); m != nil && allDigits(text) && len(m[0]) <= maxDigits {
		if part, ok := new(big.Rat).SetString(m[1] + "/" + m[2]); ok {
			e.i += len(m[0])
			r.Add(r, part)
		}
	}
	return exact(r)
}

// follows reports whether one of chars stands right after text in s.
func follows(s, text, chars string) bool {
	return len(s) > len(text) && strings.IndexByte(chars, s[len(text)]) >= 0
}

// decimal writes x exactly: as a decimal where that ends, otherwise as a fraction; an irrational number to 10 digits.
func (a real) decimal() string {
	if a.rat == nil {
		return "~" + strconv.FormatFloat(a.f, 'g', 10, 64)
	}
	if a.rat.IsInt() {
		return a.rat.Num().String()
	}
	if digits, ends := a.rat.FloatPrec(); ends && digits <= 20 {
		return a.rat.FloatString(digits)
	}
	return a.rat.RatString()
}
