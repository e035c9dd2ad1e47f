package term

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Plain returns a text with each control character, also line ends and tabs, replaced by U+FFFD. Stored texts
// must not move the cursor, or change the colours or the direction of the output.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || isControl(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

// PlainLines returns s with each control character except line feeds replaced by U+FFFD.
func PlainLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = Plain(line)
	}
	return strings.Join(lines, "\n")
}

// Cut returns a text shortened, with an ellipsis, to fit into a line after used columns of other text. Without
// a terminal a line has 240 columns. At least one column stays.
func (o *Output) Cut(s string, used int) string {
	width := o.Width
	if width <= 0 {
		width = 240
	}
	return ansi.Truncate(s, max(1, width-used), "…")
}

// isControl reports whether a terminal may obey a character: it is a control of ISO 6429 from 0x7f on, or
// changes the direction of text. It is false for controls below 0x20.
func isControl(r rune) bool {
	return r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// escapeControls returns JSON of the same value that is safe on a terminal: control characters in strings
// become escape sequences. It returns text itself if it has none.
func escapeControls(text []byte) []byte {
	if bytes.IndexFunc(text, isControl) < 0 {
		return text
	}
	var out bytes.Buffer
	for _, r := range string(text) {
		if isControl(r) {
			fmt.Fprintf(&out, "\\u%04x", r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.Bytes()
}
