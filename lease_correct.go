package dynalimit

import (
	"context"
	"errors"
)

// correction is one change of what a lease stands for.
type correction struct {
	// target is what the lease is to stand for, given what it stands for.
	target func(paper []signed) []signed
	// ends says that the lease ends with it.
	ends bool
	// ended is the answer of a lease that has ended already.
	ended error
}

// correct brings every level to the target of a correction.
func (lease *Lease) correct(ctx context.Context, c correction) error {
	if err := lease.usable(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease.limiter.opts.CleanupTimeout)
	defer cancel()
	if !lease.begin(ctx) {
		return &UnavailableError{Op: "correct a lease while another correction of it is under way", Err: ctx.Err()}
	}
	defer lease.finish()
	if lease.ended {
		return c.ended
	}
	target := c.target(lease.paper)
	if err := lease.checkTarget(target); err != nil {
		return err
	}
	done, err := lease.reconcile(ctx, target)
	if done {
		lease.paper, lease.ended = target, c.ends
	}
	return err
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
			return lease.request.unknown(t.name, lease.levels)
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
	var levels []level
	var err error
	lease.without(func() { levels, _, err = lease.limiter.chain(ctx, lease.request) })
	if err != nil {
		return err
	}
	for i := range levels {
		levels[i].degraded = true
	}
	lease.levels = levels
	return nil
}

// reconcile writes at every level what is missing between what it holds and the
// target. done is false if something was surely not written, so that the same
// again is to write it.
func (lease *Lease) reconcile(ctx context.Context, target []signed) (done bool, err error) {
	if lease.levels == nil && !owes(target) {
		return true, nil
	}
	if err := lease.locate(ctx); err != nil {
		return false, &UnconfirmedError{
			EntityID: lease.request.entity, Resource: lease.request.resource, Amounts: tokensOf(target), Err: err, NotWritten: true,
		}
	}
	now := lease.limiter.nowMS()
	ops := make([]*op, len(lease.levels))
	for i := range lease.levels {
		lv := &lease.levels[i]
		lv.resolve()
		if delta := lv.move(lv.covers(target), now); len(delta) > 0 {
			ops[i] = newAdjust(ctx, delta, lv.incarnation, lv.cfg)
		}
	}
	results := make([]result, len(ops))
	lease.without(func() { lease.write(ctx, ops, results) })
	done = true
	var errs []error
	for i, o := range ops {
		if o == nil {
			continue
		}
		lv, r := &lease.levels[i], results[i]
		lv.saw(r)
		lv.wrote(o.amounts, r)
		if r.err != nil {
			done = done && r.unknown
			errs = append(errs, &UnconfirmedError{
				EntityID: lv.lane.entity, Resource: lv.lane.resource, Amounts: tokensOf(o.amounts), Err: r.err, NotWritten: !r.unknown,
			})
		}
	}
	return done, errors.Join(errs...)
}

// owes reports whether a target holds anything.
func owes(target []signed) bool {
	for _, t := range target {
		if t.amount > 0 {
			return true
		}
	}
	return false
}

// write sends the levels' ops side by side, the first lane that rests driven on
// this goroutine, and waits for what comes of them.
func (lease *Lease) write(ctx context.Context, ops []*op, results []result) {
	drive := -1
	for i, o := range ops {
		if o == nil {
			continue
		}
		lane := lease.levels[i].lane
		switch rests := lane.enqueue(o); {
		case rests && drive < 0:
			drive = i
		case rests:
			go lane.run()
		}
	}
	if drive >= 0 {
		lease.levels[drive].lane.drive(ctx, ops[drive])
	}
	for i, o := range ops {
		if o != nil {
			results[i] = lease.levels[i].lane.await(ctx, o)
		}
	}
}

// await waits for what comes of an adjust. When ctx ends first, one that is still
// queued is never written, and one in flight may be.
func (l *lane) await(ctx context.Context, o *op) result {
	select {
	case <-o.done:
		return o.result
	case <-ctx.Done():
	}
	r, done := l.leave(o)
	if !done {
		r = result{err: &UnavailableError{Op: "adjust", Err: ctx.Err()}, unknown: o.abandoned}
	}
	return r
}
