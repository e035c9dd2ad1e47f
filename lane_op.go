package dynalimit

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

// op is one caller's part of a bucket's writes: a take, which may be denied, or
// an adjust, which may not.
type op struct {
	ctx     context.Context // for its values; the write outlives its end
	take    bool
	amounts []plan.Signed
	cfg     *plan.Config
	done    chan struct{}
	// incarnation is the bucket that an adjust gives back to; forgone says that
	// it is gone, and with it what was to be given back.
	incarnation []byte
	forgone     bool

	self   [1]*op  // for alone
	waiter *waiter // in the bucket's line, nil for an ordinary take

	// until is when its caller gives up on the store; zero for never.
	until time.Time

	// charge is what a bucket is owed, of which the op writes what is due; late
	// is what of it the counter alone is charged. Such an op is solo: it rides
	// with no other. owedTo is the incarnation of the bucket that is owed.
	charge *backlog.Charge
	late   []plan.Signed
	solo   bool
	owedTo []byte

	// heir learns the outcome when nobody waits for it any more; final is the
	// outcome if it came before the heir.
	heir  func(result)
	final *result

	state opState
	// unburdened says that the write under way carries nothing of it.
	unburdened bool
	abandoned  bool // the caller has gone: what is granted is given back
	looked     bool // the bucket was read for it: it may be denied from that, however slow the read was
	refusals   int
	passed     int    // writes that left it behind
	rank       uint64 // the caller's among waiters
	dropped    []string

	result result
}

// result is what came of an op. It is read after done is closed.
type result struct {
	denied bool
	// unknown says that the write may have landed: it counts as consumed.
	unknown bool
	// pending says that the write is under way: its outcome can be inherited.
	pending bool
	// lost says that the bucket that was owed is gone.
	lost bool
	err  error
	// image is the bucket after the write, or as it denied; now is when that
	// was decided, cfg under what.
	image *schema.Image
	now   int64
	cfg   *plan.Config
	// degraded says that the image is the process's own account, or old.
	degraded bool
	// before is what the take did not fit beside.
	before plan.Precedence
	// dropped are the limits of an adjust that its write had no place for: they
	// were neither charged nor given back to.
	dropped []string
}

func newTake(ctx context.Context, amounts []plan.Signed, cfg *plan.Config) *op {
	return &op{ctx: ctx, take: true, amounts: amounts, cfg: cfg, rank: lastRank, done: make(chan struct{})}
}

// newAdjust gives back to one incarnation of the bucket alone; what it charges,
// it charges to the bucket there is.
func newAdjust(ctx context.Context, amounts []plan.Signed, incarnation []byte, cfg *plan.Config) *op {
	return &op{ctx: ctx, amounts: amounts, incarnation: incarnation, cfg: cfg, done: make(chan struct{})}
}

// alone is a list of the op, which is all that most writes carry.
func (o *op) alone() []*op {
	o.self[0] = o
	return o.self[:]
}

// givesBack reports whether an adjust returns anything.
func (o *op) givesBack() bool {
	for _, a := range o.amounts {
		if a.Amount < 0 {
			return !o.take
		}
	}
	return false
}

// charges reports whether an op takes anything.
func (o *op) charges() bool {
	return o.take || len(o.late) > 0 || slices.ContainsFunc(o.amounts, func(a plan.Signed) bool { return a.Amount > 0 })
}

// reversed is the adjust that gives back what a take was granted by r.
func (o *op) reversed(r result) *op {
	back := make([]plan.Signed, len(o.amounts))
	for i, a := range o.amounts {
		back[i] = plan.Signed{Name: a.Name, Amount: -a.Amount}
	}
	return newAdjust(o.ctx, back, r.image.Of(), o.cfg)
}

// dropsIn notes which limits of an adjust a write decided from v leaves out.
func (o *op) dropsIn(v plan.View) {
	o.dropped = nil
	for _, a := range append(slices.Clone(o.amounts), o.late...) {
		if _, known := v.Room(a.Name, 0); !known {
			o.dropped = append(o.dropped, a.Name)
		}
	}
}

// addTo adds the op to the sums of a batch.
func (o *op) addTo(s *plan.Sums) {
	for _, a := range o.late {
		s.At(a.Name).Late += a.Amount
	}
	for _, a := range o.amounts {
		at := s.At(a.Name)
		switch {
		case o.take:
			at.Take += a.Amount
		case a.Amount > 0:
			at.Adjust += a.Amount
		case !o.forgone:
			at.Back -= a.Amount
		}
	}
}

// opIDs makes the ids of a client's writes: 8 bytes for the operation, unique
// among all clients, and one for the try.
type opIDs struct {
	base uint64
	next atomic.Uint64
	slot int
}

func newOpIDs() *opIDs {
	var seed [8]byte
	_, _ = rand.Read(seed[:]) // never fails: crypto/rand aborts the program instead
	base := binary.BigEndian.Uint64(seed[:])
	return &opIDs{base: base, slot: int(base % schema.OpSlots)}
}

// operation returns a new operation.
func (ids *opIDs) operation() uint64 { return ids.base + ids.next.Add(1) }

// opID is the id of a try of an operation.
func opID(operation uint64, try int) []byte {
	id := make([]byte, 9)
	binary.BigEndian.PutUint64(id, operation)
	id[8] = byte(try)
	return id
}

// isTryOf reports whether a slot's value is a try of the operation.
func isTryOf(slot []byte, operation uint64) bool {
	return len(slot) == 9 && binary.BigEndian.Uint64(slot) == operation
}

// refresh works out what of an owed charge is due at now: what a queue of the
// limit's rate still holds is taken, all of it is counted.
func (o *op) refresh(now int64) {
	if o.charge == nil {
		return
	}
	o.amounts, o.late = nil, nil
	for _, d := range o.charge.Due(now) {
		if d.Tokens > 0 {
			o.amounts = plan.Plus(o.amounts, []plan.Signed{{Name: d.Name, Amount: d.Tokens}})
		}
		if d.Count > d.Tokens {
			o.late = plan.Plus(o.late, []plan.Signed{{Name: d.Name, Amount: d.Count - d.Tokens}})
		}
	}
}

// owed is all that an owed charge counts.
func (o *op) owed() []plan.Signed { return plan.Plus(o.amounts, o.late) }

// owedOf is what an owed charge counts of some limits.
func (o *op) owedOf(names []string) []plan.Signed {
	return slices.DeleteFunc(slices.Clone(o.owed()), func(a plan.Signed) bool { return !slices.Contains(names, a.Name) })
}
