package dynalimit

import (
	"context"
	"errors"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
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
	var r request
	var known knownCall
	if err := l.check(ctx, &r, &known, entity, resource, amounts, opts); err != nil {
		return nil, err
	}
	var call observed
	if l.desk.hearsAcquires {
		ctx, call = l.desk.observe(ctx, entity, resource, r.amounts)
	}
	var lease *Lease
	var err error
	memory := false
	if known.by != nil && ctx.Err() == nil {
		lease, memory, err = known.answer(ctx)
	}
	if !memory {
		lease, memory, err = l.acquire(ctx, &r, known.by, position{})
	}
	if l.desk.hearsAcquires {
		call.tell(ctx, lease.Degraded, memory, err)
	}
	return lease, err
}

// Do acquires and calls fn with the lease. If fn returns nil, the lease keeps its tokens. If fn returns
// an error or panics, Do rolls the lease back, unless fn has settled it. Errors are those of Acquire,
// or fn's error joined with that of the rollback.
func (l *RateLimiter) Do(ctx context.Context, entity, resource string, amounts Amounts, fn func(context.Context, *Lease) error, opts ...AcquireOption) error {
	if fn == nil {
		if err := l.check(ctx, new(request), new(knownCall), entity, resource, amounts, opts); err != nil {
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

// check validates the input of a call and fills r. It fills known, and skips most of the validation, if
// the call has a shortcut.
func (l *RateLimiter) check(ctx context.Context, r *request, known *knownCall, entity, resource string, amounts Amounts, opts []AcquireOption) (err error) {
	if err = l.usable(ctx); err != nil {
		return err
	}
	if l.desk.know(known, entity, resource, amounts, opts) {
		r.entity, r.resource, r.amounts = entity, resource, amounts
	} else if *r, err = newRequest(entity, resource, amounts, opts); err != nil {
		return err
	}
	if strangers := l.desk.routes.strangers; strangers != nil {
		r.opts.given = r.opts.given.orParent(strangers)
	}
	if l.closed.Load() {
		return ErrClosed
	}
	return nil
}

// acquire takes the amounts of a request. It uses prefetched tokens if they suffice, then denies if the
// last image of a bucket does, and else asks the buckets. memory reports whether it decided from
// memory. It starts again if a limit was removed meanwhile. known is the request's shortcut, nil if it
// has none. at is the position of a caller that may stand in a bucket's line. Such a caller gets a
// lease with a denial too, because the lease shows the levels' balances.
//
//nolint:cyclop,gocognit // the one page of a call: each guard stands where its feature leaves the way
func (l *RateLimiter) acquire(ctx context.Context, r *request, known *shortcut, at position) (*Lease, bool, error) {
	d := l.desk
	for try := 1; ; try++ {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		if d.table.Open() {
			if err := d.routes.refuse(r); err != nil {
				return nil, false, err
			}
		}
		p := patience{most: d.timeout} // begins when something has to be asked of the store
		var rungs [1]rung              // room for most cascades, on the stack: a denial from memory makes nothing else
		var asked [4]plan.Signed
		c, policy, err := cascade{rungs: rungs[:0], asked: asked[:0]}, UnavailablePolicy(""), error(nil)
		if known != nil {
			c, policy = known.find(r, c)
		} else {
			c, policy, err = d.routes.find(ctx, r, c, &p)
		}
		if err != nil && unavailable(err) {
			c, err = d.routes.unconfigured(r, c, policy, err)
		}
		if err == nil { // before anything is asked, or served
			err = d.pausedAmong(len(c.rungs), func(i int) *lane.Lane { return c.rungs[i].lane })
		}
		if err != nil {
			return nil, p.began.IsZero() && isKnownRefusal(err), err
		}
		memory, served := false, d.lanes.Horizon != nil && d.serves(r, &c) && c.serve(ctx)
		if !served {
			if memory, err = c.recall(ctx, r, at, d.nowMS()); err != nil {
				d.markHeld(err)
			}
		}
		if known == nil && (served || memory) && len(c.rungs) == 1 {
			d.remember(r, c.rungs[0].lane)
		}
		if err != nil && !at.waits {
			return nil, memory, err
		}
		held := &heldLease{}
		held.charge = &held.room
		lease := &held.Lease
		lease.charge.open(d, r, &c, policy)
		if served {
			lease.charge.bookServed()
			return lease, true, nil
		}
		if err != nil {
			return lease, memory, err
		}
		t := taking{charge: lease.charge, at: at, patience: p}
		if err = t.take(ctx); err == nil {
			err = d.pausedAmong(len(lease.charge.levels), func(i int) *lane.Lane { return lease.charge.levels[i].lane })
			if err == nil {
				if e := d.noteUnsettled(lease.charge.levels); e != nil {
					lease.estimated(e)
				}
				return lease, lease.charge.levels == nil && lease.charge.unlimited && p.began.IsZero(), nil
			}
			err = joined(err, lease.charge.undo(ctx)) // the pause was learnt meanwhile; with the process's share
		}
		d.markHeld(err)
		if try == maxOutdated || !outdated(err) {
			return at.denied(lease), false, err
		}
		known = nil
	}
}

// isKnownRefusal reports whether an error comes from memory, without a question to the bucket: a
// block, a pause, or a missing record.
func isKnownRefusal(err error) bool {
	return errors.Is(err, ErrBlocked) || errors.Is(err, ErrPaused) || errors.Is(err, ErrUnrecorded)
}

// denied returns the lease to return beside an error: nil unless the caller may wait in a line.
func (p position) denied(lease *Lease) *Lease {
	if p.waits {
		return lease
	}
	return nil
}
