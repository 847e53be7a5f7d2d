package windtunnel

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// Solution is the truth about a question.
type Solution struct {
	Reasoning string // every step written out; ends with the reason where the question is not grounded
	Answer    string // number, letter or colour; "none" where the question is not grounded
	Grounded  bool   // every premise holds in the figure and the answer is unique
}

// NoAnswer is the answer to a question whose premises fail.
const NoAnswer = "none"

// Solve answers a question exactly, over the rounded values that the figure shows.
func (s Scene) Solve(q Question) Solution {
	chain, answer := s.chain(q)
	if answer == "" {
		return Solution{Reasoning: join(chain), Answer: NoAnswer}
	}
	return Solution{Reasoning: join(chain), Answer: answer, Grounded: true}
}

// solver builds one chain of statements.
type solver struct {
	Scene
	chain []statement
}

// chain is the canonical reasoning and the answer, "" where a premise fails and the chain ends with a refusal.
func (s Scene) chain(q Question) ([]statement, string) {
	v := solver{Scene: s}
	answer := v.solve(q)
	return v.chain, answer
}

func (v *solver) say(s statement) { v.chain = append(v.chain, s) }

func (v *solver) refuse(format string, args ...any) string {
	v.say(statement{kind: refusal, head: fmt.Sprintf(format, args...)})
	return ""
}

func (v *solver) solve(q Question) string {
	if q.Noun != v.Kind {
		return v.refuse("There are no %s", plurals[q.Noun])
	}
	var refs [3]Entity
	for i := range q.Form.refs() {
		e, ok := v.find(q.Refs[i])
		if !ok && q.Refs[i].Letter != 0 {
			return v.refuse("There is no %s %c", q.Noun.Noun(), q.Refs[i].Letter)
		}
		if !ok {
			return v.refuse("There is no %s %s", q.Refs[i].Color, q.Noun.Noun())
		}
		refs[i] = e
	}
	switch q.Form {
	case AskColor, AskLetter, AskCount, AskColumn:
		return v.look(q, refs[0])
	case AskLargest, AskSmallest, AskRange, AskTotal, AskAboveMean:
		return v.run(q.Form)
	case AskAbove:
		return v.tally(10 * q.Number)
	case AskSecond, AskThird, AskMedian:
		return v.rank(q.Form)
	}
	return v.combine(q, refs)
}

func (v *solver) look(q Question, e Entity) string {
	switch q.Form {
	case AskColor:
		v.say(statement{fact, e.Name(), e.Color.String(), ""})
		return e.Color.String()
	case AskColumn:
		v.say(statement{fact, e.Name(), "column " + strconv.Itoa(e.Column), ""})
		return strconv.Itoa(e.Column)
	case AskCount:
		return v.enumerate("count", v.Entities)
	}
	if v.Kind == Scatter {
		return v.refuse("There are no letters")
	}
	e, ok := v.find(Ref{Color: q.Color})
	if !ok {
		return v.refuse("There is no %s %s", q.Color, q.Noun.Noun())
	}
	v.say(statement{fact, q.Color.String(), e.Name(), ""})
	return e.Name()
}

// enumerate counts entities one by one: "count A 1, B 2".
func (v *solver) enumerate(word string, entities []Entity) string {
	text := ""
	for i, e := range entities {
		if i > 0 {
			text += ", "
		}
		text += e.Name() + " " + strconv.Itoa(i+1)
	}
	v.say(statement{kind: list, head: word, value: text})
	return strconv.Itoa(len(entities))
}

// combine reads the entities that the question names and does arithmetic on them.
func (v *solver) combine(q Question, refs [3]Entity) string {
	var x [3]int
	for i := range q.Form.refs() {
		x[i] = refs[i].Value
		v.say(statement{fact, q.Refs[i].name(), strconv.Itoa(x[i]), ""})
	}
	switch q.Form {
	case AskSum:
		return v.calculate(x[0], '+', x[1])
	case AskSum3:
		v.calculate(x[0], '+', x[1])
		return v.calculate(x[0]+x[1], '+', x[2])
	case AskDifference:
		return v.excess(x[0], x[1])
	case AskTogether:
		v.calculate(x[0], '+', x[1])
		return v.excess(x[0]+x[1], x[2])
	case AskCompare:
		switch v.relate(x[0], x[1]) {
		case 1:
			return q.Refs[0].name()
		case -1:
			return q.Refs[1].name()
		}
		return v.refuse("No single largest")
	case AskLarger:
		return v.tally(10 * x[0])
	}
	return strconv.Itoa(x[0])
}

func (v *solver) calculate(a int, op byte, b int) string {
	n := a + b
	if op == '-' {
		n = a - b
	}
	v.say(statement{kind: sum, head: fmt.Sprintf("%d%c%d", a, op, b), value: strconv.Itoa(n)})
	return strconv.Itoa(n)
}

