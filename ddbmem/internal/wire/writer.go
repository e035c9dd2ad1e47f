package wire

import "unicode/utf8"

const hexDigits = "0123456789abcdef"

// AppendString appends s to b as a quoted JSON string with escapes. Invalid UTF-8 becomes U+FFFD.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(append(b, s[start:i]...), `\ufffd`...)
				start = i + 1
			}
			i += size
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		b = appendEscaped(append(b, s[start:i]...), c)
		i++
		start = i
	}
	return append(append(b, s[start:]...), '"')
}

// appendEscaped appends the JSON escape of c, a quote, backslash or control character, to b.
func appendEscaped(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// Field appends `,"name":` to b, without the comma after an opening bracket or a comma. The caller appends the
// value.
func Field(b []byte, name string) []byte {
	return append(AppendString(Comma(b), name), ':')
}

// Comma appends a comma to b, unless b is empty or ends in an opening bracket or a comma.
func Comma(b []byte) []byte {
	if n := len(b); n > 0 {
		switch b[n-1] {
		case '{', '[', ',':
		default:
			return append(b, ',')
		}
	}
	return b
}
