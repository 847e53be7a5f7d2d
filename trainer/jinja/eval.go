package jinja

import (
	"fmt"
	"math"
	"strings"
)

// state is one rendering. Its first error sticks: statements and expressions do nothing more from then on.
type state struct {
	out    *strings.Builder
	scopes []map[string]any // of loops, the innermost last
	work   int
	err    error
}

// undefined is the value of what is not there. It is false, empty and has no attributes.
type undefined struct{ name string }

// namespace is what {% set ns.name = ... %} changes.
type namespace struct{ values map[string]any }

func (s *state) fail(err error) any {
	if s.err == nil {
		s.err = err
	}
	return undefined{}
}

func (s *state) failAt(t token, format string, args ...any) any {
	return s.fail(fmt.Errorf("line %d: %w", t.line, fmt.Errorf(format, args...)))
}

// spend accounts for n units of work and says whether rendering goes on.
func (s *state) spend(n int) bool {
	if s.work += n; s.work > maxWork || n < 0 {
		s.fail(fmt.Errorf("%w: more than %d units of work", ErrTooMuch, maxWork))
	}
	return s.err == nil
}

// made accounts for a string.
func (s *state) made(v string) string {
	if !s.spend(1 + len(v)/64) {
		return ""
	}
	return v
}

type statement interface {
	run(s *state) flow
}

// flow is how a statement ended.
type flow int

const (
	goOn flow = iota
	breakLoop
	continueLoop
)

func (s *state) run(body []statement) flow {
	for _, st := range body {
		if !s.spend(1) {
			return breakLoop
		}
		if f := st.run(s); f != goOn {
			return f
		}
	}
	return goOn
}

type (
	text   string
	print  struct{ value expression }
	group  []statement
	jump   bool // break, or else continue
	branch struct {
		condition       expression
		then, otherwise []statement
	}
	loop struct {
		targets         []string
		over, filter    expression // filter may be nil
		body, otherwise []statement
	}
	assignment struct {
		names     []string
		attribute string      // of a namespace; may be empty
		value     expression  // nil: what body writes
		body      []statement // of a block
	}
)

func (t text) run(s *state) flow {
	s.out.WriteString(s.made(string(t)))
	return goOn
}

func (p print) run(s *state) flow {
	s.out.WriteString(s.made(s.text(p.value.eval(s))))
	return goOn
}

func (g group) run(s *state) flow { return s.run(g) }

func (j jump) run(*state) flow {
	if j {
		return breakLoop
	}
	return continueLoop
}

func (b *branch) run(s *state) flow {
	if s.truth(b.condition.eval(s)) {
		return s.run(b.then)
	}
	return s.run(b.otherwise)
}

func (l *loop) run(s *state) flow {
	items := s.iterate(l.over.eval(s))
	if l.filter != nil {
		var kept []any
		for _, v := range items {
			if s.enter(l.targets, v, nil); s.truth(l.filter.eval(s)) {
				kept = append(kept, v)
			}
			s.leave()
		}
		items = kept
	}
	if len(items) == 0 {
		return s.run(l.otherwise)
	}
	for i, v := range items {
		if !s.spend(1) {
			return breakLoop
		}
		s.enter(l.targets, v, loopOf(items, i))
		f := s.run(l.body)
		s.leave()
		if f == breakLoop {
			break
		}
	}
	return goOn
}

// loopOf is what the variable loop holds in an iteration.
func loopOf(items []any, i int) Dict {
	n := len(items)
	d := Dict{{"index", i + 1}, {"index0", i}, {"first", i == 0}, {"last", i == n-1}, {"length", n}, {"revindex", n - i}, {"revindex0", n - 1 - i}}
	if i > 0 {
		d = append(d, Entry{"previtem", items[i-1]})
	}
	if i < n-1 {
		d = append(d, Entry{"nextitem", items[i+1]})
	}
	return d
}

func (s *state) enter(targets []string, v any, loop Dict) {
	scope := map[string]any{}
	s.scopes = append(s.scopes, scope)
	if loop != nil {
		scope["loop"] = loop
	}
	s.assign(targets, v)
}

