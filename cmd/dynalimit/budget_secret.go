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

// handover decides where a secret goes, because it can be read only once. It is printed only on
// request.
type handover struct {
	Out  string `help:"Write the secret into this file, which only you may read. It must not be there yet." placeholder:"FILE" xor:"secret" required:""`
	Show bool   `help:"Print the secret, once." xor:"secret" required:""`
}

// receiver is the prepared target of a secret.
type receiver struct {
	handover
	file *os.File // nil without a file
}

// prepareReceiver creates the file of --out, readable by its owner only, before the secret exists, so that no
// secret is lost. It fails if the file exists or has no name. In a dry run it only checks that, and with --show
// it does nothing.
func (h handover) prepareReceiver(dryRun bool) (*receiver, error) {
	r := &receiver{handover: h}
	switch {
	case h.Show:
		return r, nil
	case h.Out == "", h.Out == "-":
		return nil, badInput("--out %q names no file: name one that is not there yet", h.Out)
	case dryRun:
		if _, err := os.Lstat(h.Out); err == nil {
			return nil, h.explainRefused(os.ErrExist)
		}
		return r, nil
	}
	f, err := os.OpenFile(h.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, h.explainRefused(err)
	}
	r.file = f
	return r, nil
}

// explainRefused converts the error of creating the file of --out to bad input that says whether the file
// exists or cannot be written, with advice.
func (h handover) explainRefused(err error) error {
	if errors.Is(err, os.ErrExist) {
		return badInput("--out: %s is there already: name another file, so that no secret is lost", term.Plain(h.Out))
	}
	return badInput("--out: %s cannot be written: %w; name another file", term.Plain(h.Out), withoutPath(err))
}

// writeSecret writes text with a secret to the prepared file, syncs and closes it, so that removeEmpty leaves
// it. Without a file it does nothing. After an error it removes the file.
func (r *receiver) writeSecret(text string) error {
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

// removeEmpty closes and removes the prepared file if writeSecret has not written to it; otherwise it does
// nothing. It ignores errors.
func (r *receiver) removeEmpty() {
	if r.file != nil {
		_ = r.file.Close()
		_ = os.Remove(r.file.Name())
		r.file = nil
	}
}

// shownSecret returns the secret in plain text with --show, else "".
func (r *receiver) shownSecret(secret credentials.Secret) string {
	if r.Show {
		return secret.Reveal()
	}
	return ""
}

// describeTarget returns for printing the secret itself in plain text with --show, else "in" and the name of
// its file.
func (r *receiver) describeTarget(secret credentials.Secret) string {
	if r.Show {
		return secret.Reveal()
	}
	return "in " + term.Plain(r.Out) + ", which only you may read"
}

// printFields prints pairs of name and value, each on an indented line, with the values aligned. It omits empty
// values; pairs has a value after each name.
func printFields(out *term.Output, pairs ...string) {
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
