package dynalimit

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/observe"
)

// Lease is the grant of an acquire, at every level of its cascade. It is safe for concurrent use.
// Acquire, Wait and Do make it. A nil or zero Lease holds nothing, and its corrections return a
// *ValidationError.
//
// Call Settle with the used amounts when the call has ended, or Rollback if it failed and used
// nothing. A deferred Rollback is safe, because it does nothing after Settle. Adjust charges more or
// gives back while the call runs and is never denied. Consume takes more and may be denied. A lease
// that is dropped without any of them keeps its tokens.
//
// Adjust, Settle and Rollback write at once, SettleSoon behind its caller. All finish even if the
// caller's context has ended. Corrections of one lease are made one after the other. Consumed, Degraded
// and Statuses answer at once, even while a correction is in flight.
type Lease struct {
	mu sync.Mutex // never held across a request
	// charge is the state of the lease. Only the correction in flight changes its levels. It is nil for
	// a lease served from memory until the first call of held.
	charge *charge
	served *grant // never changed; nil of other leases
	// busy means that a correction is in flight, corrected that there has been one. The first caller
	// that waits for a correction makes freed; the end of the correction closes it.
	busy, corrected, ended bool
	freed                  chan struct{}
	// soon means that SettleSoon ends the lease: no other correction follows.
	soon bool
}

// heldLease is a lease with its charge, in one allocation.
type heldLease struct {
	Lease
	room charge
}

// made reports whether an acquire returned the lease.
func (lease *Lease) made() bool { return lease != nil && (lease.served != nil || lease.charge != nil) }

// desk returns the limiter's desk.
func (lease *Lease) desk() *desk {
	if lease.served != nil {
		return lease.served.by.desk
	}
	return lease.charge.desk
}

// held returns the lease's charge, and makes it for a lease served from memory. lease.mu must be held.
func (lease *Lease) held() *charge {
	if lease.charge == nil {
		lease.charge = lease.served.charge()
	}
	return lease.charge
}

// begin waits until no other correction is in flight, and starts one. soon means that SettleSoon calls
// it. It returns true with lease.mu held. It returns false if ctx ends first, or if the lease is over:
// it has ended, or SettleSoon is ending it.
func (lease *Lease) begin(ctx context.Context, soon bool) (begun, over bool) {
	lease.mu.Lock()
	for {
		if over = lease.ended || lease.soon && !soon; over {
			lease.mu.Unlock()
			return false, true
		}
		if !lease.busy {
			break
		}
		if lease.freed == nil {
			lease.freed = make(chan struct{})
		}
		freed := lease.freed
		lease.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return false, false
		}
		lease.mu.Lock()
	}
	lease.busy, lease.corrected = true, true
	return true, false
}

// keep ends a lease that was served from memory and never corrected, if there is nothing to write. It
// reports whether the lease has ended so, now or before.
func (lease *Lease) keep(ctx context.Context) bool {
	var heard *heardCorrection
	defer func() {
		if heard != nil {
			heard.tell(ctx, nil) // without the lock
		}
	}()
	lease.mu.Lock()
	defer lease.mu.Unlock()
	if lease.served == nil || lease.corrected || lease.busy || lease.soon {
		return false
	}
	first := !lease.ended
	lease.ended = true
	if first && lease.desk().observer.Corrected != nil { // the charge is made only for an observer
		heard = hearCorrection(observe.CorrectionSettle, lease.held())
	}
	return true
}

// finish ends a correction. lease.mu must be held; finish releases it.
func (lease *Lease) finish() {
	lease.busy = false
	if lease.freed != nil {
		close(lease.freed)
		lease.freed = nil
	}
	lease.mu.Unlock()
}

// unlocked runs the part of a correction that does I/O, with lease.mu released.
func (lease *Lease) unlocked(do func()) {
	lease.mu.Unlock()
	defer lease.mu.Lock()
	do()
}

