package manifest

import (
	"slices"

	"github.com/goccy/go-yaml/token"
)

// The YAML parser takes time by the square of how many keys a mapping has, and recurses as
// deep as they are many. So a long mapping is cut between its keys, each part is parsed
// alone, and the parts are put together; tokens know their places themselves.

const (
	// longValue is how many tokens a value has at least that is cut.
	longValue = 2000
	// mostUncut is how many tokens outside of brackets are parsed as one.
	mostUncut = 100_000
)

// block is the value of tokens that may be many.
func (r *reader) block(tokens token.Tokens) *node {
	if len(tokens) < longValue || !isKey(tokens, 0) {
		return r.uncut(tokens)
	}
	entries := entriesOf(tokens)
	if slices.ContainsFunc(entries, func(e token.Tokens) bool { return e[0].Type == token.MergeKeyType }) {
		return r.uncut(tokens) // what is merged depends on the other keys
	}
	n := &node{kind: mapping, line: tokens[0].Position.Line, column: tokens[0].Position.Column}
	lines := map[string]int{}
	for _, part := range parts(entries) {
		of := r.part(part)
		if of == nil {
			continue
		}
		for _, e := range of.entries {
			if first, twice := lines[e.key]; twice {
				r.wrong(e.line, e.column, "", "%q stands twice here, first in line %d: remove one of them", e.key, first)
				continue
			}
			lines[e.key] = e.line
			n.entries = append(n.entries, e)
		}
	}
	return n
}

// uncut is the value of tokens that are parsed as one.
func (r *reader) uncut(tokens token.Tokens) *node {
	outside, depth := 0, 0
	for _, tk := range tokens {
		depth += nesting(tk)
		if depth == 0 {
			outside++
		}
	}
	if outside > mostUncut {
		at := tokens[0].Position
		r.wrong(at.Line, max(1, at.Column), "", "is too long for one value: a manifest has long lists of entities and resources only")
		return nil
	}
	return r.parse(tokens)
}

// part is the mapping of one part: a long value, or several short ones.
func (r *reader) part(tokens token.Tokens) *node {
	if len(tokens) < longValue || !isKey(tokens, 0) || !isKey(tokens, 2) ||
		tokens[2].Position.Line == tokens[0].Position.Line || tokens[2].Position.Column <= tokens[0].Position.Column {
		return r.uncut(tokens)
	}
	key := tokens[0]
	value := r.block(tokens[2:])
	if value == nil {
		value = &node{line: key.Position.Line, column: key.Position.Column}
	}
	return &node{kind: mapping, entries: []entry{{key.Value, key.Position.Line, key.Position.Column, value}}}
}

func nesting(tk *token.Token) int {
	switch tk.Type {
	case token.MappingStartType, token.SequenceStartType:
		return 1
	case token.MappingEndType, token.SequenceEndType:
		return -1
	}
	return 0
}

// entriesOf cuts the tokens of a mapping before each of its keys.
func entriesOf(tokens token.Tokens) []token.Tokens {
	var entries []token.Tokens
	column, depth, start, text := tokens[0].Position.Column, 0, 0, false
	for i, tk := range tokens {
		if i > 0 && depth == 0 && !text && tk.Position.Column == column && tk.Type != token.SequenceEntryType &&
			tk.Position.Line > tokens[i-1].Position.Line {
			entries = append(entries, tokens[start:i])
			start = i
		}
		depth += nesting(tk)
		text = tk.Type == token.LiteralType || tk.Type == token.FoldedType // what follows is the text
	}
	return append(entries, tokens[start:])
}

// parts joins short entries that follow each other.
func parts(entries []token.Tokens) []token.Tokens {
	var out []token.Tokens
	var short token.Tokens
	flush := func() {
		if len(short) > 0 {
			out, short = append(out, short), nil
		}
	}
	for _, e := range entries {
		if len(e) >= longValue {
			flush()
			out = append(out, e)
			continue
		}
		if len(short)+len(e) >= longValue { // or it would be taken for a long one
			flush()
		}
		short = append(short, e...)
	}
	flush()
	return out
}
