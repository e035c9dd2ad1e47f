package jsonscan

import (
	"encoding/binary"
	"math/bits"
)

// A complete, plain value in the bytes at hand, as nearly all are, is read at once.
// Otherwise these return 0, and the functions for pieces read it.

// wholeScalar returns the length in bytes and the kind of the string, number or word at the beginning of b. The
// length is 0 if it is not complete there or not plain.
func wholeScalar(b []byte) (int, Kind) {
	switch {
	case len(b) == 0:
		return 0, Null
	case b[0] == '"':
		return wholeString(b), String
	case isDigit(b[0]):
		return wholeNumber(b), Number
	default:
		return wholeWord(b)
	}
}

// wholeString returns the length in bytes, with quotes, of the string at the beginning of b. It is 0 if b
// begins with no string, or if that is incomplete or has escapes.
func wholeString(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return 0
	}
	n := 1 + countPlain(b[1:])
	if n == len(b) || b[n] != '"' {
		return 0
	}
	return n + 1
}

// wholeNumber returns the length of the digits at the beginning of b. It is 0 for a leading zero, and unless a
// comma or closing bracket follows directly.
func wholeNumber(b []byte) int {
	n := 1
	for n < len(b) && isDigit(b[n]) {
		n++
	}
	if n == len(b) || b[0] == '0' && n > 1 || b[n] != ',' && b[n] != '}' && b[n] != ']' {
		return 0
	}
	return n
}

// wholeWord returns the length and kind of null, true or false at the beginning of b, 0 for other text.
func wholeWord(b []byte) (int, Kind) {
	for kind, word := range words {
		if b[0] == word[0] && len(b) >= len(word) && string(b[:len(word)]) == word {
			return len(word), Kind(kind)
		}
	}
	return 0, 0
}

// words are the values that are words, by their kinds.
var words = [...]string{Null: "null", False: "false", True: "true"}

// isDigit reports whether c is an ASCII digit.
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// countPlain returns the number of bytes before the first that ends a string, begins an escape or may not be in
// a string. It tests eight bytes at once.
func countPlain(b []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; len(b)-n >= 8; n += 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		quote, slash := w^ones*'"', w^ones*'\\'
		// The lowest high bit is that of a byte which is 0, or below a space: others borrow from it.
		found := ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*' ')&^w) & highs
		if found != 0 {
			return n + bits.TrailingZeros64(found)/8
		}
	}
	for n < len(b) && b[n] >= ' ' && b[n] != '"' && b[n] != '\\' {
		n++
	}
	return n
}
