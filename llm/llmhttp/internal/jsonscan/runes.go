package jsonscan

import "unicode/utf8"

// runes checks UTF-8 that comes in pieces.
type runes struct {
	held [utf8.UTFMax]byte // a rune that the last piece cut
	n    int               // how many bytes of it there are
}

// continuesUTF8 checks the next piece of a text and reports whether it is valid UTF-8 so far. It stores a rune
// that the end of b cuts, to check it with the next piece.
func (r *runes) continuesUTF8(b []byte) bool {
	for r.n > 0 && len(b) > 0 {
		r.held[r.n] = b[0]
		r.n++
		b = b[1:]
		if utf8.FullRune(r.held[:r.n]) {
			if !utf8.Valid(r.held[:r.n]) {
				return false
			}
			r.n = 0
		}
	}
	for i := len(b) - 1; i >= 0 && len(b)-i < utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				r.n = copy(r.held[:], b[i:])
				b = b[:i]
			}
			break
		}
	}
	return utf8.Valid(b)
}
