package term

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Plain returns a text with each control character replaced by U+FFFD. Stored texts must not move the cursor,
// or change the colours or the direction of the output.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || isControl(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

// PlainLines returns Plain of each line of s.
func PlainLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = Plain(line)
	}
	return strings.Join(lines, "\n")
}

// Cut shortens a text, with an ellipsis, to fit into a line after the first used columns.
// Without a terminal a line has 240 columns.
func (o *Output) Cut(s string, used int) string {
	width := o.Width
	if width <= 0 {
		width = 240
	}
	return ansi.Truncate(s, max(1, width-used), "…")
}

// isControl reports whether a terminal may obey a character above 0x1f: the controls of ISO 6429,
// and those that change the direction of text.
func isControl(r rune) bool {
	return r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// escapeControls returns JSON that is safe on a terminal: the same value, with control characters in
// strings as escape sequences.
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
