// Package wire reads and writes the JSON of the DynamoDB protocol without
// reflection.
package wire

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// ErrSyntax is the cause of every error about malformed JSON or a JSON value of
// an unexpected kind.
var ErrSyntax = errors.New("malformed JSON")

// Reader is a pull parser over one JSON document. The first error sticks: after
// it every method returns zero values, so callers check Err once, at the end.
type Reader struct {
	data []byte
	pos  int
	err  error
}

// NewReader returns a Reader of data, which must not change while strings are being read.
func NewReader(data []byte) *Reader { return &Reader{data: data} }

// Err returns the first error of the reads or of Fail, and nil without one.
func (r *Reader) Err() error { return r.err }

// Fail sets the error that Err returns, unless there is one already. All later reads return zero values.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// failSyntax fails with ErrSyntax at the current byte. want names the expected text.
func (r *Reader) failSyntax(want string) {
	r.Fail(fmt.Errorf("%w: want %s at byte %d", ErrSyntax, want, r.pos))
}

// peek skips white space and returns the next byte without consuming it. It returns 0 at the end and after an
// error.
func (r *Reader) peek() byte {
	for r.err == nil && r.pos < len(r.data) {
		switch c := r.data[r.pos]; c {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return c
		}
	}
	return 0
}

// accept skips white space. It consumes the next byte and returns true if that is c; otherwise, and after an
// error, it returns false.
func (r *Reader) accept(c byte) bool {
	if r.peek() != c {
		return false
	}
	r.pos++
	return true
}

// acceptWord skips white space. It consumes word and returns true if word comes next; otherwise, and after an
// error, it returns false.
func (r *Reader) acceptWord(word string) bool {
	if r.peek() == 0 || len(r.data)-r.pos < len(word) || string(r.data[r.pos:r.pos+len(word)]) != word {
		return false
	}
	r.pos += len(word)
	return true
}

// Object reads an object and calls member with the key of every member in order, except of null values. The
// callback must consume the value. Another value than an object is a syntax error.
func (r *Reader) Object(member func(key string)) {
	if !r.accept('{') {
		r.failSyntax("an object")
		return
	}
	if r.accept('}') {
		return
	}
	for r.err == nil {
		key := r.String()
		if !r.accept(':') {
			r.failSyntax("':'")
			return
		}
		if !r.acceptWord("null") {
			member(key)
		}
		if r.accept(',') {
			continue
		}
		if !r.accept('}') {
			r.failSyntax("',' or '}'")
		}
		return
	}
}

// Array reads an array and calls element for every element in order, which must consume it. Another value than
// an array is a syntax error.
func (r *Reader) Array(element func()) {
	if !r.accept('[') {
		r.failSyntax("an array")
		return
	}
	if r.accept(']') {
		return
	}
	for r.err == nil {
		element()
		if r.accept(',') {
			continue
		}
		if !r.accept(']') {
			r.failSyntax("',' or ']'")
		}
		return
	}
}

// Bool reads true or false; another value is a syntax error.
func (r *Reader) Bool() bool {
	switch {
	case r.acceptWord("true"):
		return true
	case r.acceptWord("false"):
		return false
	}
	r.failSyntax("true or false")
	return false
}

// Int reads an integer; a value beyond int64 is a syntax error. It leaves a fraction or exponent unread, which
// is a syntax error at the next read.
func (r *Reader) Int() int64 {
	r.peek()
	start := r.pos
	for r.pos < len(r.data) && (r.data[r.pos] == '-' || r.data[r.pos] >= '0' && r.data[r.pos] <= '9') {
		r.pos++
	}
	n, err := strconv.ParseInt(string(r.data[start:r.pos]), 10, 64)
	if err != nil {
		r.failSyntax("an integer")
	}
	return n
}

