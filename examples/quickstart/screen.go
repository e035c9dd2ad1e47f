package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
)

// screen prints for a person; in colour on a terminal only.
type screen struct {
	io.Writer
	colour bool
	scenes int
}

// newScreen writes to a file. Colour is for terminals, unless NO_COLOR
// (https://no-color.org) is set or the terminal is a dumb one.
func newScreen(file *os.File, getenv func(string) string) *screen {
	info, err := file.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &screen{Writer: file, colour: terminal && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"}
}

const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

func (s *screen) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *screen) title(text, more string) {
	fmt.Fprintf(s, "%s %s\n", s.paint(bold, text), s.paint(dim, more))
}

// scene starts the next part of the tour.
func (s *screen) scene(format string, args ...any) {
	s.scenes++
	fmt.Fprintf(s, "\n%s %s\n", s.paint(cyan, strconv.Itoa(s.scenes)), s.paint(bold, fmt.Sprintf(format, args...)))
}

func (s *screen) say(format string, args ...any) {
	fmt.Fprintf(s, "    %s\n", fmt.Sprintf(format, args...))
}

func (s *screen) good(format string, args ...any) {
	fmt.Fprintf(s, "  %s %s\n", s.paint(green, "✓"), fmt.Sprintf(format, args...))
}

func (s *screen) bad(format string, args ...any) {
	fmt.Fprintf(s, "  %s %s\n", s.paint(red, "✗"), fmt.Sprintf(format, args...))
}

// bars shows what is left of some limits, one line each.
func (s *screen) bars(statuses []dynalimit.LimitStatus) {
	width := 0
	for _, status := range statuses {
		width = max(width, len(status.EntityID))
	}
	for _, status := range statuses {
		name := fmt.Sprintf("%-*s %s", width, status.EntityID, status.Limit.Name)
		fmt.Fprintf(s, "    %s %s %s\n", s.paint(dim, name), s.bar(status.Remaining, status.Limit.Burst),
			fmt.Sprintf("%s of %s", grouped(status.Remaining), grouped(status.Limit.Burst)))
	}
}

// bar is full when all of a limit is left.
func (s *screen) bar(left, most int64) string {
	const width = 24
	filled := int(max(0, min(left, most)) * width / most)
	code := green
	switch {
	case 5*left < most:
		code = red
	case 2*left < most:
		code = yellow
	}
	return s.paint(code, strings.Repeat("█", filled)) + s.paint(dim, strings.Repeat("░", width-filled))
}

// grouped writes 12345 as 12,345.
func grouped(n int64) string {
	if n < 0 {
		return "-" + grouped(-n)
	}
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// rounded shows a wait to the millisecond.
func rounded(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
