package lane

import (
	"bytes"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// The states of an op.
const (
	opQueued = iota
	opCarried
	opPending // its caller is answered, and its write is in flight
	opDone    // its result is there
	opGone    // its caller left, and nothing remains to be done for it
)

// Op is one caller's part of a bucket's writes: a take, which may be denied, or
// an adjust, which may not.
type Op struct {
	ctx context.Context // for its values; the write outlives its end
	plan.Ask
	cfg *plan.Config
	// Done is closed when Result is there.
	Done chan struct{}
	// Incarnation is the bucket that an adjust gives back to.
	Incarnation []byte
	// GivesBack means that the op gives some of its amounts back, or takes lapsed prefetched tokens off the
	// counter. It is an adjust then.
	GivesBack bool
	// charges means that the op takes anything. lapses means that it takes prefetched tokens that were never
	// admitted off the counter.
	// rides means that the op is queued and waits for a write that another op needs. The lane's mutex guards it.
	charges, lapses, rides bool

	listOfOne [1]*Op // the room of asList
	// Waiter is the caller's place in the bucket's line; nil for a call that does not
	// wait in line.
	Waiter *Waiter

	// Until is the end of the caller's time for the store; zero means no end.
	Until time.Time
	// sent, if it is set, is closed when a write that carries the op is first sent.
	sent chan struct{}
	// throttledBy is the last throttling error that put the op off; nil if it was not throttled.
	throttledBy atomic.Pointer[error]

	// debited is the time of a prefetch's write: its onOutcome puts the tokens into the lane's stock.
	debited int64

	// onOutcome is called with the outcome once its caller no longer waits for it. outcome holds the
	// outcome if it was known before onOutcome was set.
	onOutcome func(Result)
	outcome   atomic.Pointer[Result]

	// state is written under the lane's mutex; the goroutine that runs the lane reads it without.
	state atomic.Int32
	// notCarried means that the write in flight has nothing of this op. abandoned means that the caller
	// has left: a grant is given back.
	notCarried, abandoned atomic.Bool
	bucketRead            bool // the bucket was read for this op: it may be denied from that image, even if the read was slow
	// Rank is the seniority of its caller among the waiters.
	Rank uint64
	// place is the place in the line whose amounts it takes; nil without one.
	place *place

	// Result is the outcome. It may be read once Done is closed.
	Result Result
}

// Result is the outcome of an op.
type Result struct {
	// Denied means that a take does not fit: Image and Before show why.
	Denied bool
	// Unconfirmed means that the write may have landed: it counts as consumed.
	Unconfirmed bool
	// Pending means that the write is in flight and its outcome is not known yet. It is not sent again.
	// Lane.Follow books the outcome of a take then.
	Pending bool
	// Err is the cause of a failed op: a *Failure, or the store's error.
	Err error
	// Image is the bucket after the write, or the bucket that denied. Now is the instant of the
	// decision in Unix ms, and Config its configuration.
	Image  *schema.Image
	Now    int64
	Config *plan.Config
	// LandedIn are the windows of the written limits. It is set only if an image with other windows
	// stands in for a lost answer; the write's own answer shows them.
	LandedIn []plan.Signed
	// Degraded means that the image is of this process's share, or an old one.
	Degraded bool
	// Before is the amounts that went before the take, so that it did not fit.
	Before plan.Precedence
	// Dropped are the limits of an adjust that the bucket did not have: they were neither charged nor
	// given back to.
	Dropped []string
	// Model is the counter by model that a landed take moved.
	Model plan.Model
	// Down is the part that was counted and not charged: of an adjust, beyond the deepest debt of a
	// limit; of a take, beyond a limit in shadow.
	Down []plan.Signed
}

// Window returns the written window of a limit; 0 if the bucket lacks it.
func (r *Result) Window(limit string) bucket.WindowID {
	for _, w := range r.LandedIn {
		if w.Name == limit {
			return w.Window
		}
	}
	return plan.WindowOf(r.Image, limit)
}

// NewTake makes an op that takes amounts under a configuration, all or nothing, for a caller who does not wait
// in line. It queues nothing.
func NewTake(ctx context.Context, amounts []plan.Signed, cfg *plan.Config) *Op {
	return &Op{ctx: ctx, Ask: plan.Ask{Take: true, Amounts: amounts}, charges: true, cfg: cfg, Rank: LastRank, Done: make(chan struct{})}
}

// NewAdjust makes an op that charges the amounts above 0 and gives back those below 0. It gives back only to
// the given incarnation of the bucket, and charges any.
func NewAdjust(ctx context.Context, amounts []plan.Signed, incarnation []byte, cfg *plan.Config) *Op {
	o := &Op{ctx: ctx, Ask: plan.Ask{Amounts: amounts}, Incarnation: incarnation, cfg: cfg, Done: make(chan struct{})}
	for i := range amounts {
		if w := amounts[i].Window; w != 0 && w.IsSlots() { // a write moves them, by an image
			o.charges = true
			continue
		}
		o.charges, o.GivesBack = o.charges || amounts[i].Amount > 0, o.GivesBack || amounts[i].Amount < 0
	}
	return o
}

// newTending makes an adjust without amounts and without a caller, for a write that moves slots of the process.
// Nobody learns its outcome.
func newTending(ctx context.Context, cfg *plan.Config) *Op {
	o := NewAdjust(ctx, nil, nil, cfg)
	o.charges, o.onOutcome = true, func(Result) {}
	return o
}

// NewPending makes an op, marked as pending, for a take of a transaction with an unknown outcome. beyond is the
// part of amounts that is only counted.
func NewPending(ctx context.Context, amounts, beyond []plan.Signed, cfg *plan.Config) *Op {
	o := NewTake(ctx, amounts, cfg)
	o.Down = beyond
	o.state.Store(opPending)
	return o
}

// NotifySent returns a channel that is closed when a write that carries the op is first sent. It is called
// before the op is queued.
func (o *Op) NotifySent() <-chan struct{} {
	o.sent = make(chan struct{})
	return o.sent
}

// markSent closes the channel of NotifySent, because a write that carries the op is being sent.
func (o *Op) markSent() {
	close(o.sent)
	o.sent = nil
}

// asList returns a list of this op only, without an allocation. Most writes carry one op.
func (o *Op) asList() []*Op {
	o.listOfOne[0] = o
	return o.listOfOne[:]
}

// isAbandonedTake reports whether the op is a take without a caller any more.
func (o *Op) isAbandonedTake() bool { return o.Take && o.abandoned.Load() }

// charged returns a new list of the op's amounts above 0, with its lapsed tokens subtracted.
func (o *Op) charged() []plan.Signed {
	return slices.DeleteFunc(plan.Plus(o.Amounts, o.Late), func(a plan.Signed) bool { return a.Amount <= 0 })
}

// Outcome returns the outcome of a pending op. It is false if the outcome is not known yet.
func (o *Op) Outcome() (Result, bool) {
	if r := o.outcome.Load(); r != nil {
		return *r, true
	}
	return Result{}, false
}

// refundOf returns a new adjust, not queued, that gives back the charge of this take's result r in the windows
// of that. Amounts that were only counted are left out.
func (o *Op) refundOf(r Result) *Op {
	charged := o.Amounts
	if len(r.Down) > 0 {
		charged = slices.DeleteFunc(slices.Clone(charged), func(a plan.Signed) bool { return plan.Includes(r.Down, a.Name) })
	}
	back := NewAdjust(o.ctx, plan.Negated(plan.InWindows(charged, r.Window)), r.Image.IncarnationID(), o.cfg)
	back.Model = r.Model
	return back
}

// CallersContext returns the context of the op's caller, for its values; it may have ended.
func (o *Op) CallersContext() context.Context { return o.ctx }

// Written returns the amounts of the op that a write carries, without give-backs to a bucket that is
// gone.
func (o *Op) Written() []plan.Signed {
	var amounts []plan.Signed
	for _, a := range o.Amounts {
		if a.Amount > 0 || !o.RefundDropped {
			amounts = append(amounts, a)
		}
	}
	return amounts
}

// PrefetchAmounts returns the amounts that an op prefetches, and the lapsed amounts that it takes off the
// counter. Each is nil without such amounts.
func (o *Op) PrefetchAmounts() (debited, lapsed []plan.Signed) {
	if o.Prefetch {
		debited = o.Amounts
	}
	if o.lapses && !o.RefundDropped {
		lapsed = plan.Negated(o.Late)
	}
	return debited, lapsed
}

// Cause returns the last throttling error that put the op off; nil if it was not throttled.
func (o *Op) Cause() error {
	if err := o.throttledBy.Load(); err != nil {
		return *err
	}
	return nil
}

// refundsOtherIncarnation reports whether the op gives tokens back to another incarnation of the bucket than
// the one in the image, which must not be nil. It is false if the give-back is dropped.
func (o *Op) refundsOtherIncarnation(m *schema.Image) bool {
	return !o.RefundDropped && o.GivesBack && !bytes.Equal(o.Incarnation, m.IncarnationID())
}

// isUnplaced reports whether the image, nil for a missing bucket, lacks the incarnation or limit of the op's
// give-back, or shows an earlier window. It may be older than the grant, because a transaction's answer shows
// no image. Slots are always placed.
func (o *Op) isUnplaced(m *schema.Image) bool {
	if o.refundsOtherIncarnation(m) {
		return true
	}
	for i := range o.Amounts {
		if a := &o.Amounts[i]; a.Amount < 0 && (a.Window == 0 || !a.Window.IsSlots()) && (!m.HasLimit(a.Name) || a.Window != 0 && a.Window > plan.WindowOf(m, a.Name)) {
			return true
		}
	}
	return false
}
