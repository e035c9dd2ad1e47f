package expr

import (
	"errors"
	"fmt"
	"strings"
)

type tokenKind uint8

const (
	tokenEnd    tokenKind = iota
	tokenWord             // an attribute name, keyword or function
	tokenName             // #placeholder
	tokenValue            // :placeholder
	tokenNumber           // a list index
	tokenSymbol           // an operator or bracket
)

type token struct {
	kind tokenKind
	text string
	pos  int
}

// is reports whether t is the symbol or keyword s; keywords are in capitals and
// match in any case.
func (t token) is(s string) bool {
	switch t.kind {
	case tokenSymbol:
		return t.text == s
	case tokenWord:
		return strings.EqualFold(t.text, s)
	}
	return false
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isWordByte(c byte) bool {
	return isLetter(c) || isDigit(c) || c == '_'
}

// lex splits src; the last token is a tokenEnd.
func lex(src string) ([]token, error) {
	tokens := make([]token, 0, len(src)/3+2)
	for i := 0; i < len(src); {
		c := src[i]
		start := i
		kind := tokenSymbol
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
			continue
		case isLetter(c):
			kind, i = tokenWord, wordEnd(src, i)
		case isDigit(c):
			kind = tokenNumber
			for i < len(src) && isDigit(src[i]) {
				i++
			}
		case c == '#' || c == ':':
			kind, i = tokenName, wordEnd(src, i+1)
			if c == ':' {
				kind = tokenValue
			}
			if i == start+1 {
				return nil, syntaxError(src, start, i, start, i)
			}
		case strings.IndexByte("()[],.=+-", c) >= 0:
			i++
		case c == '<' || c == '>':
			i++
			if i < len(src) && (src[i] == '=' || c == '<' && src[i] == '>') {
				i++
			}
		default:
			return nil, syntaxError(src, start, start+1, start, start+1)
		}
		tokens = append(tokens, token{kind, src[start:i], start})
	}
	return append(tokens, token{kind: tokenEnd, text: "<EOF>", pos: len(src)}), nil
}

func wordEnd(src string, i int) int {
	for i < len(src) && isWordByte(src[i]) {
		i++
	}
	return i
}

func syntaxError(src string, from, to, nearFrom, nearTo int) error {
	return fmt.Errorf("Syntax error; token: %q, near: %q", src[from:to], src[nearFrom:nearTo]) //nolint:staticcheck // DynamoDB's wording
}

// ValidPlaceholder reports whether key may name a placeholder of the given
// prefix, '#' or ':'.
func ValidPlaceholder(key string, prefix byte) bool {
	return len(key) > 1 && key[0] == prefix && wordEnd(key, 1) == len(key)
}

var errEmpty = errors.New("The expression can not be empty;") //nolint:staticcheck // DynamoDB's wording
