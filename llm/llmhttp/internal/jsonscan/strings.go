package jsonscan

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// str is the string that is read.
type str struct {
	key   bool  // of an object
	runes runes // its UTF-8, if it is checked
	code  rune  // of an escape \u, as far as it was read
	left  int   // how many digits code lacks
	high  rune  // the first half of a surrogate pair, or 0
}

// readString reads a string up to its quote or the next escape, and returns the number of bytes read. At the
// quote it ends the key or reports the value. A control character, and in strict reading invalid UTF-8, sets
// s.err.
func (s *Scanner) readString(b []byte) int {
	n := countPlain(b)
	if n > 0 && !s.endPair() {
		return 0
	}
	if s.options.Strict && (!s.str.runes.continuesUTF8(b[:n]) || n < len(b) && s.str.runes.n > 0) {
		s.err = &SyntaxError{Offset: s.begun, Reason: "the string that begins here is not UTF-8"}
		return 0
	}
	s.putPiece(b[:n])
	switch {
	case n == len(b):
		return n
	case b[n] == '\\':
		s.state = inEscape
	case b[n] != '"':
		return s.fail(n, "control character in a string")
	case !s.endPair():
	case s.str.key:
		s.endKey()
	default:
		s.endValue(s.at, Event{Kind: String, Text: s.text.b, Len: s.off + int64(n) - s.begun - 1})
	}
	return n + 1
}

// putPiece appends decoded bytes to the buffer of the current string, and passes them to Options.Chunk if it is
// a value at a path. It drops them if the string is not wanted.
func (s *Scanner) putPiece(b []byte) {
	if s.to == nil || len(b) == 0 {
		return
	}
	s.to.add(b)
	if s.options.Chunk != nil && !s.str.key {
		s.options.Chunk(s.at.path, b)
	}
}

// putRune appends the rune of an escape to the current string, as putPiece does.
func (s *Scanner) putRune(r rune) { s.putPiece(utf8.AppendRune(s.one[:0], r)) }

// endPair appends U+FFFD for a first half of a surrogate pair without its second, and returns true, also
// without a half. In strict reading such a half sets s.err, and it returns false.
func (s *Scanner) endPair() bool {
	if s.str.high == 0 {
		return true
	}
	if s.options.Strict {
		s.fail(0, "half of a surrogate pair")
		return false
	}
	s.str.high = 0
	s.putRune(utf8.RuneError)
	return true
}

// readEscape reads the character c after a backslash, and returns the number of bytes read, 0 or 1. An unknown
// escape sets s.err.
func (s *Scanner) readEscape(c byte) int {
	s.state = inString
	i := strings.IndexByte(`"\/bfnrt`, c)
	switch {
	case c == 'u':
		s.state, s.str.code, s.str.left = inCode, 0, 4
	case i < 0:
		return s.fail(0, "unknown escape")
	case s.endPair():
		s.putRune(rune("\"\\/\b\f\n\r\t"[i]))
	}
	return 1
}

// readCode reads one hexadecimal digit of an escape \u, and returns the number of bytes read, 0 or 1. After the
// fourth it appends the rune. Another character sets s.err.
func (s *Scanner) readCode(c byte) int {
	i := strings.IndexByte("0123456789abcdef", c|0x20) // of digits, too, that bit is set
	if i < 0 || c < '0' {
		return s.fail(0, "want four hexadecimal digits")
	}
	s.str.code = s.str.code<<4 | rune(i)
	s.str.left--
	if s.str.left == 0 {
		s.state = inString
		s.endCode(s.str.code)
	}
	return 1
}

// endCode appends the rune r of an escape \u to the string. It keeps the first half of a surrogate pair until
// the next escape.
func (s *Scanner) endCode(r rune) {
	low := 0xdc00 <= r && r <= 0xdfff
	switch {
	case s.str.high != 0 && low:
		s.putRune(utf16.DecodeRune(s.str.high, r))
		s.str.high = 0
	case !s.endPair():
	case !utf16.IsSurrogate(r):
		s.putRune(r)
	default:
		s.str.high = r
		if low {
			s.endPair()
		}
	}
}
