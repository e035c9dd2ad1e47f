package jsonscan

import "strings"

// bom is a byte order mark.
const bom = "\xef\xbb\xbf"

// readWord reads the rest of null, true, false or a byte order mark from b, and returns the number of bytes
// read. At the end of a word it reports the value. Other bytes set s.err.
func (s *Scanner) readWord(b []byte) int {
	n := 0
	for ; n < len(b) && s.rest != ""; n++ {
		if b[n] != s.rest[0] {
			return s.fail(n, "want null, false or true")
		}
		s.rest = s.rest[1:]
	}
	switch {
	case s.rest != "":
	case s.state == inMark:
		s.state = wantValue
	default:
		s.endValue(s.at, Event{Kind: s.word, Offset: s.begun})
	}
	return n
}

// part is the part of a number that a byte belongs to.
type part uint8

const (
	beforeNumber part = iota
	minus
	zero
	integer
	point
	fraction
	exponent
	sign
	power
	noPart
)

// mayEnd reports whether a number may end with p.
func (p part) mayEnd() bool { return p == zero || p == integer || p == fraction || p == power }

// partAfter returns the part of a number to which c belongs if it follows a byte of part p; noPart if c cannot
// follow.
func (p part) partAfter(c byte) part {
	switch {
	case c == '-' && p == beforeNumber:
		return minus
	case c == '0' && p <= minus:
		return zero
	case isDigit(c):
		return [...]part{integer, integer, noPart, integer, fraction, fraction, power, power, power}[p]
	case c == '.' && (p == zero || p == integer):
		return point
	case c|0x20 == 'e' && (p == zero || p == integer || p == fraction):
		return exponent
	case (c == '+' || c == '-') && p == exponent:
		return sign
	default:
		return noPart
	}
}

// readNumber reads a number up to the byte after it, and returns the number of bytes read. At the end it
// reports the value. A malformed number sets s.err.
func (s *Scanner) readNumber(b []byte) int {
	n := 0
	for ; n < len(b); n++ {
		next := s.part.partAfter(b[n])
		if next == noPart {
			break
		}
		s.part = next
	}
	if s.to != nil {
		s.to.add(b[:n])
	}
	if n == len(b) {
		return n
	}
	if !s.part.mayEnd() || strings.IndexByte(" \n\r\t,]}", b[n]) < 0 {
		return s.fail(n, "not a number")
	}
	s.endValue(s.at, Event{Kind: Number, Text: s.text.b, Len: s.off + int64(n) - s.begun})
	return n
}