func relationSign(a, b int) string { return string("<=>"[cmp.Compare(a, b)+1]) }

func (v *solver) relate(a, b int) int {
	v.say(statement{kind: relation, head: strconv.Itoa(a) + relationSign(a, b) + strconv.Itoa(b)})
	return cmp.Compare(a, b)
}

func (v *solver) excess(a, b int) string {
	if v.relate(a, b) <= 0 {
		return v.refuse("Not larger")
	}
	return v.calculate(a, '-', b)
}

// tally counts the entities above a number of tenths, with a running count: "A 7>4.5, 1".
func (v *solver) tally(threshold int) string {
	n := 0
	for _, e := range v.Entities {
		if 10*e.Value > threshold {
			n++
		}
		tail := fmt.Sprintf("%s%s, %d", relationSign(10*e.Value, threshold), tenths(threshold), n)
		v.say(statement{fact, e.Name(), strconv.Itoa(e.Value), tail})
	}
	return strconv.Itoa(n)
}

// run reads every entity, carrying a running extreme, interval or sum.
func (v *solver) run(f Form) string {
	best, tied, total := v.Entities[0], false, 0
	lo, hi := best.Value, best.Value
	for i, e := range v.Entities {
		total += e.Value
		lo, hi = min(lo, e.Value), max(hi, e.Value)
		var tail string
		switch f {
		case AskLargest, AskSmallest:
			word, better := "max", e.Value > best.Value
			if f == AskSmallest {
				word, better = "min", e.Value < best.Value
			}
			if better {
				best, tied = e, false
			} else if i > 0 && e.Value == best.Value {
				tied = true
			}
			tail = fmt.Sprintf(", %s %s %d", word, best.Name(), best.Value)
			if tied {
				tail = fmt.Sprintf(", tie %d", best.Value)
			}
		case AskRange:
			tail = fmt.Sprintf(", %d to %d", lo, hi)
		default:
			tail = fmt.Sprintf(", sum %d", total)
		}
		if i == 0 {
			tail = ""
		}
		v.say(statement{fact, e.Name(), strconv.Itoa(e.Value), tail})
	}
	switch f {
	case AskRange:
		return v.calculate(hi, '-', lo)
	case AskTotal:
		return strconv.Itoa(total)
	case AskAboveMean:
		n := len(v.Entities)
		mean := rounded(total, n)
		v.say(statement{kind: sum, head: fmt.Sprintf("%d/%d", total, n), value: tenths(mean)})
		return v.tally(mean)
	}
	if tied {
		return v.refuse("No single %s", map[Form]string{AskLargest: "largest", AskSmallest: "smallest"}[f])
	}
	return best.Name()
}

// rounded is a/b in tenths, rounded half up. For b of at most MaxEntities it equals a whole number only where a/b is one, so that comparing values with a mean in
// tenths is exact.
func rounded(a, b int) int { return (a*20 + b) / (2 * b) }

// tenths writes a number of tenths, without a trailing ".0".
func tenths(t int) string {
	if t%10 == 0 {
		return strconv.Itoa(t / 10)
	}
	return fmt.Sprintf("%d.%d", t/10, t%10)
}

// rank reads every entity and then lists them from the largest down.
func (v *solver) rank(f Form) string {
	for _, e := range v.Entities {
		v.say(statement{fact, e.Name(), strconv.Itoa(e.Value), ""})
	}
	o := slices.Clone(v.Entities)
	slices.SortStableFunc(o, func(a, b Entity) int { return b.Value - a.Value })
	text := ""
	for i, e := range o {
		if i > 0 {
			text += ", "
		}
		text += e.Name() + " " + strconv.Itoa(e.Value)
	}
	v.say(statement{kind: list, head: "order", value: text})
	n := len(o)
	switch {
	case f == AskMedian && n%2 == 1:
		value := strconv.Itoa(o[n/2].Value)
		v.say(statement{kind: verdict, head: "middle", value: value})
		return value
	case f == AskMedian:
		a, b := o[n/2-1].Value, o[n/2].Value
		v.say(statement{kind: sum, head: fmt.Sprintf("middle %d+%d", a, b), value: strconv.Itoa(a + b)})
		v.say(statement{kind: sum, head: fmt.Sprintf("%d/2", a+b), value: tenths(rounded(a+b, 2))})
		return tenths(rounded(a+b, 2))
	}
	word, k := "second", 1
	if f == AskThird {
		word, k = "third", 2
	}
	if o[k-1].Value == o[k].Value || k+1 < n && o[k].Value == o[k+1].Value {
		return v.refuse("No single %s", word)
	}
	v.say(statement{kind: verdict, head: word, value: o[k].Name()})
	return o[k].Name()
}
