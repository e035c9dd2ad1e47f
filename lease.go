package dynalimit

import (
	"context"
	"sync"

	"github.com/dynalimit/dynalimit/internal/call"
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
// Adjust, Settle and Rollback write at once, SettleSoon behind its caller. All finish even if the caller's
// context has ended. Corrections of one lease are made one after the other. Used, Degraded and Statuses
// answer at once, even while a correction is in flight.
type Lease struct {
	mu      sync.Mutex // never held across a request
	limiter *RateLimiter
	// call is the state of the lease. Only the correction in flight changes its levels. It is nil for a
	// lease served from memory until the first call of currentCall.
	call   *call.Call
	served *call.Grant // never changed; nil of other leases
	// busy means that a correction is in flight, corrected that one has begun. The first caller
	// that waits for a correction makes freed; the end of the correction closes it.
	busy, corrected, ended bool
	freed                  chan struct{}
	// soon means that SettleSoon ends the lease: no other correction follows.
	soon bool
}

// servedLease is a lease served from memory, in one allocation.
type servedLease struct {
	Lease
	grant call.Grant
}

// leaseServed returns a new lease with a copy of a grant from memory. currentCall makes its call when it is
// first needed.
func (l *RateLimiter) leaseServed(g *call.Grant) *Lease {
	lease := &servedLease{Lease: Lease{limiter: l}, grant: *g}
	lease.served = &lease.grant
	return &lease.Lease
}

// made reports whether an acquire returned the lease. It is false for a nil or zero lease.
func (lease *Lease) made() bool { return lease != nil && lease.limiter != nil }

// currentCall returns the lease's call, and makes it for a lease served from memory. lease.mu must be held.
func (lease *Lease) currentCall() *call.Call {
	if lease.call == nil {
		lease.call = lease.served.Call()
	}
	return lease.call
}

// beginCorrection waits until no other correction is in flight, marks the lease as busy, and returns its call with
// lease.mu held. It returns nil without the lock if ctx ends first, or if the lease is over: it has ended, or
// SettleSoon is ending it. The argument soon means that SettleSoon calls it.
func (lease *Lease) beginCorrection(ctx context.Context, soon bool) (c *call.Call, over bool) {
	lease.mu.Lock()
	for {
		if over = lease.ended || lease.soon && !soon; over {
			lease.mu.Unlock()
			return nil, true
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
			return nil, false
		}
		lease.mu.Lock()
	}
	lease.busy, lease.corrected = true, true
	if lease.call == nil { // served from memory, and used for the first time
		return lease.currentCall(), false
	}
	return lease.call, false
}

// endServed ends a lease that was served from memory and never corrected, because there is nothing to write,
// and reports that to the observer. It returns true if the lease has ended so, now or before. For any other
// lease it does nothing and returns false.
func (lease *Lease) endServed(ctx context.Context) bool {
	var seen *observedCorrection
	defer func() {
		if seen != nil {
			seen.reportEnd(ctx, nil) // without the lock
		}
	}()
	lease.mu.Lock()
	defer lease.mu.Unlock()
	if lease.served == nil || lease.corrected || lease.busy || lease.soon {
		return false
	}
	first := !lease.ended
	lease.ended = true
	if first && lease.limiter.reports.Corrected != nil { // the call is made only for an observer
		seen = lease.limiter.reports.observeCorrection(observe.CorrectionSettle, lease.currentCall())
	}
	return true
}

// endCorrection ends a correction and wakes the callers that wait for its end. lease.mu must be held;
// endCorrection releases it.
func (lease *Lease) endCorrection() {
	lease.busy = false
	if lease.freed != nil {
		close(lease.freed)
		lease.freed = nil
	}
	lease.mu.Unlock()
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

// correct makes a correction at every level and reports it to the observer, even if ctx has ended, within
// Options.CleanupTimeout. The result done means that it is complete, perhaps unconfirmed at a level. On an
// ended lease it does nothing and returns change.ended, with done true if that is nil.
func (lease *Lease) correct(ctx context.Context, change correction) (done bool, err error) {
	if err := lease.checkUsable(ctx); err != nil {
		return false, err
	}
	caller := ctx
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease.limiter.desk.Cleanup)
	defer cancel()
	var seen *observedCorrection
	defer func() {
		if seen != nil {
			seen.reportEnd(caller, err) // once endCorrection has released the lock
		}
	}()
	c, over := lease.beginCorrection(ctx, change.soon)
	switch {
	case over:
		return change.ended == nil, change.ended
	case c == nil:
		return false, &UnavailableError{Op: "correct a lease while another correction of it is in flight", Err: ctx.Err()}
	}
	defer lease.endCorrection()
	target, reason := c.Target(ctx, change.target, change.ends, &lease.mu)
	if reason != nil {
		return false, errorOf(lease.limiter.repo.layout, reason)
	}
	if lease.limiter.reports.Corrected != nil {
		seen = lease.limiter.reports.observeCorrection(change.kind, c)
	}
	if done, reason = c.Correct(ctx, target, change.soon, change.ends, &lease.mu); done {
		lease.ended = change.ends
	}
	if seen != nil {
		seen.setChange(c.Consumed())
	}
	if reason != nil {
		err = errorOf(lease.limiter.repo.layout, reason)
	}
	return done, err
}

// Used returns the amounts that the lease holds, in whole tokens; nil for a nil or zero lease. It includes
// charges without an answer, which may have been written, and excludes give-backs without one.
func (lease *Lease) Used() Amounts {
	if !lease.made() {
		return nil
	}
	lease.mu.Lock()
	defer lease.mu.Unlock()
	return tokensOf(lease.currentCall().Consumed())
}

// Degraded reports whether something of the lease was admitted by the policy, or corrected, without its bucket.
// That part is counted there, and not charged. It is false for a nil or zero lease.
func (lease *Lease) Degraded() bool {
	if !lease.made() {
		return false
	}
	lease.mu.Lock()
	defer lease.mu.Unlock()
	return lease.call != nil && lease.call.Degraded() // else served from memory
}

// units returns a map from the names of the lease's limits of money to their unit. It is nil without one, for a
// lease served from memory, and for one that no acquire returned.
func (lease *Lease) units() map[string]string {
	if !lease.made() {
		return nil
	}
	lease.mu.Lock()
	defer lease.mu.Unlock()
	if lease.call == nil { // served from memory, which serves no money
		return nil
	}
	return lease.call.Units()
}

// Statuses returns every limit of the lease at every level, as of the last answer of that level. Requested is
// the amount that the lease has now. The entity comes first, and at each entity the resource comes before its
// groups. Response headers can be made from it.
func (lease *Lease) Statuses() []LimitStatus {
	if !lease.made() {
		return nil
	}
	lease.mu.Lock()
	defer lease.mu.Unlock()
	var statuses []LimitStatus
	lease.currentCall().Balances(func(b *call.Balance, used, uncharged int64) {
		var s LimitStatus
		s.setBalance(b)
		s.Requested, s.Uncharged = used/milli, uncharged/milli
		s.WouldDeny = s.Limit.Shadow && s.Uncharged > 0
		statuses = append(statuses, s)
	})
	return statuses
}

// holdsSlots reports whether the lease holds slots of calls in flight, at any level. It is false once the lease
// has ended, and for one served from memory.
func (lease *Lease) holdsSlots() bool {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	return !lease.ended && lease.call != nil && lease.call.HoldsSlots()
}

// Adjust changes the amounts of the lease by signed deltas: positive deltas charge more, negative ones
// give back. It is never denied and may put a bucket into debt. It may name limits that Acquire did not
// name. It writes at once at every level, even if ctx has ended. It may not name calls in flight.
//
// Errors: *ValidationError for an unknown limit or for giving back more than the lease holds,
// ErrLeaseEnded, and *UnconfirmedError, which names the unconfirmed amounts. Do not repeat amounts that
// may have been written: Lease.Used counts them. If NotWritten is true, nothing was written and the
// lease is unchanged: the same Adjust again writes only the missing part.
func (lease *Lease) Adjust(ctx context.Context, deltas Amounts) error {
	if err := checkAmounts(deltas, true); err != nil {
		return err
	}
	_, err := lease.correct(ctx, correction{
		kind: observe.CorrectionAdjust, ended: ErrLeaseEnded,
		target: func(consumed []plan.Signed) []plan.Signed { return plan.Plus(consumed, call.SignedOf(deltas)) },
	})
	return err
}

// Consume takes further amounts, after any correction of the lease in flight. It may be denied as an Acquire
// may; a denial leaves the lease unchanged. It is refused while the entity is blocked. Errors as of Acquire,
// and ErrLeaseEnded.
func (lease *Lease) Consume(ctx context.Context, amounts Amounts) (err error) {
	if err := lease.checkUsable(ctx); err != nil {
		return err
	}
	if err := checkAmounts(amounts, false); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c, over := lease.beginCorrection(ctx, false)
	switch {
	case over:
		return ErrLeaseEnded
	case c == nil:
		return ctx.Err()
	}
	l := lease.limiter
	var seen *observedCorrection
	if l.reports.Corrected != nil {
		seen = l.reports.observeCorrection(observe.CorrectionConsume, c)
	}
	memory, reason := c.Consume(ctx, amounts, &lease.mu)
	if seen != nil {
		seen.setChange(c.Consumed())
	}
	lease.endCorrection()
	if reason != nil {
		err = errorOf(l.repo.layout, reason)
		if l.reports.Denied != nil {
			l.reports.reportDenial(ctx, err, memory)
		}
	}
	if seen != nil && (err == nil || failedOnTheWay(ctx, err)) { // denials are reported already
		seen.reportEnd(ctx, err)
	}
	return err
}

// Settle ends the lease with the used amounts. Limits that are not named keep their amounts. Slots of calls in
// flight are given back, whatever is named.
// After a Settle or a Rollback it does nothing and returns nil: use after the end is not charged. If it
// fails with amounts that were surely not written, it may be called again. Errors as of Adjust.
func (lease *Lease) Settle(ctx context.Context, actual Amounts) error {
	if len(actual) == 0 && lease.checkUsable(ctx) == nil && lease.endServed(ctx) {
		return nil
	}
	change, err := settlement(actual)
	if err != nil {
		return err
	}
	_, err = lease.correct(ctx, change)
	return err
}

// settlement returns the correction of Settle: it ends a lease with the used amounts, and limits without a
// given amount keep theirs. It returns a *ValidationError for bad amounts; none at all are valid.
func settlement(actual Amounts) (correction, error) {
	if len(actual) > 0 {
		if err := checkAmounts(actual, false); err != nil {
			return correction{}, err
		}
	}
	named := call.SignedOf(actual)
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

// checkUsable returns a *ValidationError for a lease that no acquire returned, and for a nil context; nil
// otherwise, also for an ended lease.
func (lease *Lease) checkUsable(ctx context.Context) error {
	if lease == nil || lease.limiter == nil {
		return invalid("lease", "is nil; check the error of Acquire before using the lease")
	}
	if ctx == nil {
		return checkContext(ctx)
	}
	return nil
}
