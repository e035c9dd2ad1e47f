package credentials

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/guard"
)

// KeyLoader reads a document of keys in the form of ParseKeySet. The context bounds its time.
type KeyLoader func(context.Context) ([]byte, error)

// maxDocument is the maximal size of a document of keys, in bytes.
const maxDocument = 64 << 10

// KeysFile returns a loader that reads the file at path afresh at each call and returns its bytes, unparsed. It
// follows links, so that a switched link takes effect. It refuses anything but a regular file of at most 64
// KiB.
func KeysFile(path string) KeyLoader {
	return func(context.Context) ([]byte, error) {
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() { // opening a pipe would wait for its writer
			return nil, cmp.Or(err, fmt.Errorf("%s is no file", path))
		}
		f, err := os.Open(path) //nolint:gosec // the path is the operator's own
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }() // opened for reading only
		document, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
		if err == nil && len(document) > maxDocument {
			err = fmt.Errorf("%s is larger than %d bytes", path, maxDocument)
		}
		return document, err
	}
}

// WatchOptions configures WatchKeys.
type WatchOptions struct {
	// Interval is the time between two reads, at most KeyDelay/2. Defaults to 10 s.
	Interval time.Duration
	// Timeout bounds one read. Defaults to 10 s.
	Timeout time.Duration
	// Logger logs every document that differs from the last: that its keys are in force, or the
	// reason that it was rejected. Defaults to discarding.
	Logger *slog.Logger
}

// WatchedKeys is a KeySource that reads its document periodically. A document that is
// unreadable or invalid leaves the keys unchanged. It is logged, and Err returns the reason
// until a valid one comes.
type WatchedKeys struct {
	load    KeyLoader
	opts    WatchOptions
	set     atomic.Pointer[KeySet]
	problem atomic.Pointer[error]
	seen    []byte // copy of the last judged document; used by the reading goroutine only
	stop    context.CancelFunc
	done    chan struct{}
}

// WatchKeys reads a document of keys, and then again every interval until Close, on one
// goroutine. The first read must succeed; ctx bounds it.
//
// Errors: *ValidationError for an invalid document or bad options, and errors of load.
func WatchKeys(ctx context.Context, load KeyLoader, options *WatchOptions) (*WatchedKeys, error) {
	var opts WatchOptions
	if options != nil {
		opts = *options
	}
	opts.Interval, opts.Timeout = cmp.Or(opts.Interval, 10*time.Second), cmp.Or(opts.Timeout, 10*time.Second)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case load == nil:
		return nil, invalid("load", "is nil; pass KeysFile(path)")
	case ctx == nil:
		return nil, invalid("ctx", "is nil; pass context.Background() or the context of the start")
	case opts.Interval < 0 || opts.Interval > KeyDelay/2:
		return nil, invalid("options.interval", "is %v; give up to %v, so that every process knows a key before one uses it", opts.Interval, KeyDelay/2)
	case opts.Timeout < 0:
		return nil, invalid("options.timeout", "is %v; give a positive duration, or 0 for the default", opts.Timeout)
	}
	w := &WatchedKeys{load: load, opts: opts, done: make(chan struct{})}
	document, err := load(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: the keys cannot be read: %w", pkg, err)
	}
	set, err := ParseKeySet(document)
	if err != nil {
		return nil, err
	}
	w.set.Store(set)
	w.seen = bytes.Clone(document)
	var watching context.Context
	watching, w.stop = context.WithCancel(context.WithoutCancel(ctx))
	go w.watchLoop(watching)
	return w, nil
}

// Keys implements KeySource. It returns the last valid set that was read, without reading, or nil if WatchKeys
// did not make w.
func (w *WatchedKeys) Keys() *KeySet {
	if w == nil {
		return nil
	}
	return w.set.Load()
}

// Err returns the reason that the last read failed or its document was invalid, or nil after a valid one. The
// keys in use are valid in any case.
func (w *WatchedKeys) Err() error {
	if w == nil {
		return nil
	}
	if err := w.problem.Load(); err != nil {
		return *err
	}
	return nil
}

// Close stops the periodic reading and waits until a read in flight ends. Keys still returns the last set.
// Further calls do nothing.
func (w *WatchedKeys) Close() {
	if w == nil || w.stop == nil {
		return
	}
	w.stop()
	<-w.done
}

// watchLoop reloads the key document every Interval until ctx ends. It closes w.done on return.
func (w *WatchedKeys) watchLoop(ctx context.Context) {
	defer close(w.done)
	ticker := time.NewTicker(w.opts.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.reloadDocument(ctx)
		}
	}
}

// reloadDocument reads the document once, within Timeout, replaces the keys if it is new and valid, clears Err
// and logs that. If the read fails or the document is invalid, it keeps the keys and records the error for Err.
func (w *WatchedKeys) reloadDocument(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, w.opts.Timeout)
	defer cancel()
	var document []byte
	err := guard.Apart(func() (err error) {
		document, err = w.load(bounded)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		w.rejectDocument(fmt.Errorf("%s: the keys cannot be read: %w", pkg, err))
		w.seen = nil // the next document must be judged
		return
	case w.seen != nil && bytes.Equal(document, w.seen):
		return
	}
	w.seen = bytes.Clone(document)
	set, err := ParseKeySet(document)
	if err != nil {
		w.rejectDocument(err)
		return
	}
	w.set.Store(set)
	w.problem.Store(nil)
	w.opts.Logger.Info("keeper/credentials: changed keys were read", "signing", len(set.signing), "peppers", len(set.peppers))
}

// rejectDocument records err for Err; the keys stay unchanged. It logs err unless the recorded error had the
// same text already.
func (w *WatchedKeys) rejectDocument(err error) {
	last := w.problem.Swap(&err)
	if last != nil && (*last).Error() == err.Error() {
		return
	}
	w.opts.Logger.Error("keeper/credentials: the keys cannot be read; the earlier ones stay in use", "error", err)
}
