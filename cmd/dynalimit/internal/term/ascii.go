package term

import (
	"cmp"
	"io"
	"strings"
)

// inASCII are the characters that results are drawn with, each in as many columns.
var inASCII = strings.NewReplacer(
	"█", "#", "▒", "+", "▓", "=", "░", ".", "·", ".", "…", ".", "→", ">", "–", "-", "↑", "^", "↓", "v",
	"▁", "_", "▂", ",", "▃", ":", "▄", "=", "▅", "+", "▆", "*", "▇", "%",
)

// ascii writes what is drawn in ASCII.
type ascii struct{ io.Writer }

// Write writes all of p, or fails.
func (a ascii) Write(p []byte) (int, error) {
	if _, err := io.WriteString(a.Writer, inASCII.Replace(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Drawn is a text as the terminal can show it.
func (o *Output) Drawn(text string) string {
	if o.ASCII {
		return inASCII.Replace(text)
	}
	return text
}

// drawn is the writer of results that are drawn as the terminal can show them.
func (o *Output) drawn() io.Writer {
	if o.ASCII && !o.JSON {
		return ascii{o.Writer}
	}
	return o.Writer
}

// asciiOnly reports whether a terminal's locale names a character set other than UTF-8. One
// that is not named is no reason to draw less well.
func asciiOnly(getenv func(string) string) bool {
	locale := strings.ToLower(cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG")))
	return locale != "" && !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8")
}
