package dynalimit

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Lease is what an acquire was granted, at every level of its cascade. It is
// safe for concurrent use. A lease that is dropped keeps what it took; Adjust,
// Settle and Rollback correct that at once, and finish even when the caller's
// context has ended.
type Lease struct {
	limiter *RateLimiter
	request request
	policy  UnavailablePolicy

	mu sync.Mutex
	// levels are the buckets charged, child first; nil if not even the
	// configuration could be read.
	levels []level
	// paper is what the caller owes by its own account; each level's held is
	// what landed there.
	paper []signed
	ended bool
}

// level is one bucket of a lease.
type level struct {
	lane  *lane
	cfg   *bucketConfig
	asked []signed
	// held is what landed in the store and has not been given back. What may
	// have landed counts as charged, and is never given back.
	held []signed
	// degraded says that the bucket never answered: the lease holds nothing
	// there, and what was asked only on paper.
	degraded bool
	// last is the last answer, for statuses; answered says that there is one.
	last     reading
	answered bool
}

// saw keeps an answer for statuses.
func (lv *level) saw(r result) {
	if r.err != nil || r.cfg == nil {
		return
	}
	lv.last = reading{entity: lv.lane.entity, resource: lv.lane.resource, image: r.image, cfg: r.cfg, now: r.now, reserved: r.reserved}
	lv.answered = true
}

func (lv *level) grant() { lv.held = plus(lv.held, lv.asked) }

// has reports whether the level knows a limit.
func (lv *level) has(name string) bool {
	_, held := amountOf(lv.held, name)
	return held || lv.cfg.index(name) >= 0
}

func newLease(l *RateLimiter, r request, levels []level, policy UnavailablePolicy) *Lease {
	lease := &Lease{limiter: l, request: r, policy: policy, levels: levels}
	if len(levels) == 1 && len(levels[0].asked) == len(r.amounts) {
		lease.paper = levels[0].asked // lists are never changed
	} else {
		lease.paper = signedOf(r.amounts)
	}
	return lease
}

// spread is how many levels something is asked of.
func (lease *Lease) spread() int {
	n := 0
	for i := range lease.levels {
		if len(lease.levels[i].asked) > 0 {
			n++
		}
	}
	return n
}

// denial is the error of an acquire that did not fit, with the statuses of
// every level that answered as they are once the grants are given back.
func (lease *Lease) denial() *LimitExceededError {
	var statuses []LimitStatus
	for i := range lease.levels {
		lv := &lease.levels[i]
		if !lv.answered {
			continue
		}
		for _, a := range lv.asked {
			back, _ := amountOf(lv.held, a.name)
			statuses = append(statuses, lv.last.status(a.name, a.amount, back))
		}
	}
	return newLimitExceeded(lease.request.entity, lease.request.resource, statuses)
}

// Consumed returns what the lease stands for, in whole tokens.
func (lease *Lease) Consumed() Amounts {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	return tokensOf(lease.paper)
}

// Degraded reports whether some level's bucket never answered, so that the
// lease is not backed there. A later Adjust or Settle charges it.
func (lease *Lease) Degraded() bool {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	if lease.levels == nil {
		return true
	}
	for i := range lease.levels {
		if lease.levels[i].degraded {
			return true
		}
	}
	return false
}

// Statuses returns every limit the lease holds at every level, the entity first,
// as of that level's last answer: what response headers show.
func (lease *Lease) Statuses() []LimitStatus {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	var statuses []LimitStatus
	for i := range lease.levels {
		lv := &lease.levels[i]
		if !lv.answered {
			continue
		}
		for _, a := range plus(lv.asked, lv.held) {
			s := lv.last.status(a.name, 0, 0)
			held, _ := amountOf(lv.held, a.name)
			s.Requested = held / milli
			statuses = append(statuses, s)
		}
	}
	return statuses
}

// Adjust changes what the lease stands for by signed deltas: positive charges
// more, negative gives back. It is never denied and may drive a bucket into
// debt; it may name limits that Acquire did not. It writes at once, at every
// level, and also when ctx has ended.
//
// Errors: *ValidationError for an unknown limit or for giving back more than the
// lease holds, ErrLeaseEnded, and *UnconfirmedError naming what could not be
// written; the same Adjust again then writes only what is missing.
func (lease *Lease) Adjust(ctx context.Context, deltas Amounts) error {
	if err := checkAmounts(deltas, true); err != nil {
		return err
	}
	lease.mu.Lock()
	defer lease.mu.Unlock()
	if lease.ended {
		return ErrLeaseEnded
	}
	target := plus(lease.paper, signedOf(deltas))
	if err := lease.checkTarget(target); err != nil {
		return err
	}
	if err := lease.reconcile(ctx, target); err != nil {
		return err
	}
	lease.paper = target
	return nil
}