func (s *state) leave() { s.scopes = s.scopes[:len(s.scopes)-1] }

// assign gives names in the innermost scope their values, taking a list apart for several.
func (s *state) assign(names []string, v any) {
	scope := s.scopes[len(s.scopes)-1]
	if len(names) == 1 {
		scope[names[0]] = v
		return
	}
	values, ok := v.([]any)
	if !ok || len(values) != len(names) {
		s.fail(fmt.Errorf("%s cannot be taken apart into %s", describe(v), strings.Join(names, ", ")))
		return
	}
	for i, name := range names {
		scope[name] = values[i]
	}
}

func (a *assignment) run(s *state) flow {
	var v any
	if a.value != nil {
		v = a.value.eval(s)
	} else {
		outer := s.out
		s.out = &strings.Builder{}
		s.run(a.body)
		v, s.out = s.out.String(), outer
	}
	if a.attribute == "" {
		s.assign(a.names, v)
		return goOn
	}
	n, ok := s.lookup(a.names[0]).(*namespace)
	if !ok {
		s.fail(fmt.Errorf("set %s.%s: %s is not a namespace", a.names[0], a.attribute, a.names[0]))
		return breakLoop
	}
	n.values[a.attribute] = v
	return goOn
}

func (s *state) lookup(name string) any {
	for i := len(s.scopes) - 1; i >= 0; i-- {
		if v, ok := s.scopes[i][name]; ok {
			return v
		}
	}
	return undefined{name}
}

type expression interface {
	eval(s *state) any
}

type (
	literal   struct{ value any }
	variable  string
	listOf    []expression
	mappingOf [][2]expression
	negation  struct{ of expression }
	logical   struct {
		left, right expression
		or          bool
	}
	choice     struct{ then, condition, otherwise expression }
	comparison struct {
		first     expression
		operators []token
		operands  []expression
	}
	operation struct {
		operator    token
		left, right expression
	}
	item struct {
		at      token
		of, key expression
	}
	slice struct {
		at     token
		of     expression
		bounds [3]expression // nil where left out
	}
	condition struct {
		test string
		of   expression
	}
	call struct {
		at        token
		function  string
		receiver  expression // nil for a function
		filter    bool       // or else a method
		arguments arguments
	}
	arguments struct {
		positional []expression
		named      []named
	}
	named struct {
		name  string
		value expression
	}
)

func (l literal) eval(*state) any { return l.value }

func (v variable) eval(s *state) any {
	s.spend(1)
	return s.lookup(string(v))
}

func (l listOf) eval(s *state) any {
	out := make([]any, len(l))
	for i, e := range l {
		s.spend(1)
		out[i] = e.eval(s)
	}
	return out
}

func (m mappingOf) eval(s *state) any {
	out := Dict{}
	for _, e := range m {
		s.spend(1 + len(out))
		key, ok := e[0].eval(s).(string)
		if !ok {
			return s.fail(fmt.Errorf("a key that is not a string is %w", ErrUnsupported))
		}
		out = out.with(key, e[1].eval(s))
	}
	return out
}

// with replaces or appends an entry.
func (d Dict) with(key string, v any) Dict {
	for i := range d {
		if d[i].Key == key {
			d[i].Value = v
			return d
		}
	}
	return append(d, Entry{key, v})
}

func (n negation) eval(s *state) any { return !s.truth(n.of.eval(s)) }

func (l *logical) eval(s *state) any {
	s.spend(1)
	left := l.left.eval(s)
	if s.truth(left) == l.or {
		return left
	}
	return l.right.eval(s)
}

func (c *choice) eval(s *state) any {
	if s.spend(1); s.truth(c.condition.eval(s)) {
		return c.then.eval(s)
	}
	return c.otherwise.eval(s)
}

func (c *comparison) eval(s *state) any {
	left := c.first.eval(s)
	for i, op := range c.operators {
		s.spend(1)
		right := c.operands[i].eval(s)
		if s.err != nil || !s.compare(op, left, right) {
			return false
		}
		left = right
	}
	return true
}

