package answer

import (
	"math/big"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// quantity is a clean number with what was written around it.
type quantity struct {
	real
	mantissa real   // before a word such as million
	scaled   bool   // such a word stood there
	percent  bool   // a % sign stood there
	unit     unit   // symbol is empty where there is none
	variable string // the left side of "x = 5", in lower case
	clock    bool   // may be a time of day rather than a ratio, as 1:20
	written  string // such a time as it stands
	pi       bool
}

// form is an interpreted answer.
type form struct {
	text     string    // normalised
	key      string    // the same without unit and variable
	quantity *quantity // nil where it is not a clean number
}

// read interprets an answer.
func read(s string) form {
	if len(s) > maxLength {
		text := strings.ToLower(strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " "))
		return form{text: text, key: text}
	}
	s = trim(unlatex(clean(s)))
	if q, ok := readQuantity(s); ok {
		text := q.decimal()
		if q.rat == nil {
			text = compact(strings.ToLower(s))
		}
		f := form{text: text, key: q.decimal(), quantity: &q}
		if q.percent {
			f.text, f.key = f.text+"%", f.key+"%"
		}
		if q.unit.symbol != "" && q.rat != nil {
			f.text += " " + q.unit.symbol
		}
		if q.clock {
			f.text, f.key = q.written, q.written
		}
		return f
	}
	text := words(s)
	return form{text: text, key: text}
}

// trim drops surrounding space, quotes, emphasis, end punctuation, and brackets around all of a single word.
func trim(s string) string {
	for {
		before := s
		s = strings.Join(strings.Fields(s), " ")
		for _, quote := range []string{`"`, "'"} { // in pairs: A' is another point than A
			if inside, ok := strings.CutPrefix(s, quote); ok && strings.HasSuffix(inside, quote) {
				s = strings.TrimSuffix(inside, quote)
			}
		}
		s = strings.TrimLeft(s, "*^ ")
		s = strings.TrimRight(s, "*.,;:? ")
		if inside, ok := strings.CutSuffix(s, "!"); ok && letters(inside) >= 2 { // 5! and n! are factorials
			s = inside
		}
		if inside, ok := strings.CutPrefix(s, "("); ok && strings.HasSuffix(inside, ")") && isAtom(inside[:len(inside)-1]) {
			s = inside[:len(inside)-1]
		}
		if utf8.RuneCountInString(s) == 2 && strings.HasSuffix(s, ")") { // the label "A)"
			s = s[:len(s)-1]
		}
		if s == before {
			return s
		}
	}
}