// Settle ends the lease at the amounts that were really used; limits not named
// keep what they hold. A second Settle, or a Rollback after it, does nothing. If
// it fails it may be called again. Errors as of Adjust.
func (lease *Lease) Settle(ctx context.Context, actual Amounts) error {
	if len(actual) > 0 {
		if err := checkAmounts(actual, false); err != nil {
			return err
		}
	}
	lease.mu.Lock()
	defer lease.mu.Unlock()
	if lease.ended {
		return nil
	}
	named := signedOf(actual)
	target := merged(lease.paper, named, func(held, _ int64) int64 { return held })
	for i := range target {
		if amount, ok := amountOf(named, target[i].name); ok {
			target[i].amount = amount
		}
	}
	if err := lease.checkTarget(target); err != nil {
		return err
	}
	if err := lease.reconcile(ctx, target); err != nil {
		return err
	}
	lease.paper, lease.ended = target, true
	return nil
}

// Rollback ends the lease and gives back everything it holds. After Settle or
// another Rollback it does nothing, so that it may be deferred. If it fails
// with give-backs that were surely not written, it may be called again; those
// that may have been written stay consumed, and the *UnconfirmedError says so.
func (lease *Lease) Rollback(ctx context.Context) error {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	if lease.ended {
		return nil
	}
	target := merged(lease.paper, nil, func(int64, int64) int64 { return 0 })
	err := lease.reconcile(ctx, target)
	for i := range lease.levels {
		for _, held := range lease.levels[i].held {
			if held.amount > 0 {
				return err
			}
		}
	}
	lease.paper, lease.ended = target, true
	return err
}

// Consume takes further amounts, which may be denied like an Acquire's. A denial
// leaves the lease as it was. Errors as of Acquire, and ErrLeaseEnded.
func (lease *Lease) Consume(ctx context.Context, amounts Amounts) error {
	if err := checkAmounts(amounts, false); err != nil {
		return err
	}
	lease.mu.Lock()
	defer lease.mu.Unlock()
	if lease.ended {
		return ErrLeaseEnded
	}
	if err := lease.locate(ctx); err != nil {
		return err
	}
	if err := lease.refresh(ctx, amounts); err != nil {
		return err
	}
	if err := lease.checkTarget(plus(lease.paper, signedOf(amounts))); err != nil {
		return err
	}
	part := &Lease{limiter: lease.limiter, request: lease.request, policy: lease.policy, paper: signedOf(amounts)}
	part.request.amounts = amounts
	for i := range lease.levels {
		lv := &lease.levels[i]
		part.levels = append(part.levels, level{lane: lv.lane, cfg: lv.cfg, asked: amountsAt(lv.cfg, amounts)})
	}
	if _, err := lease.limiter.recall(ctx, part, place{}); err != nil {
		return err
	}
	if err := lease.limiter.takeAtOnce(ctx, part, lease.policy, place{}); err != nil {
		return err
	}
	for i := range lease.levels {
		lv, got := &lease.levels[i], &part.levels[i]
		lv.held = plus(lv.held, got.held)
		lv.degraded = lv.degraded || got.degraded
		if got.answered {
			lv.last, lv.answered = got.last, true
		}
	}
	lease.paper = plus(lease.paper, part.paper)
	return nil
}

// checkTarget refuses amounts below 0 or too large, and limits that no level
// knows.
func (lease *Lease) checkTarget(target []signed) error {
	for _, t := range target {
		if t.amount < 0 {
			held, _ := amountOf(lease.paper, t.name)
			return invalid("amounts["+t.name+"]", "gives back %d more than the lease holds (%d)", -t.amount/milli, held/milli)
		}
		if t.amount > maxTokens*milli {
			return invalid("amounts["+t.name+"]", "makes the lease %d tokens; at most %d are allowed", t.amount/milli, int64(maxTokens))
		}
		known := lease.levels == nil
		for i := range lease.levels {
			known = known || lease.levels[i].has(t.name)
		}
		if !known && t.amount > 0 {
			return invalid("amounts["+t.name+"]", "is not a limit of entity %q on resource %q", lease.request.entity, lease.request.resource)
		}
	}
	return nil
}