func (s *state) compare(op token, a, b any) bool {
	switch op.text {
	case "==":
		return s.equal(a, b, 0)
	case "!=":
		return !s.equal(a, b, 0)
	case "in":
		return s.contains(op, b, a)
	case "not in":
		return !s.contains(op, b, a)
	}
	var order int
	x, okX := number(a)
	y, okY := number(b)
	u, okU := a.(string)
	v, okV := b.(string)
	switch {
	case okX && okY && x < y:
		order = -1
	case okX && okY && x > y:
		order = 1
	case okX && okY:
	case okU && okV:
		s.spend(min(len(u), len(v)) / 64)
		order = strings.Compare(u, v)
	default:
		s.failAt(op, "%s and %s cannot be compared by %s", describe(a), describe(b), op.text)
	}
	return op.text == "<" && order < 0 || op.text == "<=" && order <= 0 || op.text == ">" && order > 0 || op.text == ">=" && order >= 0
}

func (s *state) equal(a, b any, depth int) bool {
	if !s.spend(1) {
		return false
	}
	if depth > maxNested {
		s.fail(fmt.Errorf("%w: values nested more than %d deep are compared", ErrTooMuch, maxNested))
		return false
	}
	switch a := a.(type) {
	case string:
		b, ok := b.(string)
		s.spend(len(a) / 64)
		return ok && a == b
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !s.equal(a[i], b[i], depth+1) {
				return false
			}
		}
		return true
	case Dict:
		b, ok := b.(Dict)
		if !ok || len(a) != len(b) {
			return false
		}
		for _, e := range a {
			s.spend(len(b))
			if v, ok := b.Get(e.Key); !ok || !s.equal(e.Value, v, depth+1) {
				return false
			}
		}
		return true
	case undefined:
		_, ok := b.(undefined)
		return ok
	case *namespace:
		return any(a) == b
	case nil:
		return b == nil
	}
	x, okX := number(a)
	y, okY := number(b)
	return okX && okY && x == y
}

func (s *state) contains(op token, in, v any) bool {
	switch in := in.(type) {
	case string:
		part, ok := v.(string)
		if !ok {
			s.failAt(op, "%s is sought in a string", describe(v))
		}
		return ok && s.spend(1+len(in)/64) && strings.Contains(in, part)
	case []any:
		for _, e := range in {
			if s.equal(e, v, 0) {
				return true
			}
		}
		return false
	case Dict:
		s.spend(len(in))
		key, ok := v.(string)
		_, found := in.Get(key)
		return ok && found
	case undefined:
		return false
	}
	s.failAt(op, "%s is not something to search", describe(in))
	return false
}

func (o *operation) eval(s *state) any {
	if !s.spend(1) {
		return undefined{}
	}
	a, b := o.left.eval(s), o.right.eval(s)
	if o.operator.text == "~" {
		return s.join(s.text(a), s.text(b))
	}
	if u, ok := a.(string); ok && o.operator.text == "+" {
		if v, ok := b.(string); ok {
			return s.join(u, v)
		}
	}
	if u, ok := a.([]any); ok && o.operator.text == "+" {
		if v, ok := b.([]any); ok && s.spend(len(u)+len(v)) {
			return append(append([]any{}, u...), v...)
		}
	}
	x, okX := a.(int)
	y, okY := b.(int)
	if okX && okY && o.operator.text != "/" {
		return o.integers(s, x, y)
	}
	f, okF := number(a)
	g, okG := number(b)
	if !okF || !okG || o.operator.text == "//" || o.operator.text == "%" {
		return s.failAt(o.operator, "%s %s %s cannot be computed", describe(a), o.operator.text, describe(b))
	}
	switch o.operator.text {
	case "+":
		return f + g
	case "-":
		return f - g
	case "*":
		return f * g
	}
	if g == 0 {
		return s.failAt(o.operator, "division by zero")
	}
	return f / g
}

