// Command calls makes one call of each kind on ddbmem, in virtual time. It writes the coverage of each one
// into a folder of its argument. Command measures builds it and reads the coverage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/coverage"
	"testing"
	"testing/synctest"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// main writes the coverage of each kind of call into the folder of the first argument. It runs as
// a test, because only a test may open a bubble.
func main() {
	everything := func(string, string) (bool, error) { return true, nil }
	makeCalls := func(t *testing.T) {
		if err := (&walk{db: ddbmem.New(), out: flag.Arg(0)}).makeCalls(t.Context()); err != nil {
			t.Error(err)
		}
	}
	testing.Main(everything, []testing.InternalTest{{ // only a test may open a bubble
		Name: "calls",
		F:    func(t *testing.T) { synctest.Test(t, makeCalls) },
	}}, nil, nil)
}

// walk makes the calls, on one table, by one limiter.
type walk struct {
	db      *ddbmem.DB
	limiter *dynalimit.RateLimiter
	lease   *dynalimit.Lease
	out     string
}

// makeCalls makes the calls of each kind and the calls that prepare them, and writes the coverage of each kind.
// It fails if a kind makes another number of requests.
func (w *walk) makeCalls(ctx context.Context) error {
	repo, err := dynalimit.NewRepository(w.db.Client(), "limits", nil)
	if err != nil {
		return err
	}
	w.limiter, err = dynalimit.New(repo, &dynalimit.Options{
		OnUnavailable: dynalimit.Allow,
		Limits:        []dynalimit.Limit{dynalimit.PerMinute("rpm", 1000), dynalimit.PerMinute("tpm", 100_000)},
	})
	if err != nil {
		return err
	}
	one, big := dynalimit.Amounts{"rpm": 1, "tpm": 100}, dynalimit.Amounts{"rpm": 1, "tpm": 99_999}
	for _, step := range []struct {
		kind     string // empty if the call only prepares the next one
		requests int    // of the call; less than zero if it does not matter
		do       func(context.Context) error
	}{
		{"", -1, repo.CreateTable},
		{"acquire cold", 2, w.acquireCall(one)},
		{"", -1, w.settleLease},
		{"", -1, w.acquireCall(one)},
		{"acquire warm", 1, w.acquireCall(one)},
		{"settle", 1, w.settleLease},
		{"", -1, w.acquireCall(dynalimit.Amounts{"tpm": 90_000})},
		{"denial from memory", 0, w.denyCall(big)},
		{"denial again", 0, w.denyCall(big)},
	} {
		if err := w.measureCall(ctx, step.kind, step.requests, step.do); err != nil {
			return fmt.Errorf("%s: %w", step.kind, err)
		}
	}
	return nil
}

// acquireCall returns a function that acquires amounts and keeps the lease for settleLease.
func (w *walk) acquireCall(amounts dynalimit.Amounts) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		w.lease, err = w.limiter.Acquire(ctx, "u", "m", amounts)
		return err
	}
}

// denyCall returns a function that makes a call which must be denied. It fails after any other outcome.
func (w *walk) denyCall(amounts dynalimit.Amounts) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := w.limiter.Acquire(ctx, "u", "m", amounts)
		if denial := (*dynalimit.LimitExceededError)(nil); errors.As(err, &denial) {
			return nil
		}
		return fmt.Errorf("no denial: %w", err)
	}
}

// settleLease settles the kept lease to 90 tpm.
func (w *walk) settleLease(ctx context.Context) error {
	return w.lease.Settle(ctx, dynalimit.Amounts{"tpm": 90})
}

// measureCall clears the coverage counters, calls do, and waits until all work that it started has ended.
// Unless kind is "", it writes the coverage into a folder of that name, and fails for another number of
// requests.
func (w *walk) measureCall(ctx context.Context, kind string, requests int, do func(context.Context) error) error {
	synctest.Wait()
	before := w.db.Meter().Requests()
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	if err := do(ctx); err != nil {
		return err
	}
	synctest.Wait()
	if kind == "" {
		return nil
	}
	if made := int(w.db.Meter().Requests() - before); made != requests {
		return fmt.Errorf("made %d requests in place of %d: it is no call of this kind", made, requests)
	}
	dir := filepath.Join(w.out, kind)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := coverage.WriteMetaDir(dir); err != nil {
		return err
	}
	return coverage.WriteCountersDir(dir)
}
