package main

import (
	"io"
	"os"
)

// output is where commands write for a person. It is an io.Writer and adds
// colour only where one can be shown.
type output struct {
	io.Writer
	colour bool
	notes  io.Writer // of what is no result; set by run
}

// newOutput writes to file, in colour if that is a terminal and neither NO_COLOR
// (https://no-color.org) nor a dumb terminal forbids it.
func newOutput(file *os.File, getenv func(string) string) *output {
	info, err := file.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &output{Writer: file, colour: terminal && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"}
}

func (o *output) bold(s string) string { return o.style("1", s) }
func (o *output) dim(s string) string  { return o.style("2", s) }
func (o *output) cyan(s string) string { return o.style("36", s) }

func (o *output) style(code, s string) string {
	if !o.colour {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
