package term

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Plain is a text without control characters: what users stored must not move the cursor,
// change the colours or turn the direction of what its reader sees.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || obeyed(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

// PlainLines is Plain for a text of several lines.
func PlainLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = Plain(line)
	}
	return strings.Join(lines, "\n")
}

// Cut is a text that stands in a line after its first used columns: shorter, with an
// ellipsis, if it has to be. Where there is no terminal a line has 240 columns.
func (o *Output) Cut(s string, used int) string {
	width := o.Width
	if width <= 0 {
		width = 240
	}
	return ansi.Truncate(s, max(1, width-used), "…")
}

// obeyed reports whether a terminal may obey a character above 0x1f: the controls of
// ISO 6429, and those that turn the direction of text.
func obeyed(r rune) bool {
	return r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// escaped is JSON whose strings a terminal can be shown: the same value, with what it
// might obey written as an escape sequence of JSON.
func escaped(text []byte) []byte {
	if bytes.IndexFunc(text, obeyed) < 0 {
		return text
	}
	var out bytes.Buffer
	for _, r := range string(text) {
		if obeyed(r) {
			fmt.Fprintf(&out, "\\u%04x", r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.Bytes()
}
