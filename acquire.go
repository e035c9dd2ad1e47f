package dynalimit

import (
	"cmp"
	"context"
	"errors"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// request is a call whose input has been checked.
type request struct {
	entity, resource string
	amounts          Amounts
	opts             acquireOptions
}

func newRequest(entity, resource string, amounts Amounts, opts []AcquireOption) (request, error) {
	r := request{entity: entity, resource: resource, amounts: amounts}
	if len(opts) > 0 {
		r.opts = applyOptions(opts)
	}
	if err := checkEntityID("entity", entity); err != nil {
		return r, err
	}
	if err := checkResource(resource); err != nil {
		return r, err
	}
	if err := checkAmounts(amounts, false); err != nil {
		return r, err
	}
	if err := checkPolicy("WithOnUnavailable", r.opts.onUnavailable); err != nil {
		return r, err
	}
	if err := checkCascade("WithCascade", r.opts.cascade); err != nil {
		return r, err
	}
	if len(r.opts.limits) > 0 {
		var err error
		if r.opts.limits, err = normalizeLimits("WithLimits", r.opts.limits); err != nil {
			return r, err
		}
	}
	return r, nil
}

// applyOptions are the options of a call in one struct.
func applyOptions(opts []AcquireOption) acquireOptions {
	var o acquireOptions
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	return o
}

// Acquire takes the amounts from the entity's bucket for the resource and, if the entity
// cascades, from its parents' buckets, all or nothing. It returns a lease, which
// corrects the amounts when the true ones are known. It returns a *LimitExceededError if
// they do not fit.
//
// Errors: *ValidationError for bad input, *LimitExceededError (also ErrExceedsBurst),
// *BlockedError if the configuration admits nothing, *NamespaceError if the namespace is
// not registered or deleted,
// *UnavailableError if DynamoDB does not answer and the policy is Block,
// *ContentionError if other clients change the bucket each time that it is to be
// written, *TableError for a missing table, ErrClosed, and ctx's own. If a give-back
// cannot be confirmed, the error is joined with an *UnconfirmedError. If a take may have
// landed although no answer came, the error is an *UnconfirmedError that wraps the
// *UnavailableError.
func (l *RateLimiter) Acquire(ctx context.Context, entity, resource string, amounts Amounts, opts ...AcquireOption) (*Lease, error) {
	return l.call(ctx, entity, resource, amounts, opts, l.acquire)
}

// Do acquires, calls fn with the lease, and keeps what the lease holds if fn returns
// nil. If fn returns an error or panics, Do rolls the lease back, unless fn has settled
// it. Errors are those of Acquire, or fn's error joined with what could not be given
// back.
func (l *RateLimiter) Do(ctx context.Context, entity, resource string, amounts Amounts, fn func(context.Context, *Lease) error, opts ...AcquireOption) error {
	acquire := l.acquire
	if fn == nil {
		acquire = func(context.Context, request) (*Lease, bool, error) {
			return nil, false, invalid("fn", "is nil; pass the function to call under the lease")
		}
	}
	lease, err := l.call(ctx, entity, resource, amounts, opts, acquire)
	if err != nil {
		return err
	}
	returned := false
	defer func() {
		if !returned { // a panic goes on after the give-back
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

// call checks a call's input and runs it, between the observer's start and end.
func (l *RateLimiter) call(ctx context.Context, entity, resource string, amounts Amounts, opts []AcquireOption, run acquireFunc) (*Lease, error) {
	if err := l.usable(ctx); err != nil {
		return nil, err
	}
	r, err := newRequest(entity, resource, amounts, opts)
	if err != nil {
		return nil, err
	}
	if l.closed.Load() {
		return nil, ErrClosed
	}
	if o := l.opts.Observer; o != nil {
		return l.observed(ctx, o, r, run)
	}
	lease, _, err := run(ctx, r)
	return lease, err
}

// acquireFunc acquires. memory reports whether it was decided without asking the store.
type acquireFunc func(ctx context.Context, r request) (lease *Lease, memory bool, err error)

// observed runs an acquire between the observer's start and end.
func (l *RateLimiter) observed(ctx context.Context, o Observer, r request, run acquireFunc) (*Lease, error) {
	began := l.clock()
	ctx = orGiven(o.AcquireStart(ctx, AcquireStart{EntityID: r.entity, Resource: r.resource, Amounts: r.amounts}), ctx)
	lease, memory, err := run(ctx, r)
	o.AcquireEnd(ctx, AcquireEnd{
		EntityID: r.entity, Resource: r.resource, Duration: l.clock().Sub(began), Err: err,
		Degraded: lease != nil && lease.Degraded(), FromMemory: memory,
	})
	return lease, err
}

// acquire reports also whether memory decided.
func (l *RateLimiter) acquire(ctx context.Context, r request) (*Lease, bool, error) {
	lease, memory, err := l.acquireAt(ctx, r, position{})
	if err != nil {
		return nil, memory, err
	}
	return lease, memory, nil
}

// maxOutdated bounds how often a call starts again because a limit was removed while it
// was under way.
const maxOutdated = 3

// acquireAt acquires for a caller who may stand in a bucket's line. A caller who waits
// gets a lease with a denial too, because the lease says what the levels hold.
func (l *RateLimiter) acquireAt(ctx context.Context, r request, at position) (*Lease, bool, error) {
	for try := 1; ; try++ {
		lease, memory, err := l.acquireOnce(ctx, r, at)
		_, outdated := errors.AsType[*outdatedError](err)
		if try == maxOutdated || !outdated || errors.Is(err, ErrUnconfirmed) {
			return lease, memory, err
		}
	}
}

// acquireOnce acquires once, under the configuration that is known now.
func (l *RateLimiter) acquireOnce(ctx context.Context, r request, at position) (*Lease, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	if l.lanes.Table.Open() {
		if inactive := l.repo.namespace.inactive(); inactive != nil {
			return nil, false, inactive
		}
		if policy, unlimited := l.remembered(&r); !policy.admits() && !unlimited && l.lanes.Horizon == nil {
			return nil, false, l.unanswered(l.cause()) // nothing is made that would only be thrown away
		}
	}
	var p patience    // begins when something has to be asked of the store
	var rungs [1]rung // room for most cascades, on the stack: a denial from memory makes nothing else
	var asked [4]plan.Signed
	c := cascade{rungs: rungs[:0], asked: asked[:0]}
	c, policy, err := l.chain(ctx, &r, c, &p)
	if err != nil && unavailable(err) {
		c, err = l.unconfigured(&r, c, policy, err)
	}
	if err != nil {
		return nil, p.began.IsZero() && errors.Is(err, ErrBlocked), err
	}
	return l.charge(ctx, &r, &c, policy, at, &p)
}

// charge takes what a cascade asks: from what was debited ahead if that is enough,
// otherwise from its buckets, unless their last images deny it. It reports whether
// memory decided.
func (l *RateLimiter) charge(ctx context.Context, r *request, c *cascade, policy UnavailablePolicy, at position, p *patience) (*Lease, bool, error) {
	if l.serve(ctx, r, c) {
		return newLease(l, r, c, policy).bookServed(), true, nil
	}
	if memory, err := l.recall(ctx, r, c, at); err != nil {
		c.putBack(ctx)
		if !at.waits {
			return nil, memory, err
		}
		return newLease(l, r, c, policy), memory, err
	}
	lease := newLease(l, r, c, policy)
	if lease.levels == nil {
		if !lease.unlimited && !l.lanes.CountUnlocated(r.entity, r.resource, lease.consumed) {
			l.lanes.Drop(lease.consumed) // closed meanwhile
		}
		return lease, lease.unlimited && p.began.IsZero(), nil
	}
	l.begin(ctx, p)
	return lease, false, l.take(ctx, lease, policy, at, *p)
}

// take charges the levels of a lease. The policy decides at the levels that do not
// answer, and the buckets decide at the others.
func (l *RateLimiter) take(ctx context.Context, lease *Lease, policy UnavailablePolicy, at position, p patience) error {
	if err := l.admitSilentLevels(lease, policy); err != nil {
		lease.putBackServed(ctx)
		return err
	}
	var err error
	if l.mode(&lease.request) == CascadeTransaction && lease.spread() > 1 && !lease.mayBeSilent() {
		err = l.takeTogether(ctx, lease, policy, at, p)
	} else {
		err = l.takeAtOnce(ctx, lease, policy, at, p)
	}
	if err != nil {
		l.undoLocal(lease)
		lease.putBackServed(ctx)
		return err
	}
	lease.countUnasked()
	lease.bookServed()
	return nil
}

// mode says how the levels of a request are charged.
func (l *RateLimiter) mode(r *request) CascadeMode { return cmp.Or(r.opts.cascade, l.opts.Cascade) }

// recall denies from memory if the last image of any level does. memory is false if
// another level had to be read: a denial's wait is the longest of all levels, and a read
// costs less than a grant and its give-back. recall does not ask the level in whose line
// the caller's turn has come.
func (l *RateLimiter) recall(ctx context.Context, r *request, c *cascade, at position) (memory bool, err error) {
	now := l.nowMS()
	results := make([]lane.Result, 0, 1) // room for most, on the stack
	denied, memory := false, true
	for i := range c.rungs {
		result, recent := lane.Result{}, true
		if c.remembers(i, at) {
			result, recent = c.rungs[i].lane.Recall(c.askedOf(i), c.rungs[i].cfg, at.rank(), now)
		}
		results = append(results, result)
		denied, memory = denied || result.Denied, memory && recent
	}
	if !denied {
		return false, nil
	}
	for i := range results {
		if c.remembers(i, at) && results[i].Config == nil && !c.rungs[i].lane.Contact.Away() {
			var ok bool
			if results[i], ok = inspect(ctx, c.rungs[i].lane, c.rungs[i].cfg, c.askedOf(i), at.rank()); !ok {
				return false, nil // the lanes will meet the reason, and say what it means
			}
		}
	}
	return memory, c.denial(r, results)
}

// remembers reports whether the memory of a rung may deny. It may if something is asked
// of the rung, and the caller's turn has not come in the rung's line.
func (c *cascade) remembers(i int, at position) bool {
	return c.rungs[i].to > c.rungs[i].from && !c.rungs[i].served && c.rungs[i].lane != at.lane
}

// inspect reads a level's bucket for a denial. ok is false if the lane itself has to
// decide: the bucket could not be read, lacks a limit, or has to be claimed for a newer
// configuration, which is done even with a denial.
func inspect(ctx context.Context, at *lane.Lane, cfg *plan.Config, asked []plan.Signed, rank uint64) (r lane.Result, ok bool) {
	beside := lane.BesideOf(at)
	v, err := beside.Inspect(ctx, cfg)
	if err != nil || v.Lacks(asked) || v.Adopt && v.Image != nil {
		return r, false
	}
	reading := v.Reading()
	reading.Image = v.Projected()
	return lane.Result{
		Image: reading.Image, Now: v.Now, Config: v.Config,
		Before: plan.Precedence{Left: at.Line.LeftTo(rank, reading)},
	}, true
}

// denial is the error of a request that memory denied, with the statuses of every rung
// that answered.
func (c *cascade) denial(r *request, answers []lane.Result) *LimitExceededError {
	decided := int64(0) // when the last rung did
	for i := range answers {
		decided = max(decided, answers[i].Now)
	}
	e := emptyDenial(r.entity, r.resource)
	for i := range answers {
		if reading, ok := readingOf(c.rungs[i].lane, &answers[i]); ok {
			e.show(&reading, c.askedOf(i), nil, decided)
		}
	}
	return e.concluded()
}
