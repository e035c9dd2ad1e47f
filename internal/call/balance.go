package call

import (
	"math"
	"time"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// Reading is the last answer of a level. The balances of its limits are made from it.
type Reading struct {
	plan.Reading
	// lane names the bucket.
	lane *lane.Lane
	// precedence is the amounts of earlier takes and waiters, which the denied take had to leave.
	precedence plan.Precedence
	// degraded means that the reading is not the bucket's answer, but the process's share or an old
	// image.
	degraded bool
}

// Balance is the balance of one limit at a level, with a requested amount.
type Balance struct {
	// Lane names the bucket, and Limit the limit.
	Lane  *lane.Lane
	Limit string
	// Rate and Capacity are those of the limit, as the bucket has it.
	Rate     bucket.Rate
	Capacity int64
	// Config is the configuration of the bucket. Index is the limit's place in it, below 0 if it lacks the
	// limit.
	Config *plan.Config
	Index  int
	// Asked is the requested amount in millitokens. Outlook is the balance in millitokens, the wait
	// until Asked fits and the time until the bucket is full, both in ms.
	Asked int64
	bucket.Outlook
	// Degraded means that the bucket did not answer.
	Degraded bool
	// Exceeded means that Asked does not fit and is denied. ByEstimates means that a quota is full of
	// estimates of this process's open calls: Wait is a guess then.
	Exceeded, ByEstimates bool
	// Behind means that a take must leave amounts to waiters, or to a reservation of another process.
	Behind bool
	// Estimated means that Wait is a guess, because the limit is one of calls in flight.
	Estimated bool
}

// balance returns the balance of one limit of a reading, with its wait for asked; of slots that is an estimate.
// back is the amount given back since the reading; both are in millitokens. Amounts left to waiters and, for a
// batch call, the reserve do not count as available.
func (r *Reading) balance(name string, asked, back int64) Balance {
	state, capacity := r.State(name)
	b := Balance{Lane: r.lane, Limit: name, Rate: state.Rate, Capacity: capacity, Config: r.Config, Index: r.Config.Index(name), Asked: asked, Degraded: r.degraded}
	if back != 0 || len(r.precedence.Taken) > 0 {
		taken := r.precedence.Taken.Of(name)
		state.Tokens += back + taken.Back
		// Taken.Take comes off after At, which caps the balance at the burst: a full bucket holds no more.
		state = state.At(r.Now)
		state.Tokens -= taken.Take
	}
	kept := int64(0)
	if r.Batch {
		kept = r.Kept(name)
	}
	if len(r.precedence.Left) == 0 {
		b.Outlook = state.Outlook(r.Now, asked+kept)
	} else {
		left := r.precedence.Left.Of(name)
		b.Behind, b.Level = true, state.Level(r.Now)-left.Amount
		b.Wait, b.Full = left.Wait(state, r.Now, asked+kept), state.Wait(r.Now, state.Burst)
	}
	b.Level -= kept
	if state.Period == 0 { // slots
		b.Full, b.Estimated = 0, b.Wait > 0
		if b.Estimated {
			ahead := r.precedence.Left.Of(name).Amount / milli
			beside := lane.BesideOf(r.lane)
			b.Wait = beside.SlotWait(name, state.Burst) * (1 + ahead)
		}
	}
	shadow := b.Index >= 0 && b.Config.Shadow>>b.Index&1 == 1
	b.Exceeded = asked > 0 && asked > b.Level && !shadow // debt on a limit that is not asked for denies nobody
	return b
}

// age shortens the waits of the balance, in place, by the ms since its reading. The wait of an amount that does
// not fit stays at least 1 ms.
func (b *Balance) age(ms int64) {
	if b.Full > 0 && b.Full != bucket.Never {
		b.Full = max(b.Full-ms, 0)
	}
	if b.Asked > 0 && b.Asked > b.Level && b.Wait > 1 && b.Wait != bucket.Never {
		b.Wait = max(b.Wait-ms, 1)
	}
}

// Never is the wait for an amount that can never fit.
const Never time.Duration = math.MaxInt64

// Duration converts ms to a time.Duration. bucket.Never becomes Never, and any other time that is too long
// becomes 1 ms less than Never.
func Duration(ms int64) time.Duration {
	switch {
	case ms == bucket.Never:
		return Never
	case ms > math.MaxInt64/int64(time.Millisecond)-1:
		return Never - time.Millisecond // centuries, but not never
	}
	return time.Duration(ms) * time.Millisecond
}

// Denied is the reason of a call that does not fit.
type Denied struct {
	// Entity and Resource are the call's.
	Entity, Resource string
	// Balances are those of the requested limits at every level that answered, child first.
	Balances []Balance
	// RetryAfter is the longest wait of the exceeded limits, Never if one of them can never fit.
	RetryAfter time.Duration
	// batch means that the call is a batch call. special means that a waiter, a reservation or a quota has part in
	// the denial.
	batch, special bool
	room           [2]Balance
}

// Error returns a fixed short text without details. Users see another one, which package dynalimit makes from
// the fields.
func (e *Denied) Error() string { return "the amounts do not fit" }

// nextTryIn returns the time until a waiter's next try: RetryAfter, but at most 250 ms for a slot, because
// nobody knows when one is free.
func (e *Denied) nextTryIn() time.Duration {
	if longest := e.longest(); longest != nil && longest.Estimated {
		return min(e.RetryAfter, bucket.SlotLookMS*time.Millisecond)
	}
	return e.RetryAfter
}

// isByEstimates reports whether the longest wait is a guess: by a quota full of estimates, or by a limit of
// calls in flight.
func (e *Denied) isByEstimates() bool {
	longest := e.longest()
	return longest != nil && (longest.ByEstimates || longest.Estimated)
}

// longest returns the exceeded limit with the longest wait, nil if nothing is exceeded.
func (e *Denied) longest() *Balance {
	var longest *Balance
	for i := range e.Balances {
		if b := &e.Balances[i]; b.Exceeded && (longest == nil || Duration(b.Wait) > Duration(longest.Wait)) {
			longest = b
		}
	}
	return longest
}
