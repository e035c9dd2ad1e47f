package dialect

// Text counts bytes by the tokens that tokenizers make of them. The zero value is empty.
type Text struct{ letters, dense, wide int64 }

// Add adds the bytes of b to the counts of their kinds: letters and blanks, digits and signs, and bytes beyond
// ASCII.
func (t *Text) Add(b []byte) {
	var dense, wide int
	for _, c := range b {
		dense += int(signs[c])
		wide += int(c >> 7)
	}
	t.letters += int64(len(b) - dense - wide)
	t.dense += int64(dense)
	t.wide += int64(wide)
}

// Tokens returns the approximate number of tokens of the counted bytes. It is one for four letters or blanks,
// for two digits or signs, and for three bytes beyond ASCII.
func (t *Text) Tokens() int64 {
	return (3*t.letters + 6*t.dense + 4*t.wide + 11) / 12
}

// signs are 1 for digits and signs, 0 for letters, blanks and bytes beyond ASCII.
var signs = func() (is [256]uint8) {
	for i := range is[:0x80] {
		switch b := byte(i); {
		case b|0x20 >= 'a' && b|0x20 <= 'z', b == ' ', b == '\n', b == '\t', b == '\r':
		default:
			is[i] = 1
		}
	}
	return is
}()
