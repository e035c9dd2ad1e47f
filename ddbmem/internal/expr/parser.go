package expr

import (
	"fmt"
	"slices"
	"strconv"
)

// Limits of one expression.
const (
	maxBytes     = 4096
	maxOperators = 300
	maxPathDepth = 32
	maxIn        = 100
)

// Refs are the placeholders an expression uses, each once.
type Refs struct {
	Names, Values []string
}

type parser struct {
	src       string
	tokens    []token
	at        int
	refs      Refs
	operators int
	err       error
}

// newParser splits src into tokens and returns a parser at the first. It fails if src is empty, longer than 4
// KB or has an invalid character.
func newParser(src string) (*parser, error) {
	if len(src) > maxBytes {
		return nil, fmt.Errorf("Expression size has exceeded the maximum allowed size; expression size: %d", len(src)) //nolint:staticcheck // DynamoDB's wording
	}
	tokens, err := tokenize(src)
	if err != nil {
		return nil, err
	}
	if len(tokens) == 1 {
		return nil, errEmpty
	}
	return &parser{src: src, tokens: tokens}, nil
}

// fail sets p.err unless it has an error already. After that, accept is false and parsing ends.
func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

// token returns the current token without moving past it.
func (p *parser) token() token { return p.tokens[p.at] }

// next returns the current token and moves to the next. It stays at the end token.
func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != tokenEnd {
		p.at++
	}
	return t
}

// failAtToken sets a syntax error at the current token; its text shows the neighbouring tokens.
func (p *parser) failAtToken() {
	t := p.token()
	from, to := t.pos, len(p.src)
	if p.at > 0 {
		from = p.tokens[p.at-1].pos
	}
	if p.at+1 < len(p.tokens) {
		next := p.tokens[p.at+1]
		to = next.pos
		if next.kind != tokenEnd {
			to += len(next.text)
		}
	}
	p.fail("Syntax error; token: %q, near: %q", t.text, p.src[from:to])
}

// accept moves past the current token and returns true if it is the symbol or keyword s. It returns false
// otherwise, and always after an error.
func (p *parser) accept(s string) bool {
	if p.err != nil || !p.token().is(s) {
		return false
	}
	p.next()
	return true
}

// expect moves past the symbol or keyword s, and sets a syntax error if the current token is another.
func (p *parser) expect(s string) {
	if !p.accept(s) {
		p.failAtToken()
	}
}

// requireEnd returns the parser's error, nil without one. Tokens left over are a syntax error.
func (p *parser) requireEnd() error {
	if p.token().kind != tokenEnd {
		p.failAtToken()
	}
	return p.err
}

// countOperator adds one to the number of operators and functions in the expression. Beyond 300 it sets p.err.
func (p *parser) countOperator() {
	if p.operators++; p.operators > maxOperators {
		p.fail("The expression contains too many operators; maximum operators allowed: %d", maxOperators)
	}
}

// parsePath parses a document path such as a.b[2] and moves past it. It sets p.err for a reserved word, an
// invalid index or more than 32 levels of nesting.
func (p *parser) parsePath() path {
	steps := path{{name: p.parsePathName()}}
	for p.err == nil {
		switch {
		case p.accept("."):
			steps = append(steps, element{name: p.parsePathName()})
		case p.accept("["):
			t := p.token()
			index, err := strconv.Atoi(t.text)
			if t.kind != tokenNumber {
				p.failAtToken()
			} else if err != nil || index > 1<<31-1 {
				p.fail("List index is not within the allowable range; index: [%s]", t.text)
			}
			p.next()
			p.expect("]")
			steps = append(steps, element{index: index})
		default:
			if len(steps) > maxPathDepth {
				p.fail("The document path has too many nesting elements; nesting levels: %d", len(steps))
			}
			return steps
		}
	}
	return steps
}

// parsePathName returns an attribute name or #placeholder, as written, and moves past it. It adds placeholders
// to p.refs once; any other token or a reserved word sets p.err.
func (p *parser) parsePathName() string {
	t := p.token()
	switch {
	case t.kind == tokenName:
		if !slices.Contains(p.refs.Names, t.text) {
			p.refs.Names = append(p.refs.Names, t.text)
		}
	case t.kind != tokenWord:
		p.failAtToken()
	case isReserved(t.text):
		p.fail("Attribute name is a reserved keyword; reserved keyword: %s", t.text)
	}
	p.next()
	return t.text
}

// takePlaceholder returns the :placeholder at the current token, moves past it and adds it to p.refs once. The
// caller has checked the token's kind.
func (p *parser) takePlaceholder() literal {
	t := p.next()
	if !slices.Contains(p.refs.Values, t.text) {
		p.refs.Values = append(p.refs.Values, t.text)
	}
	return literal(t.text)
}

// atFunction reports whether a word and an opening bracket come next.
func (p *parser) atFunction() bool {
	return p.token().kind == tokenWord && p.tokens[p.at+1].is("(")
}

// check fails if the expression uses a placeholder that e does not define. The error names the placeholder.
func (r Refs) check(e *Env) error {
	for _, n := range r.Names {
		if _, ok := e.Names[n]; !ok {
			return fmt.Errorf("An expression attribute name used in the document path is not defined; attribute name: %s", n) //nolint:staticcheck // DynamoDB's wording
		}
	}
	for _, v := range r.Values {
		if _, ok := e.Values[v]; !ok {
			return fmt.Errorf("An expression attribute value used in expression is not defined; attribute value: %s", v) //nolint:staticcheck // DynamoDB's wording
		}
	}
	return nil
}