// correction is one change of the amounts that a lease holds.
type correction struct {
	// kind names it for the observer.
	kind observe.CorrectionKind
	// target computes the new amounts from the lease's current ones.
	target func(consumed []plan.Signed) []plan.Signed
	// ends means that the lease ends with the correction.
	ends bool
	// ended is returned if the lease has already ended.
	ended error
	// soon means that it is the correction with which SettleSoon ends the lease.
	soon bool
}

// correct makes a correction at every level. done means that the caller has nothing left to do: the
// correction is complete (perhaps unconfirmed at a level), or the lease had ended already.
func (lease *Lease) correct(ctx context.Context, change correction) (done bool, err error) {
	if err := lease.usable(ctx); err != nil {
		return false, err
	}
	caller := ctx
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease.desk().cleanup)
	defer cancel()
	var heard *heardCorrection
	defer func() {
		if heard != nil {
			heard.tell(caller, err) // once finish has released the lock
		}
	}()
	switch begun, over := lease.begin(ctx, change.soon); {
	case over:
		return change.ended == nil, change.ended
	case !begun:
		return false, &UnavailableError{Op: "correct a lease while another correction of it is under way", Err: ctx.Err()}
	}
	defer lease.finish()
	c := lease.held()
	c.final = change.soon
	target := change.target(c.consumed)
	if c.hasRenewedLevel() || slices.ContainsFunc(target, func(a plan.Signed) bool { return !c.has(a.Name) }) {
		lease.recognise(ctx, target)
		target = c.known(target)
	}
	if err := c.checkTarget(target); err != nil {
		return false, err
	}
	if c.desk.observer.Corrected != nil {
		heard = hearCorrection(change.kind, c)
	}
	if done = true; c.levels == nil && !c.unlimited {
		err = lease.locate(ctx)
	}
	switch {
	case err == nil:
		k := c.correct(ctx, target)
		k.send(ctx, &lease.mu)
		done, err = k.book()
	case leftToPolicy(err) && c.countUnlocated(c.consumed, target):
		err = nil
	default:
		done, err = false, &UnconfirmedError{
			EntityID: c.request.entity, Resource: c.request.resource, Amounts: tokensOf(plan.Plus(target, plan.Negated(c.consumed))), Err: err, NotWritten: true,
		}
	}
	if done {
		lease.conclude(target, change.ends)
	}
	if heard != nil {
		heard.note(c.consumed)
	}
	return done, err
}

// conclude stores the amounts of a completed correction. ends means that the correction ends the lease.
func (lease *Lease) conclude(target []plan.Signed, ends bool) {
	lease.charge.consumed, lease.ended = target, ends
	if ends && lease.charge.estimates != nil {
		lease.charge.estimates.end()
	}
}

// locate finds the levels of a lease that was granted while the configuration could not
// be read.
func (lease *Lease) locate(ctx context.Context) error {
	c := lease.charge
	var found cascade
	var err error
	lease.unlocked(func() { found, _, err = c.desk.routes.find(ctx, &c.request, found, nil) })
	if err == nil {
		c.locate(&found)
	}
	return err
}

// estimated attaches the quotas' estimates to the lease. They end with the lease, or when the garbage
// collector frees a dropped one: nobody settles that any more.
func (lease *Lease) estimated(e *estimates) {
	lease.charge.estimates = e
	runtime.AddCleanup(lease, (*estimates).end, e)
}

// Used returns the amounts that the lease holds, in whole tokens. A charge that got
// no answer, and so may have landed, counts as consumed.
func (lease *Lease) Used() Amounts {
	if !lease.made() {
		return nil
	}
	lease.mu.Lock()
	defer lease.mu.Unlock()
	return tokensOf(lease.held().consumed)
}

// Degraded reports whether something of the lease was admitted by the policy, or corrected,
// without its bucket. That part is counted there, and not charged.
func (lease *Lease) Degraded() bool {
	if !lease.made() {
		return false
	}
	lease.mu.Lock()
	defer lease.mu.Unlock()
	if lease.charge == nil { // served from memory
		return false
	}
	if lease.charge.levels == nil {
		return !lease.charge.unlimited
	}
	for i := range lease.charge.levels {
		if lease.charge.levels[i].degraded {
			return true
		}
	}
	return false
}

