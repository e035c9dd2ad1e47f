package lane

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// opState is where an op is; the lane's mutex guards it.
type opState uint8

const (
	opQueued opState = iota
	opCarried
	opPending // its caller was told that the write is under way, which goes on
	opDone    // its result is there
	opGone    // its caller left, and nothing remains to be done for it
)

// Op is one caller's part of a bucket's writes: a take, which may be denied, or
// an adjust, which may not.
type Op struct {
	ctx  context.Context // for its values; the write outlives its end
	take bool
	// Amounts are what it takes; of an adjust, those below 0 are given back.
	Amounts []plan.Signed
	cfg     *plan.Config
	// Done is closed when Result is there.
	Done chan struct{}
	// incarnation is the bucket that an adjust gives back to; forgone says that
	// it is gone, and with it what was to be given back.
	incarnation   []byte
	refundDropped bool

	listOfOne [1]*Op // for alone
	// Waiter is its caller's in the bucket's line, nil for an ordinary take.
	Waiter *Waiter

	// Until is when its caller gives up on the store; zero for never.
	Until time.Time
	// sent, if set, is closed when a write that carries it is first sent.
	sent chan struct{}
	// throttledBy is why it was put off, nil if it never was.
	throttledBy error

	// charge is what a bucket is owed, of which the op writes what is due; late
	// is what of it the counter alone is charged. Such an op is solo: it rides
	// with no other. owedTo is the incarnation of the bucket that is owed.
	charge *backlog.Charge
	late   []plan.Signed
	solo   bool
	owedTo []byte

	// ahead means that it debits ahead of calls: its heir holds what it is granted,
	// which was sent at debited. lapses means that it takes off the counter, as late
	// amounts below 0, what was debited ahead and never admitted.
	ahead, lapses bool
	debited       int64

	// onOutcome learns the outcome when nobody waits for it any more; final is the
	// outcome if it came before the heir.
	onOutcome func(Result)
	outcome   *Result

	state opState
	// notCarried says that the write under way carries nothing of it.
	notCarried bool
	abandoned  bool // the caller has gone: what is granted is given back
	bucketRead bool // the bucket was read for it: it may be denied from that, however slow the read was
	refusals   int
	postponed  int // writes that left it behind
	dropped    []string
	// Rank is its caller's seniority among waiters.
	Rank uint64

	// Result is what came of it. It is read after Done is closed.
	Result Result
}

// Result is what came of an op.
type Result struct {
	// Denied means that a take does not fit: Image and Before show why.
	Denied bool
	// Unconfirmed means that the write may have landed: it counts as consumed.
	Unconfirmed bool
	// Pending means that the write is under way: its outcome can be inherited.
	Pending bool
	// bucketGone says that the bucket that was owed is gone.
	bucketGone bool
	// Err is why it ended otherwise: a *Failure, or the store's error.
	Err error
	// Image is the bucket after the write, or as it denied; Now is when that was
	// decided, in Unix ms, Config under what.
	Image  *schema.Image
	Now    int64
	Config *plan.Config
	// Degraded means that the image is the process's own account, or old.
	Degraded bool
	// Before is what the take did not fit beside.
	Before plan.Precedence
	// Dropped are the limits of an adjust that its write had no place for: they
	// were neither charged nor given back to.
	Dropped []string
}

// NewTake takes amounts under a configuration, all or nothing.
func NewTake(ctx context.Context, amounts []plan.Signed, cfg *plan.Config) *Op {
	return &Op{ctx: ctx, take: true, Amounts: amounts, cfg: cfg, Rank: LastRank, Done: make(chan struct{})}
}

// NewAdjust gives back to one incarnation of the bucket alone; what it charges,
// it charges to the bucket there is.
func NewAdjust(ctx context.Context, amounts []plan.Signed, incarnation []byte, cfg *plan.Config) *Op {
	return &Op{ctx: ctx, Amounts: amounts, incarnation: incarnation, cfg: cfg, Done: make(chan struct{})}
}

// NewUnderWay is a take that a transaction carries, of which its caller was told
// err meanwhile: what becomes of it can be inherited.
func NewUnderWay(ctx context.Context, amounts []plan.Signed, cfg *plan.Config, err error) *Op {
	o := NewTake(ctx, amounts, cfg)
	o.state, o.Result = opPending, Result{Err: err, Unconfirmed: true, Pending: true}
	return o
}

