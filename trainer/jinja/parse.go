package jinja

import (
	"fmt"
	"slices"
	"strconv"
)

// parser is a recursive descent over the tokens. Its first error sticks and makes all that follows look like the end.
type parser struct {
	tokens []token
	at     int
	depth  int
	loops  int
	err    error
}

func (p *parser) fail(err error) {
	if p.err == nil {
		p.err = err
	}
	p.at = len(p.tokens) - 1
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) take() token {
	t := p.tokens[p.at]
	if p.at < len(p.tokens)-1 {
		p.at++
	}
	return t
}

// is looks at the next token without taking it.
func (p *parser) is(kind tokenKind, texts ...string) bool {
	t := p.peek()
	return t.kind == kind && (len(texts) == 0 || slices.Contains(texts, t.text))
}

// accept takes the next token if it is that one.
func (p *parser) accept(kind tokenKind, texts ...string) bool {
	if !p.is(kind, texts...) {
		return false
	}
	p.take()
	return true
}

func (p *parser) expect(kind tokenKind, what string) token {
	t := p.peek()
	if t.kind != kind || kind == tokenOperator && t.text != what {
		p.fail(fmt.Errorf("line %d: %q where %s belongs", t.line, t.text, what))
		return t
	}
	return p.take()
}

func (p *parser) unsupported(t token, what string) {
	p.fail(fmt.Errorf("line %d: %s is %w", t.line, what, ErrUnsupported))
}

// nest bounds recursion; the caller defers what it returns.
func (p *parser) nest() func() {
	if p.depth++; p.depth > maxNested {
		p.fail(fmt.Errorf("line %d: %w: it is nested more than %d deep", p.peek().line, ErrTooMuch, maxNested))
	}
	return func() { p.depth-- }
}

// statements reads up to a block that is not the beginning of a statement, such as {% endif %}.
func (p *parser) statements() []statement {
	defer p.nest()()
	var out []statement
	for {
		switch t := p.peek(); t.kind {
		case tokenData:
			p.take()
			out = append(out, text(t.text))
		case tokenPrint:
			p.take()
			out = append(out, print{p.expression()})
			p.expect(tokenPrintEnd, "}}")
		case tokenBlock:
			s := p.block()
			if s == nil {
				return out
			}
			out = append(out, s)
		default:
			return out
		}
	}
}

// ends are the words that continue or end another statement.
var ends = []string{"elif", "else", "endif", "endfor", "endset", "endgeneration"}

// block reads a statement; nil where the next block ends another.
func (p *parser) block() statement {
	name := p.tokens[min(p.at+1, len(p.tokens)-1)]
	if name.kind == tokenName && slices.Contains(ends, name.text) {
		return nil
	}
	p.take()
	p.take()
	switch name.text {
	case "if":
		return p.ifBlock()
	case "for":
		return p.forBlock()
	case "set":
		return p.setBlock()
	case "generation": // marks what the assistant says, for training; the text is the same
		p.expect(tokenBlockEnd, "%}")
		body := p.statements()
		p.end("endgeneration")
		return group(body)
	case "break", "continue":
		if p.loops == 0 {
			p.fail(fmt.Errorf("line %d: %s outside a loop", name.line, name.text))
		}
		p.expect(tokenBlockEnd, "%}")
		return jump(name.text == "break")
	}
	p.unsupported(name, fmt.Sprintf("the statement %q", name.text))
	return nil
}

// end takes the block {% name %}.
func (p *parser) end(name string) {
	p.expect(tokenBlock, "{% "+name+" %}")
	if t := p.take(); p.err == nil && t.text != name {
		p.fail(fmt.Errorf("line %d: %q where %s belongs", t.line, t.text, name))
	}
	p.expect(tokenBlockEnd, "%}")
}

// endIs says whether the next block is {% name.
func (p *parser) endIs(name string) bool {
	return p.is(tokenBlock) && p.tokens[min(p.at+1, len(p.tokens)-1)].text == name
}

func (p *parser) ifBlock() statement {
	defer p.nest()()
	s := &branch{condition: p.expression()}
	p.expect(tokenBlockEnd, "%}")
	s.then = p.statements()
	switch {
	case p.endIs("elif"):
		p.take()
		p.take()
		s.otherwise = []statement{p.ifBlock()}
		return s
	case p.endIs("else"):
		p.take()
		p.take()
		p.expect(tokenBlockEnd, "%}")
		s.otherwise = p.statements()
	}
	p.end("endif")
	return s
}

