package dynalimit

import (
	"context"
	"slices"
	"sync"

	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// Lease is what an acquire was granted, at every level of its cascade. It is safe for
// concurrent use. Acquire, Wait and Do make it; a nil or zero Lease holds nothing, and
// its corrections return a *ValidationError.
//
// Call Settle with the amounts that were really used when the call has ended, or
// Rollback if it failed and used nothing. A deferred Rollback is safe, because it does
// nothing after Settle. Adjust charges more or gives back while the call runs and is
// never denied; Consume takes more and may be denied. A lease that is dropped without
// any of them keeps what it took.
//
// Adjust, Settle and Rollback write at once, and finish even if the caller's context has
// ended. Corrections of one lease are made one after the other. Consumed, Degraded and
// Statuses answer at once, whatever is under way.
type Lease struct {
	limiter *RateLimiter
	request request
	policy  UnavailablePolicy

	mu sync.Mutex // never held across a request
	// busy means that a correction is under way. freed is made by a caller who waits for
	// it, and closed when it has ended.
	busy  bool
	freed chan struct{}
	// levels are the buckets that the lease charges, child first; nil if not even the
	// configuration could be read, or if nothing limits the call. Only the correction
	// under way changes them.
	levels []level
	// consumed is what the caller says it uses. The holdings of each level say what
	// became of it in that bucket.
	consumed []plan.Signed
	ended    bool
	// failed means that its acquire failed as a whole: nobody has the lease.
	failed bool
	// unlimited means that a level is unlimited. It is none of the levels: nothing is
	// charged there, and it has every limit.
	unlimited bool

	// room is for most leases all that they need besides: one level, and what is asked
	// and held of one limit or two.
	room struct {
		levels   [1]level
		asked    [2]plan.Signed
		holdings [2]backlog.Holding
	}
}

// newLease makes the lease of a request that is about to charge a cascade.
func newLease(l *RateLimiter, r *request, c *cascade, policy UnavailablePolicy) *Lease {
	lease := &Lease{limiter: l, request: *r, policy: policy, unlimited: c.unlimited}
	lease.levels = c.levels(lease.room.levels[:0], lease.room.asked[:0])
	if len(lease.levels) == 1 {
		lease.levels[0].holdings = lease.room.holdings[:0]
	}
	if len(lease.levels) == 1 && len(lease.levels[0].asked) == len(r.amounts) {
		lease.consumed = lease.levels[0].asked // lists are never changed
	} else {
		lease.consumed = lease.known(signedOf(r.amounts))
	}
	return lease
}

// known are the amounts of limits that some level of the lease has, in force or hidden,
// where others are to be passed over; elsewhere it is all of them.
func (lease *Lease) known(amounts []plan.Signed) []plan.Signed {
	if !lease.passesOver() {
		return amounts
	}
	levels := configs(lease.levels)
	return slices.DeleteFunc(slices.Clone(amounts), func(a plan.Signed) bool {
		return !lease.has(a.Name) && (lease.unlimited || !lease.limiter.hides(a.Name, levels))
	})
}

// passesOver reports whether amounts of limits that no level has are passed over: they
// are those of an unlimited level, or the call said so. Nothing is passed over before the
// levels are known.
func (lease *Lease) passesOver() bool {
	return lease.unlimited || lease.request.opts.ignoreUnknown && lease.levels != nil
}

// has reports whether some level of the lease has a limit.
func (lease *Lease) has(name string) bool {
	for i := range lease.levels {
		if lease.levels[i].has(name) {
			return true
		}
	}
	return false
}

// passes reports whether a level above one counts what the lease uses of a limit, too: it
// had the limit when the lease was made, or has one that no level had then.
func (lease *Lease) passes(level int, limit string) bool {
	above, known := false, false
	for i := range lease.levels {
		has := lease.levels[i].counts.Index(limit) >= 0
		above, known = above || has && i > level, known || has
	}
	if known {
		return above
	}
	return slices.ContainsFunc(configs(lease.levels[level+1:]), func(cfg *plan.Config) bool { return cfg.Index(limit) >= 0 })
}

// begin waits until no other correction is under way. It returns true with lease.mu
// held, or false if ctx ends first.
func (lease *Lease) begin(ctx context.Context) bool {
	lease.mu.Lock()
	for lease.busy {
		if lease.freed == nil {
			lease.freed = make(chan struct{})
		}
		freed := lease.freed
		lease.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return false
		}
		lease.mu.Lock()
	}
	lease.busy = true
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

// spread is the number of levels whose bucket has to be asked.
func (lease *Lease) spread() int {
	n := 0
	for i := range lease.levels {
		if !lease.levels[i].skipped() {
			n++
		}
	}
	return n
}

// denial is the error of an acquire that did not fit. It has the statuses of every level
// that answered, as they are once the grants are given back.
func (lease *Lease) denial() *LimitExceededError {
	decided := int64(0) // when the last level did
	for i := range lease.levels {
		if lv := &lease.levels[i]; lv.answered {
			decided = max(decided, lv.last.Now)
		}
	}
	e := emptyDenial(lease.request.entity, lease.request.resource)
	for i := range lease.levels {
		if lv := &lease.levels[i]; lv.answered {
			e.show(&lv.last, lv.asked, lv, decided)
		}
	}
	return e.concluded()
}

// Consumed returns the amounts that the lease holds, in whole tokens. A charge that got
// no answer, and so may have landed, counts as consumed.
func (lease *Lease) Consumed() Amounts {
	if lease == nil {
		return nil
	}
	lease.mu.Lock()
	defer lease.mu.Unlock()
	return tokensOf(lease.consumed)
}

// Degraded reports whether something of the lease was admitted by the policy, or corrected,
// without its bucket. That part is counted there, and not charged.
func (lease *Lease) Degraded() bool {
	if lease == nil || lease.limiter == nil {
		return false
	}
	lease.mu.Lock()
	defer lease.mu.Unlock()
	if lease.levels == nil {
		return !lease.unlimited
	}
	for i := range lease.levels {
		if lease.levels[i].degraded {
			return true
		}
	}
	return false
}

// Statuses returns every limit that the lease holds at every level, the entity first, as
// of the last answer of that level. Response headers can be made from it.
func (lease *Lease) Statuses() []LimitStatus {
	if lease == nil {
		return nil
	}
	lease.mu.Lock()
	defer lease.mu.Unlock()
	var statuses []LimitStatus
	for i := range lease.levels {
		lv := &lease.levels[i]
		if !lv.answered {
			continue
		}
		for _, name := range lv.names() {
			s := lv.last.status(name, 0, 0)
			s.Requested = lv.used(name) / milli
			statuses = append(statuses, s)
		}
	}
	return statuses
}

// Adjust changes the amounts of the lease by signed deltas: positive deltas charge more,
// negative ones give back. It is never denied and may put a bucket into debt. It may
// name limits that Acquire did not name. It writes at once at every level, even if ctx
// has ended.
//
// Errors: *ValidationError for an unknown limit or for giving back more than the lease
// holds, ErrLeaseEnded, and *UnconfirmedError, which names what is not known to be
// written. What may have been written counts as consumed: do not repeat it. What was
// surely not written leaves the lease unchanged, and the error says so (NotWritten): the
// same Adjust again then writes only what is missing.
func (lease *Lease) Adjust(ctx context.Context, deltas Amounts) error {
	if err := checkAmounts(deltas, true); err != nil {
		return err
	}
	return lease.correct(ctx, correction{
		ended:  ErrLeaseEnded,
		target: func(consumed []plan.Signed) []plan.Signed { return plan.Plus(consumed, signedOf(deltas)) },
	})
}

// Settle ends the lease with the amounts that were really used. Limits that are not
// named keep what they hold. After a Settle or a Rollback it does nothing and returns
// nil, whatever the amounts: what is used after the end is not charged. If it fails with
// amounts that were surely not written, it may be called again. Errors as of Adjust.
func (lease *Lease) Settle(ctx context.Context, actual Amounts) error {
	if len(actual) > 0 {
		if err := checkAmounts(actual, false); err != nil {
			return err
		}
	}
	named := signedOf(actual)
	return lease.correct(ctx, correction{ends: true, target: func(consumed []plan.Signed) []plan.Signed {
		target := plan.Merged(consumed, named, func(held, _ int64) int64 { return held })
		for i := range target {
			if amount, ok := plan.AmountOf(named, target[i].Name); ok {
				target[i].Amount = amount
			}
		}
		return target
	}})
}

// Rollback ends the lease and gives back everything it holds. After a Settle or another
// Rollback it does nothing, so it may be deferred. If it fails with give-backs that were
// surely not written, it may be called again. Give-backs that may have been written stay
// consumed, and the *UnconfirmedError says so.
func (lease *Lease) Rollback(ctx context.Context) error {
	return lease.correct(ctx, correction{ends: true, target: func(consumed []plan.Signed) []plan.Signed {
		return plan.Merged(consumed, nil, func(int64, int64) int64 { return 0 })
	}})
}
