package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/guard"
)

// lookEvery is the interval between looks at another holder's lease.
const lookEvery = time.Second

// errSilence is why a hold was not renewed when no renewal has failed yet.
var errSilence = errors.New("the table has not answered")

// Do takes the lease, waiting at most a given time for another holder, and runs do
// with it. It reports the holder to told after each look, unless told is nil. The context of
// do ends, with a *fault.LostError as its cause, before another process can take the lease. The lease
// is renewed meanwhile, and released afterwards. If the hold ended too early Do fails with
// that error, also if do returns nil.
func (l *Lock) Do(ctx context.Context, most time.Duration, told func(*fault.LockedError), do func(ctx context.Context) error) (err error) {
	h := &holding{lock: l}
	h.ctx, h.cancel = context.WithCancelCause(ctx)
	defer h.cancel(nil)
	if err := h.wait(most, told); err != nil {
		return err
	}
	var renewals sync.WaitGroup
	renewals.Go(h.renew)
	defer func() {
		lost, early := errors.AsType[*fault.LostError](context.Cause(h.ctx))
		h.cancel(nil)
		renewals.Wait()
		h.end.Stop()
		_ = l.Release(ctx) // it ends by itself if that fails
		if early && !errors.Is(err, fault.ErrLost) {
			err = errors.Join(lost, err)
		}
	}()
	return do(h.ctx)
}

// holding is a lease that is being held.
type holding struct {
	lock   *Lock
	ctx    context.Context
	cancel context.CancelCauseFunc
	// end ends ctx, unless a renewal comes before.
	end *time.Timer

	mu sync.Mutex
	// failed is why the last renewal failed; nil if it did not.
	failed error
}

// wait takes the lease. It waits for another holder.
func (h *holding) wait(most time.Duration, told func(*fault.LockedError)) error {
	var held *fault.LockedError
	end := time.Now().Add(most) // not DynamoDB's time, which is learned meanwhile
	for {
		err := h.takeLease()
		last, ok := errors.AsType[*fault.LockedError](err)
		switch {
		case ok:
			held = last
		case err != nil && held != nil && h.ctx.Err() != nil:
			return fmt.Errorf("%w; %w", err, held)
		default:
			return err
		}
		left := time.Until(end)
		if left <= 0 {
			return held
		}
		if told != nil {
			told(held)
		}
		if !ddb.Sleep(h.ctx, min(left, lookEvery)) {
			return fmt.Errorf("%w; %w", h.ctx.Err(), held)
		}
	}
}

// takeLease takes the lease, unless another process holds it. It releases a possibly taken lease if
// it cannot be used.
func (h *holding) takeLease() error {
	err := h.extend(func() error { return h.lock.Take(h.ctx) })
	if err == nil && h.ctx.Err() != nil { // it ended, or the answer came too late
		h.end.Stop()
		err = context.Cause(h.ctx)
		_ = h.lock.Release(h.ctx)
	} else if unconfirmed(err) {
		_ = h.lock.Release(h.ctx)
	}
	return err
}

// extend sends a request that extends the hold. The end is counted from before the request,
// by a timer, so that neither a clock that steps nor a slow answer puts it off.
func (h *holding) extend(send func() error) error {
	next := time.AfterFunc(endsAfter(h.lock.Hold), h.lose)
	if err := send(); err != nil {
		next.Stop()
		return err
	}
	if h.end != nil {
		h.end.Stop()
	}
	h.end = next
	return nil
}

// renew renews the lease again and again, until the hold ends.
func (h *holding) renew() {
	pause := renewAfter(h.lock.Hold)
	for ddb.Sleep(h.ctx, pause) {
		err := h.extend(func() error { return guard.Apart(func() error { return h.lock.Renew(h.ctx) }) })
		if errors.Is(err, fault.ErrLost) {
			h.cancel(err)
			return
		}
		h.recordRenewal(err)
		if pause = renewAfter(h.lock.Hold); err != nil {
			pause = retryAfter(h.lock.Hold)
		}
	}
}

// recordRenewal remembers how a renewal went.
func (h *holding) recordRenewal(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = err
}

// lose ends the hold, because no renewal came in time.
func (h *holding) lose() {
	h.mu.Lock()
	why := h.failed
	h.mu.Unlock()
	if why == nil {
		why = errSilence
	}
	h.cancel(&fault.LostError{Name: h.lock.Name, Err: why})
}
