package ddb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Backoff is the wait between tries: random, up to a bound that doubles with each try (full jitter). Clients
// that failed together then do not come back together.
type Backoff struct {
	// First bounds the wait after the first try, Most every wait.
	First, Most time.Duration
}

// Wait returns the random wait after a try, counted from 0. It is above 0 and at most Most, and does not wait
// itself.
func (b Backoff) Wait(try int) time.Duration {
	most := b.Most
	if try = max(try, 0); try < 62 && b.First<<try>>try == b.First {
		most = min(b.First<<try, b.Most)
	}
	return rand.N(most) + 1
}

// Pause waits after a try, counted from 0, and returns true. It returns false if ctx ended first.
func (b Backoff) Pause(ctx context.Context, try int) bool { return Sleep(ctx, b.Wait(try)) }

// WithEnd returns err, the error of a last try, and the reason for the end of ctx if it has ended. It returns err
// itself if ctx goes on, or if err says that reason or is nil.
func WithEnd(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%w; the last try: %w", context.Cause(ctx), err)
}

// Sleep waits for d and returns true. It returns false as soon as ctx has ended.
func Sleep(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
