package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// handover says where a secret goes, which nobody can read again: it is printed only to
// those who ask for that.
type handover struct {
	Out  string `help:"Write the secret into this file, which only you may read. It must not be there yet." placeholder:"FILE" xor:"secret" required:""`
	Show bool   `help:"Print the secret, once." xor:"secret" required:""`
}

// receiver is where a secret is going to be.
type receiver struct {
	handover
	file *os.File // nil for none
}

// prepare makes the file, so that no secret is lost because of it; not in a dry run, in
// which there is none.
func (h handover) prepare(dryRun bool) (*receiver, error) {
	r := &receiver{handover: h}
	switch {
	case h.Show:
		return r, nil
	case h.Out == "", h.Out == "-":
		return nil, badInput("--out %q names no file: name one that is not there yet", h.Out)
	case dryRun:
		if _, err := os.Lstat(h.Out); err == nil {
			return nil, h.refused(os.ErrExist)
		}
		return r, nil
	}
	f, err := os.OpenFile(h.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, h.refused(err)
	}
	r.file = f
	return r, nil
}

// refused is why there is no file.
func (h handover) refused(err error) error {
	if errors.Is(err, os.ErrExist) {
		return badInput("--out: %s is there already: name another file, so that no secret is lost", term.Plain(h.Out))
	}
	return badInput("--out: %s cannot be written: %w; name another file", term.Plain(h.Out), withoutPath(err))
}

// keep writes what is to be kept of a secret; where nothing came of it, it removes the file.
func (r *receiver) keep(text string) error {
	if r.file == nil {
		return nil
	}
	_, err := io.WriteString(r.file, text)
	err = errors.Join(err, r.file.Sync(), r.file.Close())
	if err == nil {
		r.file = nil
		return nil
	}
	_ = os.Remove(r.file.Name())
	r.file = nil
	return fmt.Errorf("the secret could not be written into %s: %w; nobody has it", term.Plain(r.Out), withoutPath(err))
}

// drop removes a file into which nothing was written.
func (r *receiver) drop() {
	if r.file != nil {
		_ = r.file.Close()
		_ = os.Remove(r.file.Name())
		r.file = nil
	}
}

// shown is the secret for a result: empty unless that was asked for.
func (r *receiver) shown(secret credentials.Secret) string {
	if r.Show {
		return secret.Reveal()
	}
	return ""
}

// line says where the secret is.
func (r *receiver) line(secret credentials.Secret) string {
	if r.Show {
		return secret.Reveal()
	}
	return "in " + term.Plain(r.Out) + ", which only you may read"
}

// fields are lines of a name and a value, below each other.
func fields(out *term.Output, pairs ...string) {
	width := 0
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			width = max(width, len(pairs[i]))
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fmt.Fprintf(out, "  %s  %s\n", out.Dim(pairs[i]+strings.Repeat(" ", width-len(pairs[i]))), term.Plain(pairs[i+1]))
		}
	}
}