// TellSent returns a channel that is closed when a write that carries the op is
// first sent. It is called before the op is queued.
func (o *Op) TellSent() <-chan struct{} {
	o.sent = make(chan struct{})
	return o.sent
}

// markSent tells that a write which carries the op is sent.
func (o *Op) markSent() {
	if o.sent != nil {
		close(o.sent)
		o.sent = nil
	}
}

// asList is a list of the op, which is all that most writes carry.
func (o *Op) asList() []*Op {
	o.listOfOne[0] = o
	return o.listOfOne[:]
}

// GivesBack reports whether an adjust returns anything.
func (o *Op) GivesBack() bool {
	for _, a := range o.Amounts {
		if a.Amount < 0 {
			return !o.take
		}
	}
	return o.lapses
}

// charges reports whether an op takes anything.
func (o *Op) charges() bool {
	return o.take || len(o.late) > 0 && !o.lapses || slices.ContainsFunc(o.Amounts, func(a plan.Signed) bool { return a.Amount > 0 })
}

// refundOf is the adjust that gives back what a take was granted by r.
func (o *Op) refundOf(r Result) *Op {
	back := make([]plan.Signed, len(o.Amounts))
	for i, a := range o.Amounts {
		back[i] = plan.Signed{Name: a.Name, Amount: -a.Amount}
	}
	return NewAdjust(o.ctx, back, r.Image.Of(), o.cfg)
}

// noteDropped notes which limits of an adjust a write decided from v leaves out.
func (o *Op) noteDropped(v plan.View) {
	o.dropped = nil
	for _, a := range append(slices.Clone(o.Amounts), o.late...) {
		if _, known := v.Room(a.Name, 0); !known {
			o.dropped = append(o.dropped, a.Name)
		}
	}
}

// addTo adds the op to the sums of a batch.
func (o *Op) addTo(s *plan.Sums) {
	for _, a := range o.late {
		if !o.lapses || !o.refundDropped {
			s.At(a.Name).Late += a.Amount
		}
	}
	for _, a := range o.Amounts {
		at := s.At(a.Name)
		switch {
		case o.take:
			at.Take += a.Amount
		case a.Amount > 0:
			at.Adjust += a.Amount
		case !o.refundDropped:
			at.Back -= a.Amount
		}
	}
}

// IDs makes the ids of a client's writes: 8 bytes for the operation, unique
// among all clients, and one for the try.
type IDs struct {
	base uint64
	next atomic.Uint64
	// Slot is the slot of the item in which this client writes them.
	Slot int
}

func newOpIDs() *IDs {
	var seed [8]byte
	_, _ = rand.Read(seed[:]) // never fails: crypto/rand aborts the program instead
	base := binary.BigEndian.Uint64(seed[:])
	return IDsFrom(base, int(base%schema.OpSlots))
}

// IDsFrom makes ids that follow one, for a slot.
func IDsFrom(base uint64, slot int) *IDs { return &IDs{base: base, Slot: slot} }

// Operation returns a new operation.
func (ids *IDs) Operation() uint64 { return ids.base + ids.next.Add(1) }

// OpID is the id of a try of an operation.
func OpID(operation uint64, try int) []byte {
	id := make([]byte, 9)
	binary.BigEndian.PutUint64(id, operation)
	id[8] = byte(try)
	return id
}

// isTryOf reports whether a slot's value is a try of the operation.
func isTryOf(slot []byte, operation uint64) bool {
	return len(slot) == 9 && binary.BigEndian.Uint64(slot) == operation
}

// computeDue works out what of an owed charge is due at now: what a queue of the
// limit's rate still holds is taken, all of it is counted.
func (o *Op) computeDue(now int64) {
	if o.charge == nil {
		return
	}
	o.Amounts, o.late = nil, nil
	for _, d := range o.charge.Due(now) {
		if d.Tokens > 0 {
			o.Amounts = plan.Plus(o.Amounts, []plan.Signed{{Name: d.Name, Amount: d.Tokens}})
		}
		if d.Count > d.Tokens {
			o.late = plan.Plus(o.late, []plan.Signed{{Name: d.Name, Amount: d.Count - d.Tokens}})
		}
	}
}

// owed is all that an owed charge counts.
func (o *Op) owed() []plan.Signed { return plan.Plus(o.Amounts, o.late) }

// owedOf is what an owed charge counts of some limits.
func (o *Op) owedOf(names []string) []plan.Signed {
	return slices.DeleteFunc(slices.Clone(o.owed()), func(a plan.Signed) bool { return !slices.Contains(names, a.Name) })
}
