package dynalimit

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/backlog"
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
	amounts []signed
	cfg     *bucketConfig
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
	late   []signed
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
	before     precedence
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
	cfg   *bucketConfig
	// degraded says that the image is the process's own account, or old.
	degraded bool
	// before is what the take did not fit beside.
	before precedence
	// dropped are the limits of an adjust that its write had no place for: they
	// were neither charged nor given back to.
	dropped []string
}

func newTake(ctx context.Context, amounts []signed, cfg *bucketConfig) *op {
	return &op{ctx: ctx, take: true, amounts: amounts, cfg: cfg, rank: lastRank, done: make(chan struct{})}
}

// newAdjust gives back to one incarnation of the bucket alone; what it charges,
// it charges to the bucket there is.
func newAdjust(ctx context.Context, amounts []signed, incarnation []byte, cfg *bucketConfig) *op {
	return &op{ctx: ctx, amounts: amounts, incarnation: incarnation, cfg: cfg, done: make(chan struct{})}
}

// precedence is what goes before a take: what those carried with it give back
// and take at once, and what is left to waiters until they have been served.
type precedence struct {
	taken sums
	left  promises
}

// alone is a list of the op, which is all that most writes carry.
func (o *op) alone() []*op {
	o.self[0] = o
	return o.self[:]
}

// givesBack reports whether an adjust returns anything.
func (o *op) givesBack() bool {
	for _, a := range o.amounts {
		if a.amount < 0 {
			return !o.take
		}
	}
	return false
}

// charges reports whether an op takes anything.
func (o *op) charges() bool {
	return o.take || len(o.late) > 0 || slices.ContainsFunc(o.amounts, func(a signed) bool { return a.amount > 0 })
}

// reversed is the adjust that gives back what a take was granted by r.
func (o *op) reversed(r result) *op {
	back := make([]signed, len(o.amounts))
	for i, a := range o.amounts {
		back[i] = signed{a.name, -a.amount}
	}
	return newAdjust(o.ctx, back, r.image.Of(), o.cfg)
}

// dropsIn notes which limits of an adjust a write decided from v leaves out.
func (o *op) dropsIn(v view) {
	o.dropped = nil
	for _, a := range append(slices.Clone(o.amounts), o.late...) {
		if _, known := v.room(a.name, 0); !known {
			o.dropped = append(o.dropped, a.name)
		}
	}
}

// addTo adds the op to the sums of a batch.
func (o *op) addTo(s *sums) {
	for _, a := range o.late {
		s.at(a.name).Late += a.amount
	}
	for _, a := range o.amounts {
		at := s.at(a.name)
		switch {
		case o.take:
			at.Take += a.amount
		case a.amount > 0:
			at.Adjust += a.amount
		case !o.forgone:
			at.Back -= a.amount
		}
	}
}

// fits reports whether a take fits beside the sums already carried and what is
// left to waiters.
func (o *op) fits(v view, s sums, left promises) bool {
	for _, a := range o.amounts {
		carried := s.of(a.name)
		room, known := v.room(a.name, carried.Back)
		if !known || a.amount > room-carried.Take-left.of(a.name).amount {
			return false
		}
	}
	return true
}

// modest reports whether a take stays within the share of what is there that is
// left after halving it so many times.
func (o *op) modest(v view, s sums, halved int) bool {
	for _, a := range o.amounts {
		carried := s.of(a.name)
		if room, _ := v.room(a.name, carried.Back); carried.Take+a.amount > room>>halved {
			return false
		}
	}
	return true
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

// hasBack reports whether the sums give anything back.
func (s sums) hasBack() bool {
	for i := range s {
		if s[i].Back > 0 {
			return true
		}
	}
	return false
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
			o.amounts = plus(o.amounts, []signed{{d.Name, d.Tokens}})
		}
		if d.Count > d.Tokens {
			o.late = plus(o.late, []signed{{d.Name, d.Count - d.Tokens}})
		}
	}
}

// owed is all that an owed charge counts.
func (o *op) owed() []signed { return plus(o.amounts, o.late) }

// owedOf is what an owed charge counts of some limits.
func (o *op) owedOf(names []string) []signed {
	return slices.DeleteFunc(slices.Clone(o.owed()), func(a signed) bool { return !slices.Contains(names, a.name) })
}
