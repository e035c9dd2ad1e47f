package dynalimit

import (
	"context"
	"errors"

	"github.com/dynalimit/dynalimit/internal/call"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
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
	if err := l.checkUsable(ctx); err != nil {
		return nil, err
	}
	var lease *Lease
	memory, err := false, error(nil)
	plain := len(opts) == 0 && !l.closed.Load()
	if plain && !l.reports.acquires {
		if lease, memory, err = l.decideFromMemory(ctx, entity, resource, amounts); memory {
			return lease, err
		}
	}
	var r call.Request
	if err = l.makeRequest(&r, entity, resource, amounts, opts); err != nil {
		return nil, err
	}
	var seen observed
	if l.reports.acquires {
		ctx, seen = l.reports.observeAcquire(ctx, entity, resource, amounts)
		if plain { // only now: the observer may have taken its time
			lease, memory, err = l.decideFromMemory(ctx, entity, resource, amounts)
		}
	}
	if !memory {
		var c *call.Call
		if c, memory, err = l.desk.Take(ctx, &r, nil); err == nil {
			lease = &Lease{limiter: l, call: c}
		} else {
			err = errorOf(l.repo.layout, err)
		}
	}
	if l.reports.acquires {
		seen.reportEnd(ctx, lease, memory, err)
	}
	return lease, err
}

// Wait is an Acquire that blocks until the amounts fit. Callers of one bucket in this process are
// served first come, first served, and those of several processes nearly so. The first of them asks the
// store, at the exact time that the last answer gives. A smaller request does not take the tokens that it
// waits for. A denied Acquire has a place at the end of the line, and RetryAfter is its turn.
//
// Wait notices a changed limit, a block or a changed group or parent within the configuration's TTL,
// and at once if the change comes through this limiter's repository. It notices give-backs of other
// processes within a second while they use the bucket, and later within the TTL. Processes with waiters for
// one bucket share it in proportion to the number of their waiters.
//
// It fails at once with a *LimitExceededError if an amount exceeds a burst, or if ctx's deadline is
// earlier than the computed wait. It fails with ctx's error when ctx ends, and then holds nothing, and
// with ErrClosed when the limiter is closed. Other errors are those of Acquire.
func (l *RateLimiter) Wait(ctx context.Context, entity, resource string, amounts Amounts, opts ...AcquireOption) (*Lease, error) {
	if err := l.checkUsable(ctx); err != nil {
		return nil, err
	}
	var r call.Request
	if err := l.makeRequest(&r, entity, resource, amounts, opts); err != nil {
		return nil, err
	}
	var seen observed
	if l.reports.acquires {
		ctx, seen = l.reports.observeAcquire(ctx, entity, resource, amounts)
	}
	c, memory, err := l.desk.Wait(ctx, &r)
	var lease *Lease
	if err == nil {
		lease = &Lease{limiter: l, call: c}
	} else {
		err = errorOf(l.repo.layout, err)
	}
	if l.reports.acquires {
		seen.reportEnd(ctx, lease, memory, err)
	}
	return lease, err
}

// Do acquires and calls fn with the lease. If fn returns nil, the lease keeps its tokens, and Do gives back its
// slots of calls in flight. If fn returns an error or panics, Do rolls the lease back, unless fn has settled
// it; a panic continues. Errors are those of Acquire, fn's error joined with that of the rollback, and a
// *ValidationError for a nil fn.
func (l *RateLimiter) Do(ctx context.Context, entity, resource string, amounts Amounts, fn func(context.Context, *Lease) error, opts ...AcquireOption) error {
	if fn == nil {
		if err := l.checkUsable(ctx); err != nil {
			return err
		}
		if err := l.makeRequest(new(call.Request), entity, resource, amounts, opts); err != nil {
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
	if lease.holdsSlots() { // the call has ended
		return lease.Settle(ctx, nil)
	}
	return nil
}

// makeRequest validates the input of a call and fills r, with the options applied. To a call without a parent it
// adds Options.StrangersParent. It returns a *ValidationError for bad input, and ErrClosed if the limiter is
// closed. With RepositoryOptions.Compatible it also refuses resources and limits that zae-limiter cannot read.
func (l *RateLimiter) makeRequest(r *call.Request, entity, resource string, amounts Amounts, opts []AcquireOption) (err error) {
	*r = call.Request{Entity: entity, Resource: resource, Amounts: amounts}
	if reason := schema.EntityRule.Check(entity); reason != "" {
		return invalid("entity", "%s", reason)
	}
	if reason := schema.ResourceRule.Check(resource); reason != "" {
		return invalid("resource", "%s", reason)
	}
	if err = checkAmounts(amounts, false); err != nil {
		return err
	}
	if len(opts) > 0 {
		if r.Options, err = applyOptions(opts, entity); err != nil {
			return err
		}
	}
	if l.repo.readable {
		if err = shared.CheckCompatible(resource, "WithLimits", r.Limits); err != nil {
			return err
		}
	}
	if l.strangers != nil {
		r.Given = addStrangersParent(r.Given, l.strangers)
	}
	if l.closed.Load() {
		return ErrClosed
	}
	return nil
}

// decideFromMemory decides a call without options, without a request: prefetched tokens admit it, or the last
// image of its bucket denies it. The result is the lease or the denial. Without decided, both are nil and the
// buckets must be asked.
func (l *RateLimiter) decideFromMemory(ctx context.Context, entity, resource string, amounts Amounts) (lease *Lease, decided bool, err error) {
	var memory call.Memory
	switch l.desk.Try(ctx, entity, resource, amounts, &memory) {
	case call.Served:
		return l.leaseServed(&memory.Grant), true, nil
	case call.Refused:
		return nil, true, memoryDenial(&memory.Denial)
	default:
		return nil, false, nil
	}
}

// addStrangersParent returns the parent and plan that a call gives, with the parent of strangers if it gives no
// parent. It changes g in place, and returns strangers itself if g is nil.
func addStrangersParent(g, strangers *call.Given) *call.Given {
	if g == nil {
		return strangers
	}
	if !g.ByCall {
		g.Parent = strangers.Parent // g belongs to this call alone
	}
	return g
}

// checkUsable returns a *ValidationError for a limiter that New did not make, and for a nil context. It returns
// nil otherwise, also for a closed limiter.
func (l *RateLimiter) checkUsable(ctx context.Context) error {
	if l == nil || l.repo == nil {
		return invalid("limiter", "was not made by New; make one with dynalimit.New(repo, nil)")
	}
	if ctx == nil {
		return checkContext(ctx)
	}
	return nil
}

// checkAmounts returns a *ValidationError for empty amounts, a bad name of a limit, and an amount beyond ±10^12
// tokens. It refuses a negative amount unless signed is set, as for Adjust. It does not check that the limits
// exist.
func checkAmounts(amounts Amounts, signed bool) error {
	if len(amounts) == 0 {
		return invalid("amounts", "is empty; name at least one limit, for example dynalimit.Amounts{\"rpm\": 1}")
	}
	for name, n := range amounts {
		if reason := schema.LimitRule.Check(name); reason != "" {
			return invalid("amounts", "limit name %s", reason)
		}
		if n < 0 && !signed {
			return invalid("amounts["+name+"]", "is %d; give 0 or more (only Lease.Adjust takes negative amounts, and gives them back)", n)
		}
		if n > maxTokens || n < -maxTokens {
			return invalid("amounts["+name+"]", "is %d; at most %d tokens are allowed", n, int64(maxTokens))
		}
	}
	return nil
}