// Statuses returns every limit of the lease at every level, as of the last answer of that level. The
// entity comes first, and at each entity the resource comes before its groups. Response headers can be
// made from it.
func (lease *Lease) Statuses() []LimitStatus {
	if !lease.made() {
		return nil
	}
	lease.mu.Lock()
	defer lease.mu.Unlock()
	var statuses []LimitStatus
	c := lease.held()
	for i := range c.levels {
		lv := &c.levels[i]
		if !lv.answered {
			continue
		}
		names := lv.names()
		statuses = slices.Grow(statuses, len(names))
		for _, name := range names {
			s := lv.last.status(name, 0, 0)
			h := lv.of(name)
			s.Requested, s.Uncharged = h.Used()/milli, h.Uncharged()/milli
			s.WouldDeny = s.Limit.Shadow && s.Uncharged > 0
			statuses = append(statuses, s)
		}
	}
	return statuses
}

// Adjust changes the amounts of the lease by signed deltas: positive deltas charge more, negative ones
// give back. It is never denied and may put a bucket into debt. It may name limits that Acquire did not
// name. It writes at once at every level, even if ctx has ended.
//
// Errors: *ValidationError for an unknown limit or for giving back more than the lease holds,
// ErrLeaseEnded, and *UnconfirmedError, which names the unconfirmed amounts. Amounts that may have been
// written count as consumed: do not repeat them. If NotWritten is true, nothing was written and the
// lease is unchanged: the same Adjust again writes only the missing part.
func (lease *Lease) Adjust(ctx context.Context, deltas Amounts) error {
	if err := checkAmounts(deltas, true); err != nil {
		return err
	}
	_, err := lease.correct(ctx, correction{
		kind: observe.CorrectionAdjust, ended: ErrLeaseEnded,
		target: func(consumed []plan.Signed) []plan.Signed { return plan.Plus(consumed, signedOf(deltas)) },
	})
	return err
}

// Settle ends the lease with the used amounts. Limits that are not named keep their amounts.
// After a Settle or a Rollback it does nothing and returns nil: use after the end is not charged. If it
// fails with amounts that were surely not written, it may be called again. Errors as of Adjust.
func (lease *Lease) Settle(ctx context.Context, actual Amounts) error {
	if len(actual) == 0 && lease.usable(ctx) == nil && lease.keep(ctx) {
		return nil
	}
	change, err := settlement(actual)
	if err != nil {
		return err
	}
	_, err = lease.correct(ctx, change)
	return err
}

// settlement returns the correction of Settle: it ends a lease with the used amounts.
func settlement(actual Amounts) (correction, error) {
	if len(actual) > 0 {
		if err := checkAmounts(actual, false); err != nil {
			return correction{}, err
		}
	}
	named := signedOf(actual)
	return correction{kind: observe.CorrectionSettle, ends: true, target: func(consumed []plan.Signed) []plan.Signed {
		target := plan.Merged(consumed, named, func(held, _ int64) int64 { return held })
		for i := range target {
			if amount, ok := plan.AmountOf(named, target[i].Name); ok {
				target[i].Amount = amount
			}
		}
		return target
	}}, nil
}

// Rollback ends the lease and gives back everything it holds. After a Settle or another
// Rollback it does nothing, so it may be deferred. If it fails with give-backs that were
// surely not written, it may be called again. Give-backs that may have been written stay
// consumed, and the *UnconfirmedError says so.
func (lease *Lease) Rollback(ctx context.Context) error {
	_, err := lease.correct(ctx, correction{kind: observe.CorrectionRollback, ends: true, target: func(consumed []plan.Signed) []plan.Signed {
		return plan.Merged(consumed, nil, func(int64, int64) int64 { return 0 })
	}})
	return err
}

// usable refuses calls of a lease that no acquire returned, and without a
// context.
func (lease *Lease) usable(ctx context.Context) error {
	if !lease.made() {
		return invalid("lease", "is none; look at the error of the Acquire that returned it before using it")
	}
	if ctx == nil {
		return given(ctx)
	}
	return nil
}
