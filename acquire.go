package dynalimit

import (
	"cmp"
	"context"
	"errors"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// request is a validated call.
type request struct {
	entity, resource string
	amounts          Amounts
	opts             acquireOptions
}

func newRequest(entity, resource string, amounts Amounts, opts []AcquireOption) (request, error) {
	r := request{entity: entity, resource: resource, amounts: amounts}
	if len(opts) > 0 {
		r.opts = chosen(opts)
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

// chosen are the options of a call.
func chosen(opts []AcquireOption) acquireOptions {
	var o acquireOptions
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	return o
}

// Acquire takes the amounts from the entity's bucket for the resource and, where
// the entity cascades, from its parents': all or nothing. A denial is a
// *LimitExceededError. The lease corrects the amounts when the true ones are
// known.
//
// Errors: *ValidationError for bad input, *LimitExceededError (also
// ErrExceedsBurst), *UnavailableError when DynamoDB does not answer and the
// policy is Block, *ContentionError when others change the bucket each time that it
// answers, *TableError for a missing table, ErrClosed, and ctx's own.
// Where a give-back cannot be confirmed the error is joined by an
// *UnconfirmedError; where a take may have landed although no answer came, it is
// one, wrapping the *UnavailableError.
func (l *RateLimiter) Acquire(ctx context.Context, entity, resource string, amounts Amounts, opts ...AcquireOption) (*Lease, error) {
	return l.call(ctx, entity, resource, amounts, opts, l.acquire)
}

// call validates a call and runs it, between the observer's start and end.
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

// acquireFunc acquires; memory says that it denied without asking the store.
type acquireFunc func(ctx context.Context, r request) (lease *Lease, memory bool, err error)

// observed runs an acquire between the observer's start and end.
func (l *RateLimiter) observed(ctx context.Context, o Observer, r request, run acquireFunc) (*Lease, error) {
	began := l.clock()
	ctx = o.AcquireStart(ctx, AcquireStart{EntityID: r.entity, Resource: r.resource, Amounts: r.amounts})
	lease, memory, err := run(ctx, r)
	o.AcquireEnd(ctx, AcquireEnd{
		EntityID: r.entity, Resource: r.resource, Duration: l.clock().Sub(began), Err: err,
		Degraded: lease != nil && lease.Degraded(), FromMemory: memory,
	})
	return lease, err
}

// acquire also reports whether a denial came from memory.
func (l *RateLimiter) acquire(ctx context.Context, r request) (*Lease, bool, error) {
	lease, memory, err := l.acquireAt(ctx, r, place{})
	if err != nil {
		return nil, memory, err
	}
	return lease, false, nil
}

// maxOutdated bounds how often a call is begun again because a limit was removed
// while it was under way.
const maxOutdated = 3

// acquireAt acquires for a caller who may stand in a bucket's line. It returns
// the lease of a denial too, for what it says about the levels.
func (l *RateLimiter) acquireAt(ctx context.Context, r request, at place) (*Lease, bool, error) {
	for try := 1; ; try++ {
		lease, memory, err := l.tryAt(ctx, r, at)
		wrong, ok := errors.AsType[*ValidationError](err)
		if try == maxOutdated || !ok || !wrong.outdated || errors.Is(err, ErrUnconfirmed) {
			return lease, memory, err
		}
	}
}

// tryAt is acquireAt under the configuration known now.
func (l *RateLimiter) tryAt(ctx context.Context, r request, at place) (*Lease, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	if l.lanes.Table.Open() && !cmp.Or(r.opts.onUnavailable, l.standingPolicy()).admits() {
		return nil, false, l.silence(l.cause()) // nothing is made that would only be thrown away
	}
	p := l.patience(ctx)
	levels, policy, err := l.chain(ctx, r, p.bound())
	if err != nil && gone(err) {
		levels, err = l.unconfigured(r, policy, err)
	}
	if err != nil {
		return nil, false, err
	}
	lease := newLease(l, r, levels, policy)
	if levels == nil {
		return lease, false, nil
	}
	if memory, err := l.recall(ctx, lease, at); err != nil {
		return lease, memory, err
	}
	return lease, false, l.take(ctx, lease, policy, at, p)
}

// take charges the levels of a lease: those that do not answer as the policy
// says, the others by their buckets.
func (l *RateLimiter) take(ctx context.Context, lease *Lease, policy UnavailablePolicy, at place, p patience) error {
	if err := l.admitAway(lease, policy); err != nil {
		return err
	}
	mode := lease.request.opts.cascade
	if mode == "" {
		mode = l.opts.Cascade
	}
	var err error
	if mode == CascadeTransaction && lease.spread() > 1 {
		err = l.takeTogether(ctx, lease, policy, at, p)
	} else {
		err = l.takeAtOnce(ctx, lease, policy, at, p)
	}
	if err != nil {
		l.undoAway(lease)
		return err
	}
	l.bookAway(lease)
	return nil
}

// recall denies from memory, if any level's last image does; memory is false if
// a read was needed for the others: the wait is the longest of all levels', and a
// read costs less than a grant and its give-back. The level where the caller's
// turn in line has come is not asked.
func (l *RateLimiter) recall(ctx context.Context, lease *Lease, at place) (memory bool, err error) {
	now := l.nowMS()
	var results [maxDepth]lane.Result
	denied, memory := false, true
	for i := range lease.levels {
		lv := &lease.levels[i]
		if len(lv.asked) == 0 || lv.lane == at.lane {
			continue
		}
		var recent bool
		results[i], recent = lv.lane.Recall(lv.asked, lv.cfg, at.rank(), now)
		denied, memory = denied || results[i].Denied, memory && recent
	}
	if !denied {
		return false, nil
	}
	for i := range lease.levels {
		lv := &lease.levels[i]
		if len(lv.asked) == 0 || lv.lane == at.lane {
			continue
		}
		if results[i].Config == nil {
			if lv.lane.Away() {
				continue
			}
			v, err := lv.lane.Inspect(ctx, lv.cfg)
			if err != nil || v.Lacks(lv.asked) || v.Adopt && v.Image != nil { // a newer configuration is claimed even by a denial
				return false, nil //nolint:nilerr // the lanes will meet it, and say what it means
			}
			r := v.Reading()
			r.Image = v.Projected()
			results[i] = lane.Result{Image: r.Image, Now: v.Now, Config: v.Config, Before: plan.Precedence{Left: lv.lane.LeftTo(at.rank(), r)}}
		}
		lv.saw(results[i])
	}
	return memory, lease.denial()
}

// takeAtOnce asks every level's lane at once. When one denies, or fails, the
// grants of the others are given back.
func (l *RateLimiter) takeAtOnce(ctx context.Context, lease *Lease, policy UnavailablePolicy, at place, p patience) error {
	ops := make([]*lane.Op, len(lease.levels))
	for i := range lease.levels {
		lv := &lease.levels[i]
		ops[i] = lane.NewTake(ctx, lv.asked, lv.cfg)
		if ops[i].Rank = at.rank(); lv.lane == at.lane {
			ops[i].Waiter = at.waiter
		}
		if ops[i].Until = p.until; lv.skipped() {
			close(ops[i].Done)
		}
	}
	driven := ctx
	if !p.reserve.IsZero() {
		var cancel context.CancelFunc
		driven, cancel = context.WithDeadline(ctx, p.reserve)
		defer cancel()
	}
	l.start(driven, lease, ops, at)
	for i, o := range ops {
		if !l.await(ctx, lease.levels[i].lane, o, &p) && !l.leaveAll(lease, ops) {
			return ctx.Err()
		}
	}
	return l.conclude(ctx, lease, ops, policy)
}

// start queues every level's op: the parents' lanes run beside, the first one
// on this goroutine if it rests.
func (l *RateLimiter) start(ctx context.Context, lease *Lease, ops []*lane.Op, at place) {
	first := -1
	for i := range lease.levels {
		switch lv := &lease.levels[i]; {
		case lv.skipped():
		case first < 0:
			first = i
		default:
			lv.lane.Submit(ops[i])
			at.callAlong(lv)
		}
	}
	if first < 0 {
		return
	}
	lv := &lease.levels[first]
	drive := lv.lane.Enqueue(ops[first])
	at.callAlong(lv)
	if drive {
		lv.lane.Drive(ctx, ops[first])
	}
}

// leaveAll withdraws from every level when the caller's context ended. It
// reports whether the only level had in fact answered.
func (l *RateLimiter) leaveAll(lease *Lease, ops []*lane.Op) bool {
	if len(ops) == 1 {
		_, done := lease.levels[0].lane.Leave(ops[0])
		return done
	}
	for j, o := range ops {
		lv := &lease.levels[j]
		if lv.skipped() {
			continue
		}
		switch r, done := lv.lane.Leave(o); {
		case done && r.Pending: // its write is under way
			lv.lane.Disown(o)
		case done && r.Err == nil && !r.Denied:
			lv.lane.Submit(lv.lane.Returning(o, r))
		}
	}
	return false
}

// conclude turns the levels' results into a lease or an error.
func (l *RateLimiter) conclude(ctx context.Context, lease *Lease, ops []*lane.Op, policy UnavailablePolicy) error {
	denied := false
	var failure, broken error
	for i, o := range ops {
		lv := &lease.levels[i]
		o.Result.Err = l.told(lv.lane, o.Result.Err)
		r := o.Result
		lv.saw(r)
		switch {
		case lv.skipped():
		case r.Denied:
			denied = true
		case r.Err == nil:
			lv.grant(r.Image)
		case failing(r.Err):
			failure = r.Err
		default:
			broken = cmp.Or(broken, r.Err) // a bug or a bad request never fails open, whatever is out beside it
		}
	}
	if failure == nil && broken == nil && !denied {
		return nil
	}
	var err error
	switch {
	case denied:
		err = lease.denial()
	case broken != nil:
		err = broken
	case !policy.admits():
		err = failure
	default:
		if err = l.admitFailed(lease, ops, policy); err == nil {
			return nil
		}
	}
	unconfirmed := l.disownFailed(lease, ops)
	if unconfirmed != nil && !denied && broken == nil && !errors.Is(err, ErrLimitExceeded) {
		err = unconfirmed // it wraps the failure
		unconfirmed = nil
	}
	return joined(err, unconfirmed, l.undo(ctx, lease))
}

// admitFailed decides by the policy the levels whose buckets did not answer in
// time; it fails with a denial by the process's share, which books nothing.
func (l *RateLimiter) admitFailed(lease *Lease, ops []*lane.Op, policy UnavailablePolicy) error {
	for i, o := range ops {
		lv := &lease.levels[i]
		if !lv.skipped() && o.Result.Err != nil && !l.admitUnasked(lv, policy, unheard(o.Result.Err)) {
			err := lease.denial()
			l.undoAway(lease)
			return err
		}
	}
	for i, o := range ops {
		if lv := &lease.levels[i]; !lv.skipped() && o.Result.Err != nil {
			l.unanswered(lv, o)
		}
	}
	return nil
}

// disownFailed names what a failed acquire may have been charged although no
// answer came. Of a write that is still under way, what it is granted is given
// back.
func (l *RateLimiter) disownFailed(lease *Lease, ops []*lane.Op) error {
	var unconfirmed error
	for i, o := range ops {
		lv, r := &lease.levels[i], o.Result
		if lv.skipped() || !r.Unknown {
			continue
		}
		if r.Pending {
			lv.lane.Disown(o)
		} else {
			l.lanes.Doubt(lv.asked)
		}
		unconfirmed = errors.Join(unconfirmed, &UnconfirmedError{
			EntityID: lv.lane.Entity, Resource: lv.lane.Resource, Amounts: tokensOf(lv.asked), Err: r.Err,
		})
	}
	return unconfirmed
}

// joined adds what could not be confirmed to an error.
func joined(err error, others ...error) error {
	for _, other := range others {
		if other != nil {
			err = errors.Join(err, other)
		}
	}
	return err
}

// undo gives back what levels granted to an acquire that failed as a whole.
func (l *RateLimiter) undo(ctx context.Context, lease *Lease) error {
	granted := false
	for i := range lease.levels {
		granted = granted || lease.levels[i].holds()
	}
	if !granted {
		return nil
	}
	return lease.Rollback(ctx)
}
