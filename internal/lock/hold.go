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

// Do takes the lease, waiting for another holder for at most the time most, runs do with it, renews it
// meanwhile and releases it. It calls told, unless nil, with the other holder before each pause. The context of
// do ends with a *fault.LostError as its cause before another process can take the lease; Do then returns that
// error, also if do returns nil.
func (l *Lock) Do(ctx context.Context, most time.Duration, told func(*fault.LockedError), do func(ctx context.Context) error) (err error) {
	h := &holding{lock: l}
	h.ctx, h.cancel = context.WithCancelCause(ctx)
	defer h.cancel(nil)
	if err := h.awaitLease(most, told); err != nil {
		return err
	}
	var renewals sync.WaitGroup
	renewals.Go(h.renewPeriodically)
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

// awaitLease takes the lease. While another process holds it, it calls told, unless nil, and tries again each
// second; after the time most it returns a *fault.LockedError. If ctx ends meanwhile, the error matches both.
func (h *holding) awaitLease(most time.Duration, told func(*fault.LockedError)) error {
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

// takeLease takes the lease, or returns a *fault.LockedError while another process holds it. It releases a
// lease that it may have taken but cannot use.
func (h *holding) takeLease() error {
	err := h.extendHold(func() error { return h.lock.Take(h.ctx) })
	if err == nil && h.ctx.Err() != nil { // it ended, or the answer came too late
		h.end.Stop()
		err = context.Cause(h.ctx)
		_ = h.lock.Release(h.ctx)
	} else if isUnconfirmed(err) {
		_ = h.lock.Release(h.ctx)
	}
	return err
}

// extendHold calls send, a request that extends the hold, and then sets the timer of the hold's end; after an
// error the old timer stays. The time counts from before the request, so that neither a clock that steps nor a
// slow answer delays the end.
func (h *holding) extendHold(send func() error) error {
	next := time.AfterFunc(endsAfter(h.lock.Hold), h.endHold)
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

// renewPeriodically renews the lease until the hold ends. It ends the hold at once if another process has the
// lease, and tries again sooner after any other failure.
func (h *holding) renewPeriodically() {
	pause := renewAfter(h.lock.Hold)
	for ddb.Sleep(h.ctx, pause) {
		err := h.extendHold(func() error { return guard.Apart(func() error { return h.lock.Renew(h.ctx) }) })
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

// recordRenewal keeps the error of the last renewal; nil after a success.
func (h *holding) recordRenewal(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = err
}

// endHold ends the context of the hold with a *fault.LostError, because no renewal came in time. It has the
// error of the last renewal.
func (h *holding) endHold() {
	h.mu.Lock()
	why := h.failed
	h.mu.Unlock()
	if why == nil {
		why = errSilence
	}
	h.cancel(&fault.LostError{Name: h.lock.Name, Err: why})
}
