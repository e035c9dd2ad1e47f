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

// isLetter reports whether c is an ASCII letter.
func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// isDigit reports whether c is an ASCII digit.
func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isSpace reports whether c is white space between tokens.
func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// isWordByte reports whether c may be in a name after its first character: a letter, digit or underscore.
func isWordByte(c byte) bool {
	return isLetter(c) || isDigit(c) || c == '_'
}

// tokenize splits src into tokens without white space; the last one is a tokenEnd. It returns a syntax error
// for a character that begins no token.
func tokenize(src string) ([]token, error) {
	tokens := make([]token, 0, len(src)/3+2)
	for i := 0; i < len(src); {
		if isSpace(src[i]) {
			i++
			continue
		}
		kind, end := scanToken(src, i)
		if end == i {
			return nil, syntaxError(src[i : i+1])
		}
		tokens = append(tokens, token{kind, src[i:end], i})
		i = end
	}
	return append(tokens, token{kind: tokenEnd, text: "<EOF>", pos: len(src)}), nil
}

// scanToken returns the kind of the token that begins at start and its end. end equals start if no token begins
// there.
func scanToken(src string, start int) (kind tokenKind, end int) {
	switch c := src[start]; {
	case isLetter(c):
		return tokenWord, wordEnd(src, start)
	case isDigit(c):
		return tokenNumber, numberEnd(src, start)
	case c == '#':
		return tokenName, placeholderEnd(src, start)
	case c == ':':
		return tokenValue, placeholderEnd(src, start)
	case strings.IndexByte("()[],.=+-", c) >= 0:
		return tokenSymbol, start + 1
	case c == '<' || c == '>':
		return tokenSymbol, comparisonEnd(src, start)
	}
	return tokenSymbol, start
}

// wordEnd returns the index after the letters, digits and underscores that begin at i.
func wordEnd(src string, i int) int {
	for i < len(src) && isWordByte(src[i]) {
		i++
	}
	return i
}

// numberEnd returns the index after the digits that begin at i.
func numberEnd(src string, i int) int {
	for i < len(src) && isDigit(src[i]) {
		i++
	}
	return i
}

// placeholderEnd returns the index after a placeholder that begins at start, and start itself if no name
// follows the prefix.
func placeholderEnd(src string, start int) int {
	end := wordEnd(src, start+1)
	if end == start+1 {
		return start
	}
	return end
}

// comparisonEnd returns the index after one of < <= <> > >= that begins at start.
func comparisonEnd(src string, start int) int {
	next := start + 1
	if next < len(src) && (src[next] == '=' || src[start] == '<' && src[next] == '>') {
		next++
	}
	return next
}

// syntaxError returns an error in DynamoDB's words for a character that begins no token.
func syntaxError(at string) error {
	return fmt.Errorf("Syntax error; token: %q, near: %q", at, at) //nolint:staticcheck // DynamoDB's wording
}

// ValidPlaceholder reports whether key may name a placeholder of the given
// prefix, '#' or ':'.
func ValidPlaceholder(key string, prefix byte) bool {
	return len(key) > 1 && key[0] == prefix && wordEnd(key, 1) == len(key)
}

var errEmpty = errors.New("The expression can not be empty;") //nolint:staticcheck // DynamoDB's wording
