// Package term prints for people and for programs: colours where the terminal supports them,
// tables that fit the terminal, JSON, notes about waiting, and questions.
package term

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/term"
)

// Output is the output of a command. Results are written to it as an io.Writer, everything else
// to Notes.
type Output struct {
	io.Writer
	// Notes receives progress, warnings and questions. Defaults to discarding.
	Notes io.Writer
	// In is the source of answers to questions. Defaults to none.
	In io.Reader
	// Width is the terminal's width in columns. 0 without a terminal: then lines are not
	// limited.
	Width int
	// Height is the terminal's height in lines. 0 without a terminal.
	Height int
	// Colour is true if the terminal supports colours.
	Colour bool
	// ASCII is true if the terminal displays only ASCII. Then drawings use ASCII.
	ASCII bool
	// Patience is how long Watch waits before its first note. Defaults to a second.
	Patience time.Duration
	// JSON is true if results are for programs.
	JSON bool

	silence atomic.Pointer[silence]
	failed  error // error of the first failed Write
}

// New returns an output that writes results to out, and reads answers from in if that is a terminal. It takes
// size, colours and ASCII from out's terminal and the environment; NO_COLOR (https://no-color.org) and a dumb
// terminal forbid colours. Notes is nil.
func New(in, out *os.File, getenv func(string) string) *Output {
	o := &Output{Writer: out}
	if info, err := out.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		o.Colour = getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
		o.ASCII = asciiOnly(getenv)
	}
	if width, height, err := term.GetSize(int(out.Fd())); err == nil {
		o.Width, o.Height = width, height
	}
	if term.IsTerminal(int(in.Fd())) {
		o.In = in
	}
	return o
}

// Sheet returns an output that writes results to w, with o's notes and style and the given width in columns. It
// prints for people, never JSON, and cannot ask questions.
func (o *Output) Sheet(w io.Writer, width int) *Output {
	return &Output{Writer: w, Notes: o.Notes, Patience: o.Patience, Width: width, Colour: o.Colour, ASCII: o.ASCII}
}

// Write writes a part of the result, with drawings in ASCII if the terminal needs that, and restarts the wait
// of Watch. It keeps the first error for Err, with advice, and returns that after each failure.
func (o *Output) Write(p []byte) (int, error) {
	o.silence.Load().restartWait()
	n, err := o.drawnWriter().Write(p)
	if err == nil {
		return n, nil
	}
	if o.failed == nil {
		o.failed = fmt.Errorf("the result cannot be written: %w; make room for it, or send it elsewhere", err)
	}
	return n, o.failed
}

// Err returns the first error of Write with advice, or nil.
func (o *Output) Err() error { return o.failed }

// Notef writes a formatted line to Notes, and restarts the wait of Watch. It ignores errors.
func (o *Output) Notef(format string, args ...any) {
	o.silence.Load().restartWait()
	o.writeNoteLine(format, args...)
}

// Show prints a result: value as indented JSON, safe on a terminal, if o.JSON is set, else by calling people.
// It returns only errors of encoding and writing the JSON; Err has those of people.
func (o *Output) Show(value any, people func()) error {
	if !o.JSON {
		people()
		return nil
	}
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(o, "%s\n", escapeControls(text))
	return err
}

// Line returns a value as one line of JSON with its line end, safe on a terminal, for results with one object
// per line.
func Line(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	return append(escapeControls(text), '\n'), err
}

// Bold returns s in bold, for titles and names, if the terminal supports colours, else s.
func (o *Output) Bold(s string) string { return o.Style("1", s) }

// Dim returns s in a dimmed style, for less important text, if the terminal supports colours, else s.
func (o *Output) Dim(s string) string { return o.Style("2", s) }

// Cyan returns s in cyan, for commands and addresses to copy, if the terminal supports colours, else s.
func (o *Output) Cyan(s string) string { return o.Style("36", s) }

// Red returns s in red, for deletions and faults, if the terminal supports colours, else s.
func (o *Output) Red(s string) string { return o.Style("31", s) }

// Green returns s in green, for additions and good states, if the terminal supports colours, else s.
func (o *Output) Green(s string) string { return o.Style("32", s) }

// Yellow returns s in yellow, for changes and warnings, if the terminal supports colours, else s.
func (o *Output) Yellow(s string) string { return o.Style("33", s) }

// Style returns s with a style number of ECMA-48, such as "31" for red. It returns s as it is if it is empty or
// the terminal supports no colours.
func (o *Output) Style(code, s string) string {
	if !o.Colour || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
