package dynalimit

import (
	"context"
	"errors"

	"github.com/dynalimit/dynalimit/internal/call"
)

// Acquire takes the amounts, all or nothing, at the entity and at the parents that count. At each of
// them it takes them from the bucket of the resource and from those of the resource's groups
// (admin.LimitConfig.Groups). It returns a lease, which corrects the amounts when the true ones are
// known. It returns a *LimitExceededError if they do not fit.
//
// Errors before any write: *ValidationError for bad input, *fault.TableError for a missing table, and
// *fault.NamespaceError if the namespace is not registered or deleted. Also *UnrecordedError
// (Options.Unrecorded), ErrTooDeep, and *BlockedError if the configuration blocks the call. ErrClosed
// and ctx's own error end any call.
//
// Errors of the buckets: *LimitExceededError (also ErrExceedsBurst), and *PausedError while a bucket is
// paused (Pause). *UnavailableError if DynamoDB does not answer and the policy is Refuse.
// *ContentionError if other clients were first at every try. A give-back that cannot be confirmed joins
// an *UnconfirmedError to the error. If a take may have landed although no answer came, the error is an
// *UnconfirmedError that wraps the *UnavailableError.
func (l *RateLimiter) Acquire(ctx context.Context, entity, resource string, amounts Amounts, opts ...AcquireOption) (*Lease, error) {
	var r call.Request
	var known call.Known
	isKnown, err := l.check(ctx, &r, &known, entity, resource, amounts, opts)
	if err != nil {
		return nil, err
	}
	var seen observed
	if l.reports.acquires {
		ctx, seen = l.reports.observe(ctx, entity, resource, amounts)
		if isKnown {
			known.Readjust() // the observer may have taken its time
		}
	}
	var lease *Lease
	memory := false
	if isKnown && ctx.Err() == nil {
		lease, memory, err = l.recall(ctx, &known)
	}
	if !memory {
		lease, memory, err = l.acquire(ctx, &r, &known)
	}
	if l.reports.acquires {
		seen.report(ctx, lease.Degraded, memory, err)
	}
	return lease, err
}

// Wait is an Acquire that blocks until the amounts fit. Callers of one bucket in this process are
// served first come, first served. The first of them asks the store, at the exact time that the last
// answer gives. Neither a smaller request nor an Acquire takes the tokens that it waits for.
//
// Wait notices a changed limit, a block or a changed group or parent within the configuration's TTL,
// and at once if the change comes through this limiter's repository. It notices a bucket filled by
// others within the TTL. Between processes the order is random, and the more of them wait for one
// bucket, the longer after the exact time a wait may end.
//
// It fails at once with a *LimitExceededError if an amount exceeds a burst, or if ctx's deadline is
// earlier than the computed wait. It fails with ctx's error when ctx ends, and then holds nothing, and
// with ErrClosed when the limiter is closed. Other errors are those of Acquire.
func (l *RateLimiter) Wait(ctx context.Context, entity, resource string, amounts Amounts, opts ...AcquireOption) (*Lease, error) {
	var r call.Request
	if _, err := l.check(ctx, &r, new(call.Known), entity, resource, amounts, opts); err != nil {
		return nil, err
	}
	var seen observed
	if l.reports.acquires {
		ctx, seen = l.reports.observe(ctx, entity, resource, amounts)
	}
	c, memory, err := l.desk.Wait(ctx, &r)
	var lease *Lease
	if err == nil {
		lease = &Lease{limiter: l, call: c}
	} else {
		err = errorOf(l.repo.layout, err)
	}
	if l.reports.acquires {
		seen.report(ctx, lease.Degraded, memory, err)
	}
	return lease, err
}

// Do acquires and calls fn with the lease. If fn returns nil, the lease keeps its tokens. If fn returns
// an error or panics, Do rolls the lease back, unless fn has settled it. Errors are those of Acquire,
// or fn's error joined with that of the rollback.
func (l *RateLimiter) Do(ctx context.Context, entity, resource string, amounts Amounts, fn func(context.Context, *Lease) error, opts ...AcquireOption) error {
	if fn == nil {
		if _, err := l.check(ctx, new(call.Request), new(call.Known), entity, resource, amounts, opts); err != nil {
			return err
		}
		return invalid("fn", "is nil; pass the function to call under the lease")
	}
	lease, err := l.Acquire(ctx, entity, resource, amounts, opts...)
	if err != nil {
		return err
	}
	returned := false
	defer func() {
		if !returned { // a panic: it continues after the give-back
			_ = lease.Rollback(ctx)
		}
	}()
	err = fn(ctx, lease)
	returned = true
	if err != nil {
		return errors.Join(err, lease.Rollback(ctx))
	}
	return nil
}

// check validates the input of a call and fills r. If the call has a shortcut, isKnown is true: check fills
// known, and skips most of the validation.
func (l *RateLimiter) check(ctx context.Context, r *call.Request, known *call.Known, entity, resource string, amounts Amounts, opts []AcquireOption) (isKnown bool, err error) {
	if err = l.usable(ctx); err != nil {
		return false, err
	}
	if isKnown = len(opts) == 0 && l.desk.Know(known, entity, resource, amounts); isKnown {
		r.Entity, r.Resource, r.Amounts = entity, resource, amounts
	} else if *r, err = newRequest(entity, resource, amounts, opts, l.repo.readable); err != nil {
		return false, err
	}
	if l.strangers != nil {
		r.Given = orParent(r.Given, l.strangers)
	}
	if l.closed.Load() {
		return false, ErrClosed
	}
	return isKnown, nil
}

// recall decides a call with a shortcut from memory. memory is false if its bucket has to be asked.
func (l *RateLimiter) recall(ctx context.Context, known *call.Known) (lease *Lease, memory bool, err error) {
	if l.desk.Lanes.Horizon != nil {
		if granted, served := known.Serve(ctx); served {
			return l.leaseServed(&granted), true, nil
		}
	}
	if denial, denied := known.Deny(); denied {
		return nil, true, memoryDenial(&denial)
	}
	return nil, false, nil
}

// acquire decides a call from memory, or asks its buckets. memory reports which.
func (l *RateLimiter) acquire(ctx context.Context, r *call.Request, known *call.Known) (lease *Lease, memory bool, err error) {
	c, memory, err := l.desk.Take(ctx, r, known, nil)
	if err != nil {
		return nil, memory, errorOf(l.repo.layout, err)
	}
	return &Lease{limiter: l, call: c}, memory, nil
}
