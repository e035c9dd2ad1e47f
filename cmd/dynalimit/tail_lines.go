package main

import (
	"fmt"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/follow"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// followed is a line of `tail --json`.
type followed struct {
	follow.Status
	// Archive is how far what expires was archived; nil where nobody asked for it.
	Archive *follow.ArchiveStatus `json:"archive,omitempty"`
	// Note is what somebody should know of.
	Note string `json:"note,omitempty"`
	// Ended says that it is the last.
	Ended bool `json:"ended"`
}

// line says how it goes.
func (t *follower) line(last bool) {
	f := followed{Status: t.progress.Status(), Archive: t.archive.status(), Ended: last}
	f.At = t.clock()
	if at, closing := t.closer.Status(); closing {
		f.Closing = at.String()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.out.JSON:
		t.object(f)
	case last:
		t.summary(f)
	case t.out.Width > 0: // one line that changes
		text := f.Text()
		if f.Archive != nil {
			text += "; archive: " + f.Archive.Text()
		}
		fmt.Fprint(t.out, clearLine+t.out.Cut(text, 1))
	default:
		at := f.At.UTC().Format("15:04:05") + "  "
		fmt.Fprintln(t.out, at+f.Text())
		if f.Archive != nil {
			fmt.Fprintln(t.out, at+"archive: "+f.Archive.Text())
		}
	}
}

// summary are the last lines.
func (t *follower) summary(f followed) {
	switch {
	case t.Once:
		fmt.Fprintf(t.out, "Up to date: %s.\n", f.Done())
	case t.out.Width > 0:
		fmt.Fprintf(t.out, "%sStopped: %s.\n", clearLine, f.Done())
	default:
		fmt.Fprintf(t.out, "Stopped: %s.\n", f.Done())
	}
	if f.Archive != nil {
		fmt.Fprintf(t.out, "Archive: %s.\n", f.Archive.Done())
	}
}

// clearLine begins the line of a terminal anew.
const clearLine = "\r\x1b[K"

// note says what somebody should know of.
func (t *follower) note(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.out.JSON && !t.Once {
		t.object(followed{Status: follow.Status{At: t.clock()}, Note: term.PlainLines(text)})
		return
	}
	if t.out.Width > 0 && !t.Once {
		fmt.Fprint(t.out, clearLine)
	}
	t.out.Notef("dynalimit: %s", term.PlainLines(text))
}

// object prints a line of JSON.
func (t *follower) object(f followed) {
	text, _ := term.Line(f) // of numbers and a text
	_, _ = t.out.Write(text)
}
