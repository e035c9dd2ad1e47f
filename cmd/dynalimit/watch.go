package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

// watch is the flag of top that repeats it.
type watch struct {
	Watch time.Duration `help:"Repeat at this interval, such as 10s, until Ctrl-C." placeholder:"PERIOD"`
}

// Validate refuses a --watch below a second.
func (w watch) Validate() error {
	if w.Watch != 0 && w.Watch < time.Second {
		return fmt.Errorf("--watch is %v: give at least 1s, each reading costs read units", w.Watch)
	}
	return nil
}

// showRepeatedly calls show once with out or, with --watch, after each interval with a buffer, which it then
// prints. It ends when ctx ends or show fails. On a terminal it clears the screen and prints only the lines
// that fit; --json with --watch is refused.
func (w watch) showRepeatedly(ctx context.Context, out *term.Output, show func(*term.Output) error) error {
	if w.Watch == 0 {
		return show(out)
	}
	if out.JSON {
		return badInput("%w", errors.New("--watch is for people: leave --json out, or call it now and then"))
	}
	for {
		var text bytes.Buffer
		if err := show(out.Sheet(&text, out.Width)); err != nil && ctx.Err() == nil {
			return err
		}
		shown := text.String()
		if out.Width > 0 {
			shown = linesUpTo(shown, out.Height-2)
			fmt.Fprint(out, "\x1b[H\x1b[2J")
		}
		if fmt.Fprintln(out, shown); out.Err() != nil || !ddb.Sleep(ctx, w.Watch) {
			return out.Err()
		}
	}
}

// linesUpTo returns the first room lines of a text, or all if room is 0 or less.
func linesUpTo(text string, room int) string {
	lines := strings.SplitAfter(text, "\n")
	if room < 1 || len(lines) <= room {
		return text
	}
	return strings.Join(lines[:room], "")
}
