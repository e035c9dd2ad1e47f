package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/ledger"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// usageExportCmd exports usage for other programs.
type usageExportCmd struct {
	whose
	byModel
	PerEntity bool `help:"Of each entity that used a resource, in place of the total." xor:"whose"`
	window
	period
	Format string `help:"csv, a line for each limit of a window, or jsonl, an object for each window." enum:"csv,jsonl" default:"csv"`
	Output string `short:"o" help:"Write a file, in place of the one there is. Default: to the standard output, as -." placeholder:"FILE"`
}

// exported is the result of an export as JSON.
type exported struct {
	File    string    `json:"file"`
	Format  string    `json:"format"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Windows int64     `json:"windows"`
}

// Run writes the usage of a period to the file of --output or to standard output, in --format. It extends the
// period to whole windows, and replaces the file only after success. It refuses --json without a file.
func (c usageExportCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	if c.Output == "-" {
		c.Output = "" // standard output
	}
	a, err := c.period.parsePeriod(now(ctx), c.defaultPeriod())
	switch {
	case err != nil:
		return badInput("%w", err)
	case out.JSON && c.Output == "":
		return badInput("--json describes a written file: name one with -o, or give --format jsonl")
	}
	a = a.wholeWindows(c.By, now(ctx))
	return g.withUsageReader(ctx, out, a.zone, func(_ *dynalimit.Repository, r *aggregator.Reader) error {
		all := c.exportedUsage(ctx, r, aggregator.Query{From: a.From, To: a.To, Window: c.By})
		done := exported{c.Output, c.Format, a.From.In(a.zone), a.To.In(a.zone), 0}
		tell := c.progressPrinter(ctx, out)
		tally := func(u aggregator.Usage) {
			done.Windows++
			tell(done.Windows, u)
		}
		if c.Output == "" {
			return c.writeUsage(out, all, tally)
		}
		if err := writeFileAtomically(c.Output, 0o644, func(to io.Writer) error { return c.writeUsage(to, all, tally) }); err != nil {
			return adviseOtherFile(err)
		}
		return out.Show(done, func() {
			fmt.Fprintf(out, "%s written to %s.\n", notation.CountText(done.Windows, "window"), term.Plain(c.Output))
		})
	})
}

// exportedUsage returns a sequence of the usage selected by the flags or, with --per-entity, of that of every
// entity. It reads during the iteration.
func (c usageExportCmd) exportedUsage(ctx context.Context, r *aggregator.Reader, q aggregator.Query) usages {
	if !c.PerEntity {
		return c.findUsage(ctx, r, q)
	}
	q.Resource = c.Resource
	return perEntity(ctx, r, q)
}

// progressPrinter returns a function that notes the number of exported windows and the place of u, the last
// one, at most every two seconds.
func (c usageExportCmd) progressPrinter(ctx context.Context, out *term.Output) func(windows int64, u aggregator.Usage) {
	told := now(ctx)
	return func(windows int64, u aggregator.Usage) {
		if at := now(ctx); at.Sub(told) >= noteInterval {
			told = at
			out.Notef("dynalimit: %s so far, at %s of %s", notation.CountText(windows, "window"), u.Start.Format(time.DateOnly), term.Plain(u.Resource))
		}
	}
}

// writeUsage writes the windows of all to to, in the format of the flags, and calls each after every window. It
// returns the first error, after it flushed the windows before it. If the first element is an error, it writes
// nothing.
func (c usageExportCmd) writeUsage(to io.Writer, all usages, each func(aggregator.Usage)) error {
	add, flush, err := c.windowWriter(to)
	if err != nil {
		return err
	}
	none := true
	for u, err := range all {
		if err != nil && none {
			return err // no titles without rows
		}
		if err != nil {
			return errors.Join(err, flush())
		}
		none = false
		if err := add(u); err != nil {
			return err
		}
		each(u)
	}
	return flush()
}

// windowWriter returns add, which buffers a window as lines of CSV or as one line of JSON, and flush, which
// writes out the buffer. For CSV it also writes the titles into the buffer.
func (c usageExportCmd) windowWriter(to io.Writer) (add func(aggregator.Usage) error, flush func() error, err error) {
	if c.Format == "csv" {
		rows, err := ledger.NewCSV(to, c.ByModel)
		return rows.Add, rows.Flush, err
	}
	buffer := bufio.NewWriter(to)
	return func(u aggregator.Usage) error {
		line, err := term.Line(u)
		if err == nil {
			_, err = buffer.Write(line)
		}
		return err
	}, buffer.Flush, nil
}

// writeFileAtomically calls write with a new file beside path and, if write succeeds, renames it to path. An
// existing file keeps its mode; a new one gets mode, less the umask. It follows links, and writes a pipe or a
// device directly.
func writeFileAtomically(path string, mode os.FileMode, write func(io.Writer) error) error {
	is, err := os.Stat(path)
	if err == nil && !is.Mode().IsRegular() {
		return writeThrough(path, write)
	}
	if to, linked := filepath.EvalSymlinks(path); linked == nil {
		path = to
	} else if to, linked := os.Readlink(path); linked == nil { // the target does not exist yet
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	part := path + ".part-" + rand.Text()[:8]
	f, opened := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if opened != nil {
		return fileWriteError(path, opened)
	}
	if failed := write(f); failed != nil {
		return errors.Join(failed, f.Close(), os.Remove(part))
	}
	if err == nil {
		err = f.Chmod(is.Mode().Perm())
	} else {
		err = nil
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		_ = os.Remove(part)
		return fileWriteError(path, err)
	}
	return nil
}

// writeThrough opens an existing path for writing, calls write with it and closes it. Unlike
// writeFileAtomically it replaces nothing, because the path is a pipe or a device.
func writeThrough(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fileWriteError(path, err)
	}
	if err := write(f); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return fileWriteError(path, err)
	}
	return nil
}

// fileWriteError returns an *unwrittenFile: the error of a file at path that cannot be written, because of err,
// which names the path once.
func fileWriteError(path string, err error) error {
	return &unwrittenFile{path, withoutPath(err)}
}

// unwrittenFile is the error of a file that could not be written.
type unwrittenFile struct {
	path string
	err  error
}

// Error returns the path of the file and the reason why it cannot be written.
func (e *unwrittenFile) Error() string {
	return term.Plain(e.path) + " cannot be written: " + e.err.Error()
}

// Unwrap returns the reason why the file cannot be written.
func (e *unwrittenFile) Unwrap() error { return e.err }

// adviseOtherFile adds the advice to name another file to the error of an unwritten file. It returns other
// errors as they are.
func adviseOtherFile(err error) error {
	if _, ok := errors.AsType[*unwrittenFile](err); ok {
		return fmt.Errorf("%w; name another file with -o", err)
	}
	return err
}

// withoutPath returns the cause inside an *os.PathError, without the path. It returns other errors
// as they are.
func withoutPath(err error) error {
	if of, ok := errors.AsType[*os.PathError](err); ok {
		return of.Err
	}
	return err
}
