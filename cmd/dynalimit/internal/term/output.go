// Package term is how commands talk to people and to programs: results in colour where
// it can be shown, tables that fit the terminal, JSON, what is waited for, questions.
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

// Output is where a command writes. Results go to it as an io.Writer; what is no result
// goes to Notes.
type Output struct {
	io.Writer
	// Notes is for progress, warnings and questions. Defaults to nowhere.
	Notes io.Writer
	// In is where answers to questions come from. Defaults to nobody who answers.
	In io.Reader
	// Width is the terminal's, in columns; 0 where there is none: lines are then as long
	// as they are.
	Width int
	// Height is the terminal's, in lines; 0 where there is none.
	Height int
	// Colour says that escape sequences of colour are understood.
	Colour bool
	// ASCII says that the terminal shows nothing else: what is drawn, is drawn in ASCII.
	ASCII bool
	// Patience is how long nothing is written before Watch says what is waited for.
	// Defaults to a second.
	Patience time.Duration
	// JSON says that results are for programs.
	JSON bool

	silence atomic.Pointer[silence]
	failed  error // of the first Write that failed
}

// New reads answers from in and writes results to out, in colour if out is a terminal and
// neither NO_COLOR (https://no-color.org) nor a dumb terminal forbids it.
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

// Sheet is an output for people onto w, drawn as this one is and this wide.
func (o *Output) Sheet(w io.Writer, width int) *Output {
	return &Output{Writer: w, Notes: o.Notes, Patience: o.Patience, Width: width, Colour: o.Colour, ASCII: o.ASCII}
}

// Write writes a part of the result.
func (o *Output) Write(p []byte) (int, error) {
	o.silence.Load().broken()
	n, err := o.drawn().Write(p)
	if err == nil {
		return n, nil
	}
	if o.failed == nil {
		o.failed = fmt.Errorf("the result cannot be written: %w; make room for it, or send it elsewhere", err)
	}
	return n, o.failed
}

// Err is why a part of the result could not be written; nil if all was.
func (o *Output) Err() error { return o.failed }

// Notef writes a line that is no result.
func (o *Output) Notef(format string, args ...any) {
	o.silence.Load().broken()
	o.line(format, args...)
}

// Show prints a value as JSON, or by a function for people.
func (o *Output) Show(value any, people func()) error {
	if !o.JSON {
		people()
		return nil
	}
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(o, "%s\n", escaped(text))
	return err
}

// Line is a value as a line of JSON, for results that are one object after the other.
func Line(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	return append(escaped(text), '\n'), err
}

// Bold is for titles and names.
func (o *Output) Bold(s string) string { return o.Style("1", s) }

// Dim is for what matters less.
func (o *Output) Dim(s string) string { return o.Style("2", s) }

// Cyan is for what can be copied.
func (o *Output) Cyan(s string) string { return o.Style("36", s) }

// Red is for what goes, and what is wrong.
func (o *Output) Red(s string) string { return o.Style("31", s) }

// Green is for what comes, and what is right.
func (o *Output) Green(s string) string { return o.Style("32", s) }

// Yellow is for what changes, and what to look at.
func (o *Output) Yellow(s string) string { return o.Style("33", s) }

// Style is text in a style by its number, as in ECMA-48.
func (o *Output) Style(code, s string) string {
	if !o.Colour || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
