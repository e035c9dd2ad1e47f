package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// screen prints for a person; in colour on a terminal only.
type screen struct {
	io.Writer
	colour bool
}

// newScreen writes to a file, in colour if that is a terminal that can show it
// and NO_COLOR (https://no-color.org) is not set.
func newScreen(file *os.File, getenv func(string) string) *screen {
	info, err := file.Stat()
	plain := err != nil || info.Mode()&os.ModeCharDevice == 0 || getenv("NO_COLOR") != "" || getenv("TERM") == "dumb"
	return &screen{file, !plain}
}

// The colours.
const (
	bold, dim, red, green, cyan = "1", "2", "31", "32", "36"
)

func (s *screen) paint(colour, format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	if !s.colour || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func (s *screen) scene(title string) { fmt.Fprintf(s, "\n%s\n", s.paint(bold, "%s", title)) }

func (s *screen) say(format string, args ...any) { fmt.Fprintf(s, "  "+format+"\n", args...) }

// gauge shows how much of a limit or a quota is taken.
func (s *screen) gauge(name string, taken, whole int64, show func(int64) string) {
	const width = 30
	full := int(min(max(taken, 0)*width/whole, width))
	fmt.Fprintf(s, "    %s %s%s %s of %s\n", s.paint(dim, "%-8s", name), s.paint(cyan, "%s", strings.Repeat("█", full)),
		s.paint(dim, "%s", strings.Repeat("░", width-full)), show(taken), show(whole))
}

func count(n int64) string { return fmt.Sprint(n) }

// dollars shows micro-dollars.
func dollars(micros int64) string { return fmt.Sprintf("$%.4f", float64(micros)/1e6) }