var (
	assignment = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9_]{0,11}) ?[=≈] ?(.+)$`)
	about      = regexp.MustCompile(`(?i)^(?:[~≈]|about |around |approximately |approx\.? |roughly )\s*`)
	timesTen   = regexp.MustCompile(`(\d) ?[xX] ?10\^`)
	ratio      = regexp.MustCompile(`^\d{1,12}(?:\.\d{1,12})?(?: ?: ?\d{1,12}(?:\.\d{1,12})?){1,5}$`)
	clock      = regexp.MustCompile(`^\d{1,2}:[0-5]\d$`)
)

// readQuantity interprets all of s as a number, in a few shapes: a word, a ratio a:b, or an expression followed by a
// percent sign, a word of scale, a unit.
func readQuantity(s string) (quantity, bool) {
	var q quantity
	if m := assignment.FindStringSubmatch(s); m != nil {
		q.variable, s = strings.ToLower(m[1]), m[2]
	}
	s = about.ReplaceAllString(s, "")
	s = timesTen.ReplaceAllString(s, "$1*10^")
	s = spelled(s)
	if ratio.MatchString(s) {
		return readRatio(s, q)
	}
	s = q.currency(s)
	x, e, ok := readNumber(s)
	if !ok {
		return q, false
	}
	q.real, q.mantissa, q.pi = x, x, e.pi
	rest := s[e.i:]
	joined := !strings.HasPrefix(rest, " ")
	return q, q.suffix(strings.TrimSpace(rest), joined)
}

// currency takes a sign off the front of s: $5, -$5, €5.
func (q *quantity) currency(s string) string {
	sign := ""
	rest := s
	if strings.HasPrefix(rest, "-") {
		sign, rest = "-", strings.TrimSpace(rest[1:])
	}
	for _, c := range []string{"$", "€", "£", "¥"} {
		if amount, ok := strings.CutPrefix(rest, c); ok {
			q.unit = unit{factor: 1, symbol: c}
			q.unit.dim[money] = 1
			return sign + strings.TrimSpace(amount)
		}
	}
	return s
}

// suffix reads what follows a number, and reports whether all of it was understood.
func (q *quantity) suffix(rest string, joined bool) bool {
	first, after, _ := strings.Cut(rest, " ")
	if power := scale(strings.ToLower(first)); power > 0 {
		x, ok := q.combine('*', real{rat: big.NewRat(power, 1), f: float64(power)})
		if !ok {
			return false
		}
		q.real, q.scaled = x, true
		rest, joined = after, false
	}
	switch strings.ToLower(rest) {
	case "":
		return true
	case "%", "percent", "per cent", "pct":
		q.percent = true
		return q.unit.symbol == ""
	}
	if q.unit.symbol != "" {
		return false
	}
	u, ok := parseUnit(rest, joined)
	q.unit = u
	return ok
}

func scale(word string) int64 {
	switch word {
	case "hundred":
		return 1e2
	case "thousand":
		return 1e3
	case "million":
		return 1e6
	case "billion":
		return 1e9
	case "trillion":
		return 1e12
	}
	return 0
}

// readRatio reads a:b as the number a/b. Longer ratios are no number.
func readRatio(s string, q quantity) (quantity, bool) {
	parts := strings.Split(strings.ReplaceAll(s, " ", ""), ":")
	if len(parts) != 2 {
		return q, false
	}
	a, okA := new(big.Rat).SetString(parts[0])
	b, okB := new(big.Rat).SetString(parts[1])
	if !okA || !okB || b.Sign() == 0 {
		return q, false
	}
	q.clock, q.written = clock.MatchString(s), s
	var ok bool
	q.real, ok = exact(a.Quo(a, b))
	q.mantissa = q.real
	return q, ok
}

// spelled replaces a number in words at the start of s by digits.
func spelled(s string) string {
	fields := strings.Fields(strings.ReplaceAll(s, "-", " "))
	for n := min(len(fields), 3); n > 0; n-- {
		if digits := numberWord(strings.ToLower(strings.Join(fields[:n], " "))); digits != "" {
			return strings.TrimSpace(digits + " " + strings.Join(fields[n:], " "))
		}
	}
	return s
}

func numberWord(w string) string {
	const small = " zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen "
	const tens = " twenty thirty forty fifty sixty seventy eighty ninety "
	switch w {
	case "half", "a half", "one half":
		return "1/2"
	case "one third", "a third":
		return "1/3"
	case "two thirds":
		return "2/3"
	case "quarter", "a quarter", "one quarter", "one fourth", "a fourth":
		return "1/4"
	case "three quarters", "three fourths":
		return "3/4"
	}
	at := func(list, w string) int {
		i := strings.Index(list, " "+w+" ")
		if i < 0 || strings.Contains(w, " ") {
			return -1
		}
		return strings.Count(list[:i+1], " ") - 1
	}
	if i := at(small, w); i >= 0 {
		return itoa(i)
	}
	ten, one, two := strings.Cut(w, " ")
	i := at(tens, ten)
	if i < 0 {
		return ""
	}
	if !two {
		return itoa(10 * (i + 2))
	}
	if j := at(small, one); j >= 1 && j <= 9 {
		return itoa(10*(i+2) + j)
	}
	return ""
}

func itoa(i int) string { return big.NewInt(int64(i)).String() }

// words normalises an answer that is no number: case, articles, subscripts, hyphens between words, spaces around signs.
func words(s string) string {
	if ratio.MatchString(s) {
		return reduce(s)
	}
	fields := strings.Fields(s)
	capitals := 0
	for _, w := range fields {
		if len(w) == 1 && unicode.IsUpper(rune(w[0])) {
			capitals++
		}
	}
	kept := fields[:0:0]
	for i, w := range fields {
		if i+1 < len(fields) && isArticle(w, fields[i+1], i == 0 && capitals == 1) {
			continue
		}
		kept = append(kept, unhyphen(w))
	}
	return compact(strings.ReplaceAll(strings.ToLower(strings.Join(kept, " ")), "_", ""))
}

// isArticle reports whether w, before next, is an article. "A" is one only at the start and where no other capital stands
// alone: it is more often the label of a bar, a point or a choice.
func isArticle(w, next string, start bool) bool {
	switch w {
	case "the", "The", "THE", "an", "An":
		return true
	case "a":
	case "A":
		if !start {
			return false
		}
	default:
		return false
	}
	switch strings.ToLower(next) {
	case "and", "or", "is", "to", "then", "vs", "than":
		return false
	}
	return letters(next) >= 2
}

func letters(s string) int {
	n := 0
	for _, r := range s {
		if unicode.IsLetter(r) {
			n++
		}
	}
	return n
}

// unhyphen splits right-angled, but neither x-y nor 3-5.
func unhyphen(w string) string {
	parts := strings.Split(w, "-")
	for _, p := range parts {
		if letters(p) < 2 || letters(p) != utf8.RuneCountInString(p) {
			return w
		}
	}
	return strings.Join(parts, " ")
}

// compact drops the spaces that do not stand between two letters or digits, and those between a digit and a bracket.
func compact(s string) string {
	runes := []rune(strings.Join(strings.Fields(s), " "))
	var b strings.Builder
	solid := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	for i, r := range runes {
		if r == ' ' && !(i > 0 && i+1 < len(runes) && solid(runes[i-1]) && solid(runes[i+1])) {
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// reduce divides a ratio of whole numbers by its greatest common divisor: 6:4:2 is 3:2:1.
func reduce(s string) string {
	parts := strings.Split(strings.ReplaceAll(s, " ", ""), ":")
	gcd := new(big.Int)
	values := make([]*big.Int, len(parts))
	for i, p := range parts {
		v, ok := new(big.Int).SetString(p, 10)
		if !ok {
			return strings.Join(parts, ":")
		}
		values[i] = v
		gcd.GCD(nil, nil, gcd, v)
	}
	if gcd.Sign() == 0 {
		return strings.Join(parts, ":")
	}
	for i, v := range values {
		parts[i] = v.Quo(v, gcd).String()
	}
	return strings.Join(parts, ":")
}
