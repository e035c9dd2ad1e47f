package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/aggregator/archive"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/follow"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// archiveName is the name of the archive's checkpoints and leases.
const archiveName = "archive"

// checkFolder creates a folder for its owner only, unless it exists, and tests that a file can be written into
// it. The file is removed again. For "" it does nothing.
func checkFolder(name string) error {
	if name == "" {
		return nil
	}
	err := os.MkdirAll(name, 0o700)
	if err == nil {
		var f *os.File
		if f, err = os.CreateTemp(name, ".*.unfinished"); err == nil {
			err = errors.Join(f.Close(), os.Remove(f.Name()))
		}
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("no file can be written into %s: %w; name another folder with --archive", term.Plain(name), withoutPath(err))
}

// archiver writes expired items into a folder, independently of the fold. A nil archiver does
// nothing.
type archiver struct {
	folder   string
	tail     *aggregator.Tail
	progress *follow.Progress
	tell     func(string)
	// giveUp ends a run after too many failures. It is nil if the run must not end by itself.
	giveUp context.CancelCauseFunc
	tries  int

	mu    sync.Mutex
	fails int
	why   error
}

// newArchiver returns an archiver that writes expired items of the table's stream as files into folder; it does
// not start it. opts are those of the aggregating Tail, with another name and observer. note receives its
// notes.
func newArchiver(streams aggregator.StreamsAPI, client *dynamodb.Client, table, folder string, opts aggregator.TailOptions, note func(string)) (*archiver, error) {
	a := &archiver{folder: folder, tell: func(text string) { note("archive: " + text) }}
	a.progress = follow.New(time.Now, a.tell)
	files, err := archive.New(archive.Folder(folder), nil)
	if err != nil {
		return nil, err
	}
	opts.Name, opts.Observer = archiveName, a.progress.Observer()
	a.tail, err = aggregator.NewTail(streams, client, table, a.countFailures(files.Process), &opts)
	return a, err
}

// countFailures returns a function that calls process, and counts consecutive calls with an unwritten record in
// a.fails. After a.tries of them it calls a.giveUp, if set. Failures after the end of ctx do not count.
func (a *archiver) countFailures(process aggregator.ProcessFunc) aggregator.ProcessFunc {
	return func(ctx context.Context, records []aggregator.Record) (aggregator.Result, error) {
		result, err := process(ctx, records)
		if ctx.Err() != nil {
			return result, err
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.fails++
		if a.why = unwrittenError(result); a.why == nil {
			a.fails = 0
		}
		if a.giveUp != nil && a.fails == a.tries {
			a.giveUp(a.why)
		}
		return result, err
	}
}

// unwrittenError returns the error of the first record in result that could not be written, or nil. Unreadable
// records do not count.
func unwrittenError(result aggregator.Result) error {
	for _, f := range result.Failures {
		if !f.Unreadable {
			return f.Err
		}
	}
	return nil
}

// archiveStatus returns the archive's progress so far, or nil for a nil archiver.
func (a *archiver) archiveStatus() *follow.ArchiveStatus {
	if a == nil {
		return nil
	}
	s := a.progress.Status().AsArchive()
	return &s
}

// startArchive archives in a goroutine until ctx ends, and notes an earlier end. The returned function waits
// for the end, and returns an error if items were not archived. For a nil archiver both do nothing.
func (a *archiver) startArchive(ctx context.Context) (wait func() error) {
	if a == nil {
		return func() error { return nil }
	}
	ended := make(chan error, 1)
	go func() {
		err := a.tail.Run(ctx)
		if err != nil && ctx.Err() == nil {
			a.tell(fmt.Sprintf("it has stopped: %v", err))
		}
		ended <- err
	}()
	return func() error { return a.leftError(<-ended) }
}

// startOnce archives the items that have expired by now, in a goroutine. The returned function waits for its
// end, and returns an error if items were not archived. For a nil archiver both do nothing.
func (a *archiver) startOnce(ctx context.Context, how pace) (wait func() error) {
	if a == nil {
		return func() error { return nil }
	}
	ended := make(chan error, 1)
	go func() { ended <- a.catchUp(ctx, how) }()
	return func() error { return a.leftError(<-ended) }
}

// catchUp archives until the stream's records from before its start are processed, and waits for the end of the
// tail. It fails after how.tries consecutive failures to write a file, and if ctx ends. It sets a.giveUp and
// a.tries.
func (a *archiver) catchUp(ctx context.Context, how pace) error {
	following, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	a.giveUp, a.tries = stop, how.tries
	ended := make(chan error, 1)
	go func() { ended <- a.tail.Run(following) }()
	how.tries = 0 // it gives up on its own
	tailEnded, err := waitForCatchUp(following, ended, a.progress, how)
	if tailEnded {
		return err
	}
	stop(nil)
	return <-ended
}

// leftError converts err, the end of a run, to an error that says why items were not archived: the last failure
// to write, if any. It returns nil for nil.
func (a *archiver) leftError(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil:
		return nil
	case a.why == nil:
		return fmt.Errorf("not all expired items were archived: %w", err)
	}
	return &failure{exitFailed, fmt.Errorf("not all expired items were archived: %w; the next archiver does it within a day, once %s is writable", a.why, term.Plain(a.folder))}
}
