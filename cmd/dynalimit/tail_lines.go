package main

import (
	"fmt"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/follow"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// followed is a line of `tail --json`.
type followed struct {
	follow.Status
	// Archive is the progress of the archive. nil without one.
	Archive *follow.ArchiveStatus `json:"archive,omitempty"`
	// Note is a note for operators.
	Note string `json:"note,omitempty"`
	// Ended marks the last line.
	Ended bool `json:"ended"`
}

// printProgress prints the progress of stream and archive: as a line of JSON, as an overwritten line on a
// terminal, or as lines. If last is true, it prints the totals at the end instead. It takes t.mu.
func (t *follower) printProgress(last bool) {
	f := followed{Status: t.progress.Status(), Archive: t.archive.archiveStatus(), Ended: last}
	f.At = t.clock()
	if at, closing := t.closer.Status(); closing {
		f.Closing = at.String()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.out.JSON:
		t.printObject(f)
	case last:
		t.printSummary(f)
	case t.out.Width > 0: // one line that is overwritten
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

// printSummary prints the totals of stream and archive at the end, as sentences. The caller holds t.mu.
func (t *follower) printSummary(f followed) {
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

// clearLine clears the current line of a terminal.
const clearLine = "\r\x1b[K"

// printNote prints a note for operators: as a line of JSON with --json and without --once, else to the notes.
// It clears the line of progress first, and takes t.mu.
func (t *follower) printNote(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.out.JSON && !t.Once {
		t.printObject(followed{Status: follow.Status{At: t.clock()}, Note: term.PlainLines(text)})
		return
	}
	if t.out.Width > 0 && !t.Once {
		fmt.Fprint(t.out, clearLine)
	}
	t.out.Notef("dynalimit: %s", term.PlainLines(text))
}

// printObject prints f as one line of JSON, and ignores errors of writing. The caller holds t.mu.
func (t *follower) printObject(f followed) {
	text, _ := term.Line(f) // numbers and texts always encode
	_, _ = t.out.Write(text)
}