func (p *parser) forBlock() statement {
	s := &loop{targets: p.targets()}
	if !p.accept(tokenName, "in") {
		p.expect(tokenOperator, "in")
	}
	s.over = p.or()
	if p.accept(tokenName, "if") {
		s.filter = p.expression()
	}
	if p.is(tokenName, "recursive") {
		p.unsupported(p.peek(), "a recursive loop")
	}
	p.expect(tokenBlockEnd, "%}")
	p.loops++
	s.body = p.statements()
	p.loops--
	if p.endIs("else") {
		p.take()
		p.take()
		p.expect(tokenBlockEnd, "%}")
		s.otherwise = p.statements()
	}
	p.end("endfor")
	return s
}

func (p *parser) targets() []string {
	names := []string{p.expect(tokenName, "a name").text}
	for p.accept(tokenOperator, ",") {
		names = append(names, p.expect(tokenName, "a name").text)
	}
	return names
}

func (p *parser) setBlock() statement {
	s := &assignment{names: p.targets()}
	if len(s.names) == 1 && p.accept(tokenOperator, ".") {
		s.attribute = p.expect(tokenName, "a name").text
	}
	if p.accept(tokenOperator, "=") {
		s.value = p.tuple()
		p.expect(tokenBlockEnd, "%}")
		return s
	}
	p.expect(tokenBlockEnd, "=")
	s.body = p.statements()
	p.end("endset")
	return s
}

// tuple reads an expression, or several as a list.
func (p *parser) tuple() expression {
	first := p.expression()
	if !p.is(tokenOperator, ",") {
		return first
	}
	items := listOf{first}
	for p.accept(tokenOperator, ",") {
		items = append(items, p.expression())
	}
	return items
}

func (p *parser) expression() expression {
	defer p.nest()()
	e := p.or()
	for p.accept(tokenName, "if") {
		c := &choice{then: e, condition: p.or(), otherwise: literal{undefined{"an if without else"}}}
		if p.accept(tokenName, "else") {
			c.otherwise = p.expression()
		}
		e = c
	}
	return e
}

func (p *parser) or() expression {
	left := p.and()
	for p.accept(tokenName, "or") {
		left = &logical{left, p.and(), true}
	}
	return left
}

func (p *parser) and() expression {
	left := p.not()
	for p.accept(tokenName, "and") {
		left = &logical{left, p.not(), false}
	}
	return left
}

func (p *parser) not() expression {
	if p.accept(tokenName, "not") {
		defer p.nest()()
		return negation{p.not()}
	}
	return p.comparison()
}

func (p *parser) comparison() expression {
	first := p.sum()
	c := &comparison{first: first}
	for {
		op := p.peek()
		switch {
		case p.accept(tokenOperator, "==", "!=", "<", "<=", ">", ">="), p.accept(tokenName, "in"):
		case p.is(tokenName, "not") && p.tokens[min(p.at+1, len(p.tokens)-1)].text == "in":
			p.take()
			p.take()
			op.text = "not in"
		case c.operands == nil:
			return first
		default:
			return c
		}
		c.operators, c.operands = append(c.operators, op), append(c.operands, p.sum())
	}
}

func (p *parser) sum() expression {
	return p.operators(p.concatenation, "+", "-")
}

func (p *parser) concatenation() expression {
	return p.operators(p.product, "~")
}

func (p *parser) product() expression {
	return p.operators(func() expression { return p.unary(true) }, "*", "/", "//", "%", "**")
}

// operators reads operands of the next level with left-associative operators between.
func (p *parser) operators(operand func() expression, texts ...string) expression {
	left := operand()
	for p.is(tokenOperator, texts...) {
		op := p.take()
		if op.text == "**" {
			p.unsupported(op, "the operator **")
		}
		left = &operation{op, left, operand()}
	}
	return left
}

func (p *parser) unary(filters bool) expression {
	var e expression
	if t := p.peek(); p.accept(tokenOperator, "-", "+") {
		defer p.nest()()
		e = &operation{t, literal{0}, p.unary(false)}
	} else {
		e = p.postfix(p.primary())
	}
	for filters {
		switch {
		case p.accept(tokenOperator, "|"):
			e = p.filter(e)
		case p.is(tokenName, "is"):
			e = p.test(e)
		default:
			return e
		}
	}
	return e
}

func (p *parser) filter(e expression) expression {
	name := p.expect(tokenName, "a filter")
	if _, ok := filters[name.text]; !ok && p.err == nil {
		p.unsupported(name, fmt.Sprintf("the filter %q", name.text))
	}
	c := &call{at: name, function: name.text, receiver: e, filter: true}
	if p.accept(tokenOperator, "(") {
		c.arguments = p.arguments()
	}
	return p.postfix(c)
}

