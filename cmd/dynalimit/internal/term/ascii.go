package term

import (
	"cmp"
	"io"
	"strings"
)

// inASCII replaces drawing characters by ASCII characters of the same width.
var inASCII = strings.NewReplacer(
	"█", "#", "▒", "+", "▓", "=", "░", ".", "·", ".", "…", ".", "→", ">", "–", "-", "↑", "^", "↓", "v",
	"▁", "_", "▂", ",", "▃", ":", "▄", "=", "▅", "+", "▆", "*", "▇", "%",
)

// ascii is a writer that converts drawings to ASCII.
type ascii struct{ io.Writer }

// Write writes p with its drawing characters replaced by ASCII. It reports the length of p.
func (a ascii) Write(p []byte) (int, error) {
	if _, err := io.WriteString(a.Writer, inASCII.Replace(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ForTerminal returns a text with its drawing characters replaced by ASCII, if the terminal displays only
// ASCII.
func (o *Output) ForTerminal(text string) string {
	if o.ASCII {
		return inASCII.Replace(text)
	}
	return text
}

// drawnWriter returns the writer of results: o.Writer, or one that replaces drawing characters if the terminal
// displays only ASCII. In JSON it replaces nothing.
func (o *Output) drawnWriter() io.Writer {
	if o.ASCII && !o.JSON {
		return ascii{o.Writer}
	}
	return o.Writer
}

// asciiOnly reports whether the locale in the environment names a character set other than UTF-8. Without a
// locale it is false. A locale without a character set, such as C, counts as ASCII.
func asciiOnly(getenv func(string) string) bool {
	locale := strings.ToLower(cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG")))
	return locale != "" && !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8")
}