// locate finds the levels of a lease that was granted while not even the
// configuration could be read.
func (lease *Lease) locate(ctx context.Context) error {
	if lease.levels != nil {
		return nil
	}
	levels, _, err := lease.limiter.chain(ctx, lease.request)
	if err != nil {
		return err
	}
	for i := range levels {
		levels[i].degraded = true
	}
	lease.levels = levels
	return nil
}

// refresh brings every level the configuration in force: a lease may be old, and
// what it takes now is admitted now. Under Allow, one that cannot be read is the
// one known.
func (lease *Lease) refresh(ctx context.Context, amounts Amounts) error {
	l, r := lease.limiter, lease.request
	for i := range lease.levels {
		lv := &lease.levels[i]
		resolved, _, _, err := l.store.config(ctx, lv.lane.entity, r.resource)
		if gone(err) && lease.policy == Allow {
			continue
		}
		if err != nil {
			return err
		}
		cfg := l.compile(resolved)
		if lv.lane.entity == r.entity && len(r.opts.limits) > 0 {
			cfg = l.override(cfg, resolved, r.opts.limits)
		}
		if cfg != nil {
			lv.cfg = cfg
		}
	}
	for name := range amounts {
		if !slices.ContainsFunc(lease.levels, func(lv level) bool { return lv.cfg.index(name) >= 0 }) {
			return invalid("amounts["+name+"]", "is not a limit of entity %q on resource %q any more", r.entity, r.resource)
		}
	}
	return nil
}

// reconcile writes at every level what is missing between what it holds and the
// target.
func (lease *Lease) reconcile(ctx context.Context, target []signed) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease.limiter.opts.CleanupTimeout)
	defer cancel()
	if lease.levels == nil && !lease.owes(target) {
		return nil
	}
	if err := lease.locate(ctx); err != nil {
		return &UnconfirmedError{EntityID: lease.request.entity, Resource: lease.request.resource, Amounts: tokensOf(target), Err: err}
	}
	ops := make([]*op, len(lease.levels))
	drive := -1 // the first level that rests is driven here, once all are queued
	for i := range lease.levels {
		lv := &lease.levels[i]
		delta := lv.missing(target)
		if len(delta) == 0 {
			continue
		}
		ops[i] = newOp(ctx, false, delta, lv.cfg)
		switch rests := lv.lane.enqueue(ops[i]); {
		case rests && drive < 0:
			drive = i
		case rests:
			go lv.lane.run()
		}
	}
	if drive >= 0 {
		lease.levels[drive].lane.drive(ctx, ops[drive])
	}
	var errs []error
	for i, o := range ops {
		if o != nil {
			errs = append(errs, lease.levels[i].adjusted(ctx, o))
		}
	}
	return errors.Join(errs...)
}

// owes reports whether a target holds anything.
func (lease *Lease) owes(target []signed) bool {
	for _, t := range target {
		if t.amount > 0 {
			return true
		}
	}
	return false
}

// missing is what has to be written so that the level holds the target. No more
// is given back than landed: on a degraded level, only what was consumed later.
func (lv *level) missing(target []signed) []signed {
	var out []signed
	for _, t := range target {
		if !lv.has(t.name) {
			continue
		}
		held, _ := amountOf(lv.held, t.name)
		if d := t.amount - held; d != 0 {
			out = append(out, signed{t.name, d})
		}
	}
	return out
}

// adjusted waits for an adjust and books what came of it.
func (lv *level) adjusted(ctx context.Context, o *op) error {
	var r result
	select {
	case <-o.done:
		r = o.result
	case <-ctx.Done():
		var done bool
		if r, done = lv.lane.leave(o); !done {
			// Still queued, it will never be written; in flight, it may be.
			r = result{err: &UnavailableError{Op: "adjust", Err: ctx.Err()}, unknown: o.abandoned}
		}
	}
	lv.saw(r)
	if r.err == nil || r.unknown {
		lv.held, lv.degraded = plus(lv.held, o.amounts), false
	}
	if r.err == nil {
		return nil
	}
	return &UnconfirmedError{EntityID: lv.lane.entity, Resource: lv.lane.resource, Amounts: tokensOf(o.amounts), Err: r.err}
}