func (s *state) join(a, b string) any {
	if !s.spend((len(a) + len(b)) / 64) {
		return ""
	}
	return a + b
}

func (o *operation) integers(s *state, x, y int) any {
	switch o.operator.text {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	}
	if y == 0 {
		return s.failAt(o.operator, "division by zero")
	}
	floor := int(math.Floor(float64(x) / float64(y)))
	if o.operator.text == "//" {
		return floor
	}
	return x - floor*y
}

// number is the value of a number; truth values count as 0 and 1, as in Python.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

func (i *item) eval(s *state) any {
	if !s.spend(1) {
		return undefined{}
	}
	of, key := i.of.eval(s), i.key.eval(s)
	name, _ := key.(string)
	switch of := of.(type) {
	case Dict:
		s.spend(len(of))
		if v, ok := of.Get(name); ok {
			return v
		}
		return undefined{name}
	case *namespace:
		if v, ok := of.values[name]; ok {
			return v
		}
		return undefined{name}
	case []any:
		if n, ok := index(key, len(of)); ok {
			return of[n]
		}
		return undefined{"an element beyond the list"}
	case string:
		r := s.runes(of)
		if n, ok := index(key, len(r)); ok {
			return string(r[n])
		}
		return undefined{name}
	case undefined:
		return s.failAt(i.at, "%s is undefined", of.name)
	}
	return undefined{name}
}

func (s *state) runes(v string) []rune {
	if !s.spend(1 + len(v)/4) {
		return nil
	}
	return []rune(v)
}

// index counts from the end where it is negative.
func index(key any, n int) (int, bool) {
	i, ok := key.(int)
	if i < 0 {
		i += n
	}
	return i, ok && i >= 0 && i < n
}

func (sl *slice) eval(s *state) any {
	if !s.spend(1) {
		return undefined{}
	}
	var bounds [3]*int
	for i, e := range sl.bounds {
		if e == nil {
			continue
		}
		switch v := e.eval(s).(type) {
		case int:
			bounds[i] = &v
		case nil:
		default:
			return s.failAt(sl.at, "%s is not a slice's bound", describe(v))
		}
	}
	switch of := sl.of.eval(s).(type) {
	case []any:
		out := []any{}
		for _, i := range positions(bounds, len(of)) {
			out = append(out, of[i])
		}
		s.spend(len(of))
		return out
	case string:
		r := s.runes(of)
		var out []rune
		for _, i := range positions(bounds, len(r)) {
			out = append(out, r[i])
		}
		return s.made(string(out))
	default:
		return s.failAt(sl.at, "%s cannot be sliced", describe(of))
	}
}

// positions are the indices of Python's slice [start:stop:step] of n elements; a step of 0 has none.
func positions(bounds [3]*int, n int) (out []int) {
	step := 1
	if bounds[2] != nil {
		step = min(max(*bounds[2], -n-1), n+1)
	}
	least, most, start, stop := 0, n, 0, n
	if step < 0 {
		least, most, start, stop = -1, n-1, n-1, -1
	}
	clip := func(b *int, unset int) int {
		if b == nil {
			return unset
		}
		i := *b
		if i < 0 {
			i += n
		}
		return min(max(i, least), most)
	}
	start, stop = clip(bounds[0], start), clip(bounds[1], stop)
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		out = append(out, i)
	}
	return out
}

// truth is Python's.
func (s *state) truth(v any) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case Dict:
		return len(v) > 0
	}
	n, ok := number(v)
	return !ok || n != 0
}

// iterate returns what a loop goes over: elements, keys or characters.
func (s *state) iterate(v any) []any {
	var out []any
	switch v := v.(type) {
	case []any:
		return v
	case Dict:
		for _, e := range v {
			out = append(out, e.Key)
		}
	case string:
		s.spend(len(v))
		if s.err == nil {
			for _, r := range v {
				out = append(out, string(r))
			}
		}
	case undefined:
	default:
		s.fail(fmt.Errorf("%s is not something to loop over", describe(v)))
	}
	s.spend(len(out))
	return out
}