// String reads a string and returns it with its escapes decoded. A missing or unfinished string, or one with a
// control character, is a syntax error.
func (r *Reader) String() string {
	if !r.accept('"') {
		r.failSyntax("a string")
		return ""
	}
	start := r.pos
	for r.pos < len(r.data) {
		switch c := r.data[r.pos]; {
		case c == '"':
			r.pos++
			return string(r.data[start : r.pos-1])
		case c == '\\':
			return r.readEscaped(start)
		case c < ' ':
			r.failSyntax("no control character")
			return ""
		}
		r.pos++
	}
	r.failSyntax("the end of the string")
	return ""
}

// readEscaped reads the rest of a string from its first escape and returns the whole string, which began at byte
// start.
func (r *Reader) readEscaped(start int) string {
	out := append([]byte(nil), r.data[start:r.pos]...)
	for r.pos < len(r.data) {
		c := r.data[r.pos]
		r.pos++
		switch c {
		case '"':
			return string(out)
		case '\\':
			out = r.readEscape(out)
			if r.err != nil {
				return ""
			}
		default:
			out = append(out, c)
		}
	}
	r.failSyntax("the end of the string")
	return ""
}

// readEscape reads one escape after its backslash, and returns out with its character appended. An unknown
// escape is a syntax error.
func (r *Reader) readEscape(out []byte) []byte {
	if r.pos >= len(r.data) {
		r.failSyntax("an escape")
		return out
	}
	c := r.data[r.pos]
	r.pos++
	switch c {
	case '"', '\\', '/':
		return append(out, c)
	case 'b':
		return append(out, '\b')
	case 'f':
		return append(out, '\f')
	case 'n':
		return append(out, '\n')
	case 'r':
		return append(out, '\r')
	case 't':
		return append(out, '\t')
	case 'u':
		return utf8.AppendRune(out, r.readCodePoint())
	}
	r.failSyntax("a known escape")
	return out
}

// readCodePoint reads the digits after \u and returns the character. For the first half of a surrogate pair it
// also reads the second escape. Half a pair alone becomes U+FFFD when it is encoded.
func (r *Reader) readCodePoint() rune {
	first := r.readHex4()
	if utf16.IsSurrogate(first) && r.pos+1 < len(r.data) && r.data[r.pos] == '\\' && r.data[r.pos+1] == 'u' {
		r.pos += 2
		return utf16.DecodeRune(first, r.readHex4())
	}
	return first
}

// readHex4 reads four hexadecimal digits and returns their value; other text is a syntax error.
func (r *Reader) readHex4() rune {
	if r.pos+4 > len(r.data) {
		r.failSyntax("four hexadecimal digits")
		return 0
	}
	n, err := strconv.ParseUint(string(r.data[r.pos:r.pos+4]), 16, 32)
	if err != nil {
		r.failSyntax("four hexadecimal digits")
	}
	r.pos += 4
	return rune(n)
}

// Skip moves past one value of any kind, with everything inside, null too. Anything else is a syntax error.
func (r *Reader) Skip() {
	switch c := r.peek(); {
	case c == '{':
		r.Object(func(string) { r.Skip() })
	case c == '[':
		r.Array(r.Skip)
	case c == '"':
		_ = r.String()
	case c == '-' || c >= '0' && c <= '9':
		r.skipNumber()
	default:
		if !r.acceptWord("null") && !r.acceptWord("true") && !r.acceptWord("false") {
			r.failSyntax("a value")
		}
	}
}

// skipNumber moves past the bytes of a number, without checking its form.
func (r *Reader) skipNumber() {
	for r.pos < len(r.data) && isNumberByte(r.data[r.pos]) {
		r.pos++
	}
}

// isNumberByte reports whether c may occur in a JSON number.
func isNumberByte(c byte) bool {
	return c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}

// End sets a syntax error unless only white space is left.
func (r *Reader) End() {
	if r.err == nil && (r.peek() != 0 || r.pos < len(r.data)) {
		r.failSyntax("the end of the document")
	}
}
