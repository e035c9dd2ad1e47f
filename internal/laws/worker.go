package laws

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dynalimit/dynalimit"
)

// worker is one of the concurrent callers, with its own random source.
type worker struct {
	h *history
	r *rand.Rand
}

// callContext returns the context of a call and the function that frees it. One in ten contexts ends early, at
// a random instant.
func (w *worker) callContext() (context.Context, context.CancelFunc) {
	ctx := w.h.ctx
	if w.r.Float64() >= .1 {
		return ctx, func() {}
	}
	if w.h.mode.latency == 0 && !w.h.mode.faults {
		ctx, cancel := context.WithCancel(ctx)
		go cancel()
		return ctx, cancel
	}
	return context.WithTimeout(ctx, time.Duration(w.r.Int64N(1+4*w.h.mode.latency))*time.Millisecond)
}

// waiting marks the context of a Wait.
type waiting struct{}

// withPatience returns ctx with a random deadline of at most a minute, marked as that of a Wait for
// checkPatience. The returned function frees it and calls cancel.
func (w *worker) withPatience(ctx context.Context, cancel context.CancelFunc) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithTimeout(context.WithValue(ctx, waiting{}, true), time.Duration(w.r.Int64N(60_000))*time.Millisecond)
	return ctx, func() {
		stop()
		cancel()
	}
}

// checkPatience records a violation if err denies a Wait although its turn would have come before its deadline.
// It ignores other errors, unconfirmed ones, and calls without a context from withPatience.
func (w *worker) checkPatience(ctx context.Context, err error) {
	var denied *dynalimit.LimitExceededError
	deadline, waits := ctx.Deadline()
	if !waits || !errors.As(err, &denied) || ctx.Value(waiting{}) == nil || errors.Is(err, dynalimit.ErrUnconfirmed) {
		return
	}
	if left := time.Until(deadline); denied.RetryAfter <= left {
		w.h.recordError(fmt.Errorf("L6: a wait gave up %v before its deadline: %w; retry after %v", left, err, denied.RetryAfter))
	}
}
