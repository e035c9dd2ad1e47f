package expr

import "strings"

// ParseUpdate parses an update expression: the sections SET, REMOVE, ADD and DELETE, each at most once. Its
// errors have DynamoDB's wording. Call Check to check it against the values of placeholders.
func ParseUpdate(src string) (*Update, error) {
	p, err := newParser(src)
	if err != nil {
		return nil, err
	}
	u := &Update{}
	sections := map[string]bool{}
	for p.err == nil && p.token().kind != tokenEnd {
		p.parseSection(u, sections)
	}
	if err := p.requireEnd(); err != nil {
		return nil, err
	}
	u.Refs = p.refs
	return u, nil
}

// parseSection parses one section, SET, REMOVE, ADD or DELETE, appends its actions to u and sets its name in
// seen. An unknown section, or a second one of the same name, sets p.err.
func (p *parser) parseSection(u *Update, seen map[string]bool) {
	name := strings.ToUpper(p.token().text)
	var action func()
	switch name {
	case "SET":
		action = func() { u.sets = append(u.sets, p.parseSet()) }
	case "REMOVE":
		action = func() { u.removes = append(u.removes, p.parsePath()) }
	case "ADD":
		action = func() { u.adds = append(u.adds, p.parseValueAction()) }
	case "DELETE":
		action = func() { u.deletes = append(u.deletes, p.parseValueAction()) }
	default:
		p.failAtToken()
		return
	}
	if seen[name] {
		p.fail("The %q section can only be used once in an update expression;", name)
		return
	}
	seen[name] = true
	p.next()
	action()
	for p.accept(",") {
		action()
	}
}

// parseValueAction parses one ADD or DELETE: a path and a :placeholder. It returns the zero action after an
// error, which p.err holds.
func (p *parser) parseValueAction() valueAction {
	at := p.parsePath()
	if p.err != nil {
		return valueAction{}
	}
	if p.token().kind != tokenValue {
		p.failAtToken()
		return valueAction{}
	}
	p.countOperator()
	return valueAction{at, p.takePlaceholder()}
}

// parseSet parses one SET: a path, =, and an operand or the sum or difference of two. It counts the operators.
// Errors go to p.err.
func (p *parser) parseSet() setAction {
	at := p.parsePath()
	p.expect("=")
	p.countOperator()
	v := p.parseSetOperand()
	for _, op := range []string{"+", "-"} {
		if p.accept(op) {
			p.countOperator()
			return setAction{at, arithmetic{op, v, p.parseSetOperand()}}
		}
	}
	return setAction{at, v}
}

// parseSetOperand parses a :placeholder, path, function or bracketed expression on the right of a SET. It
// returns nil after an error, which p.err holds.
func (p *parser) parseSetOperand() setValue {
	if p.err != nil {
		return nil
	}
	switch {
	case p.token().kind == tokenValue:
		return plain{p.takePlaceholder()}
	case p.accept("("):
		v := p.parseSetOperand()
		for _, op := range []string{"+", "-"} {
			if p.accept(op) {
				p.countOperator()
				v = arithmetic{op, v, p.parseSetOperand()}
				break
			}
		}
		p.expect(")")
		return v
	case !p.atFunction():
		return plain{p.parsePath()}
	}
	return p.parseSetFunction()
}

// parseSetFunction parses if_not_exists or list_append with its two operands. The first operand of if_not_exists
// must be a path. It returns nil after an error, which p.err holds.
func (p *parser) parseSetFunction() setValue {
	name := p.next().text
	p.next()
	switch name {
	case "if_not_exists", "list_append":
	case "attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "contains", "size":
		p.fail("The function is not allowed in an update expression; function: %s", name)
		return nil
	default:
		p.fail("Invalid function name; function: %s", name)
		return nil
	}
	p.countOperator()
	args := []setValue{p.parseSetOperand()}
	for p.accept(",") {
		args = append(args, p.parseSetOperand())
	}
	p.expect(")")
	if p.err == nil && len(args) != 2 {
		p.fail("Incorrect number of operands for operator or function; operator or function: %s, number of operands: %d", name, len(args))
	}
	if p.err != nil {
		return nil
	}
	if name == "list_append" {
		return listAppend{args[0], args[1]}
	}
	first, ok := args[0].(plain)
	if at, isPath := first.operand.(path); ok && isPath {
		return ifNotExists{at, args[1]}
	}
	p.fail("Operator or function requires a document path; operator or function: if_not_exists")
	return nil
}
