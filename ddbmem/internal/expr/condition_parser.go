package expr

// ParseCondition parses a condition, filter or key condition expression. Its errors have DynamoDB's wording and
// include DynamoDB's limits. Call Check to check it against the values of placeholders.
func ParseCondition(src string) (*Condition, error) {
	p, err := newParser(src)
	if err != nil {
		return nil, err
	}
	root := p.parseOr()
	if err := p.requireEnd(); err != nil {
		return nil, err
	}
	return &Condition{Refs: p.refs, root: root}, nil
}

// parseOr parses operands joined by OR, which binds weaker than AND. After a syntax error, which p.err holds,
// its result is meaningless.
func (p *parser) parseOr() node {
	n := p.parseAnd()
	for p.accept("OR") {
		p.countOperator()
		n = &orNode{n, p.parseAnd()}
	}
	return n
}

// parseAnd parses operands joined by AND, which binds weaker than NOT. After a syntax error, which p.err holds,
// its result is meaningless.
func (p *parser) parseAnd() node {
	n := p.parseNot()
	for p.accept("AND") {
		p.countOperator()
		n = &andNode{n, p.parseNot()}
	}
	return n
}

// parseNot parses an optional NOT, which may repeat, and its operand, and counts each NOT as an operator.
// Errors go to p.err.
func (p *parser) parseNot() node {
	if p.accept("NOT") {
		p.countOperator()
		return &notNode{p.parseNot()}
	}
	return p.parsePrimary()
}

// parsePrimary parses a condition in brackets or a single comparison or function. Doubled brackets set
// DynamoDB's error "redundant parentheses" in p.err.
func (p *parser) parsePrimary() node {
	if p.accept("(") {
		inner := p.token().is("(")
		start := p.at
		n := p.parseOr()
		if inner && p.err == nil && p.bracketClosedBy(start) {
			p.fail("The expression has redundant parentheses;")
		}
		p.expect(")")
		return n
	}
	return p.parseComparison()
}

// bracketClosedBy reports whether the token just read closes the bracket opened at token index start. If so,
// a bracket around that pair is redundant.
func (p *parser) bracketClosedBy(start int) bool {
	depth := 0
	for i := start; i < p.at; i++ {
		switch {
		case p.tokens[i].is("("):
			depth++
		case p.tokens[i].is(")"):
			if depth--; depth == 0 {
				return i == p.at-1
			}
		}
	}
	return false
}

// arity is how many operands each function of conditions takes.
var arity = map[string]int{
	"attribute_exists": 1, "attribute_not_exists": 1, "attribute_type": 2, "begins_with": 2, "contains": 2, "size": 1,
}

// parseComparison parses a boolean function, or an operand with a comparison operator, BETWEEN or IN and its
// operands. It returns nil after a syntax error, which p.err holds.
func (p *parser) parseComparison() node {
	if p.atFunction() && p.token().text != "size" {
		return p.parseFunction()
	}
	left := p.parseOperand()
	if p.err != nil {
		return nil
	}
	for _, op := range []string{"=", "<>", "<=", "<", ">=", ">"} {
		if p.accept(op) {
			p.countOperator()
			return &compareNode{op, left, p.parseOperand()}
		}
	}
	switch {
	case p.accept("BETWEEN"):
		p.countOperator()
		low := p.parseOperand()
		p.expect("AND")
		return &betweenNode{left, low, p.parseOperand()}
	case p.accept("IN"):
		p.countOperator()
		p.expect("(")
		n := &inNode{of: left, list: p.parseOperands()}
		if len(n.list) > maxIn {
			p.fail("The IN operator is provided with too many operands; number of operands: %d", len(n.list))
		}
		return n
	}
	if _, ok := left.(sizeOf); ok {
		p.fail("The function is not allowed to be used this way in an expression; function: size")
	}
	p.failAtToken()
	return nil
}

// parseFunction parses a call of a boolean function, and counts it as an operator. It sets p.err for unknown
// functions, for functions of update expressions, and for a wrong number of operands. It returns nil for an
// unknown one.
func (p *parser) parseFunction() node {
	name := p.next().text
	p.next()
	want, known := arity[name]
	if !known {
		if name == "if_not_exists" || name == "list_append" {
			p.fail("The function is not allowed in a condition expression; function: %s", name)
		}
		p.fail("Invalid function name; function: %s", name)
		return nil
	}
	p.countOperator()
	n := &functionNode{name, p.parseOperands()}
	if len(n.args) != want {
		p.fail("Incorrect number of operands for operator or function; operator or function: %s, number of operands: %d", name, len(n.args))
	}
	return n
}

// parseOperands parses a comma-separated list of operands up to the closing bracket, which it consumes.
func (p *parser) parseOperands() []operand {
	list := []operand{p.parseOperand()}
	for p.accept(",") {
		list = append(list, p.parseOperand())
	}
	p.expect(")")
	return list
}

// parseOperand parses a :placeholder, a document path or size(…). It returns nil after an error, which p.err
// holds.
func (p *parser) parseOperand() operand {
	if p.err != nil {
		return nil
	}
	if p.token().kind == tokenValue {
		return p.takePlaceholder()
	}
	if !p.atFunction() {
		return p.parsePath()
	}
	name := p.next().text
	p.next()
	if name != "size" {
		if _, known := arity[name]; known {
			p.fail("The function is not allowed to be used this way in an expression; function: %s", name)
		}
		p.fail("Invalid function name; function: %s", name)
		return nil
	}
	p.countOperator()
	args := p.parseOperands()
	if len(args) != 1 {
		p.fail("Incorrect number of operands for operator or function; operator or function: size, number of operands: %d", len(args))
		return nil
	}
	return sizeOf{args[0]}
}

// walkPaths calls visit for every document path in the condition n, also within size(…), from left to right.
func walkPaths(n node, visit func(path)) {
	operands := func(list ...operand) {
		for _, o := range list {
			if s, ok := o.(sizeOf); ok {
				o = s.of
			}
			if p, ok := o.(path); ok {
				visit(p)
			}
		}
	}
	switch n := n.(type) {
	case *andNode:
		walkPaths(n.left, visit)
		walkPaths(n.right, visit)
	case *orNode:
		walkPaths(n.left, visit)
		walkPaths(n.right, visit)
	case *notNode:
		walkPaths(n.of, visit)
	case *compareNode:
		operands(n.left, n.right)
	case *betweenNode:
		operands(n.of, n.low, n.high)
	case *inNode:
		operands(n.of)
		operands(n.list...)
	case *functionNode:
		operands(n.args...)
	}
}