func (p *parser) test(e expression) expression {
	p.take()
	negated := p.accept(tokenName, "not")
	name := p.expect(tokenName, "a test")
	if _, ok := tests[name.text]; !ok && p.err == nil {
		p.unsupported(name, fmt.Sprintf("the test %q", name.text))
	}
	var out expression = &condition{name.text, e}
	if negated {
		out = negation{out}
	}
	return out
}

func (p *parser) primary() expression {
	defer p.nest()()
	t := p.take()
	switch t.kind {
	case tokenName:
		switch t.text {
		case "true", "True":
			return literal{true}
		case "false", "False":
			return literal{false}
		case "none", "None":
			return literal{nil}
		}
		return variable(t.text)
	case tokenInt:
		n, err := strconv.Atoi(t.text)
		if err != nil {
			p.unsupported(t, "the number "+t.text)
		}
		return literal{n}
	case tokenFloat:
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			p.unsupported(t, "the number "+t.text)
		}
		return literal{f}
	case tokenString:
		value := t.text
		for p.is(tokenString) { // strings side by side are one
			value += p.take().text
		}
		return literal{value}
	case tokenOperator:
		switch t.text {
		case "(":
			e := p.tuple()
			p.expect(tokenOperator, ")")
			return e
		case "[":
			return listOf(p.list("]"))
		case "{":
			return p.mapping()
		}
	}
	p.fail(fmt.Errorf("line %d: %q where an expression belongs", t.line, t.text))
	return literal{nil}
}

// list reads expressions up to the closing operator.
func (p *parser) list(end string) []expression {
	out := []expression{}
	for !p.accept(tokenOperator, end) && p.err == nil {
		out = append(out, p.expression())
		if !p.is(tokenOperator, end) {
			p.expect(tokenOperator, ",")
		}
	}
	return out
}

func (p *parser) mapping() expression {
	var out mappingOf
	for !p.accept(tokenOperator, "}") && p.err == nil {
		key := p.expression()
		p.expect(tokenOperator, ":")
		out = append(out, [2]expression{key, p.expression()})
		if !p.is(tokenOperator, "}") {
			p.expect(tokenOperator, ",")
		}
	}
	return out
}

// postfix reads attributes, items and calls.
func (p *parser) postfix(e expression) expression {
	for n := 0; ; n++ {
		if n > maxNested {
			p.fail(fmt.Errorf("line %d: %w: a chain of more than %d accesses", p.peek().line, ErrTooMuch, maxNested))
		}
		switch t := p.peek(); {
		case p.accept(tokenOperator, "."):
			name := p.take()
			if name.kind != tokenName && name.kind != tokenInt {
				p.fail(fmt.Errorf("line %d: %q where a name belongs", name.line, name.text))
			}
			if name.kind == tokenName && p.accept(tokenOperator, "(") {
				e = &call{at: name, function: name.text, receiver: e, arguments: p.arguments()}
				continue
			}
			e = &item{t, e, literal{name.text}}
		case p.accept(tokenOperator, "["):
			e = p.subscript(t, e)
		case p.is(tokenOperator, "("):
			name, ok := e.(variable)
			if !ok {
				p.unsupported(t, "the call of something without a name")
			}
			p.take()
			if _, known := functions[string(name)]; !known && p.err == nil {
				p.unsupported(t, fmt.Sprintf("the function %q", string(name)))
			}
			e = &call{at: t, function: string(name), arguments: p.arguments()}
		default:
			return e
		}
	}
}

func (p *parser) subscript(t token, e expression) expression {
	var bounds [3]expression
	n := 0
	for ; n < 3; n++ {
		if !p.is(tokenOperator, ":", "]") {
			bounds[n] = p.expression()
		}
		if !p.accept(tokenOperator, ":") {
			break
		}
	}
	p.expect(tokenOperator, "]")
	if n > 0 {
		return &slice{t, e, bounds}
	}
	if bounds[0] == nil {
		p.fail(fmt.Errorf("line %d: an empty subscript", t.line))
		return e
	}
	return &item{t, e, bounds[0]}
}

// arguments reads up to the closing parenthesis.
func (p *parser) arguments() (a arguments) {
	for !p.accept(tokenOperator, ")") && p.err == nil {
		if p.is(tokenName) && p.tokens[min(p.at+1, len(p.tokens)-1)].kind == tokenOperator && p.tokens[p.at+1].text == "=" {
			name := p.take().text
			p.take()
			a.named = append(a.named, named{name, p.expression()})
		} else {
			a.positional = append(a.positional, p.expression())
		}
		if !p.is(tokenOperator, ")") {
			p.expect(tokenOperator, ",")
		}
	}
	return a
}
