package jsonscan

import (
	"encoding/binary"
	"math/bits"
)

// What stands in the bytes at hand as a whole and plainly, as nearly all does, is read at once.
// The rest is left, by 0, to what reads pieces.

// wholeScalar is how long a value is that stands whole in b, and of which kind.
func wholeScalar(b []byte) (int, Kind) {
	switch {
	case len(b) == 0:
		return 0, Null
	case b[0] == '"':
		return wholeString(b), String
	case digit(b[0]):
		return wholeNumber(b), Number
	default:
		return wholeWord(b)
	}
}

// wholeString is how long a string without escapes is, with its quotes.
func wholeString(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return 0
	}
	n := 1 + plain(b[1:])
	if n == len(b) || b[n] != '"' {
		return 0
	}
	return n + 1
}

// wholeNumber is how long a number in digits alone is, if something else follows.
func wholeNumber(b []byte) int {
	n := 1
	for n < len(b) && digit(b[n]) {
		n++
	}
	if n == len(b) || b[0] == '0' && n > 1 || b[n] != ',' && b[n] != '}' && b[n] != ']' {
		return 0
	}
	return n
}

// wholeWord is how long a word is, and which.
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

func digit(c byte) bool { return '0' <= c && c <= '9' }

// plain counts the bytes before the first that ends a string, begins an escape or may not be in a
// string. It looks at eight at once.
func plain(b []byte) int {
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
