package wire

import "unicode/utf8"

const hexDigits = "0123456789abcdef"

// AppendString appends s as a quoted JSON string with escapes. Invalid UTF-8 becomes U+FFFD.
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

// appendEscaped appends a character that a JSON string cannot hold as it is.
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

// Field appends `,"name":`, or `"name":` directly after the '{' of an object.
func Field(b []byte, name string) []byte {
	return append(AppendString(Comma(b), name), ':')
}

// Comma appends a comma unless b ends in an opening bracket or a comma.
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
