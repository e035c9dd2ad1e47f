package lane

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	// MaxTries bounds the requests of one decided write.
	MaxTries = 10
	// MaxUnconfirmed is how many tries of a take may go unanswered before one
	// consistent read asks what became of them.
	MaxUnconfirmed = 3
	// backoffBase and backoffMost bound the jittered waits between tries.
	backoffBase = 5 * time.Millisecond
	backoffMost = 200 * time.Millisecond
)

// Backoff is the wait between the tries of a bucket's write.
var Backoff = ddb.Backoff{First: backoffBase, Most: backoffMost}

// delivery is one write on its way: decided, and sent once or several times.
type delivery struct {
	kind      plan.Kind
	carried   []*Op
	operation uint64
	// givesBack means that the write gives something back, so it must never land twice.
	givesBack bool
	// plan, or giveBack, is what the delivery writes.
	plan     plan.Write
	giveBack schema.GiveBack

	// slotBefore is what the op slot held in the image from which the write was decided.
	// lastIsOwn means that this was this client's own last write.
	slotBefore []byte
	lastIsOwn  bool
	rule       schema.OpRule
	try        int
	// driven means that a caller's goroutine sends the write. It must answer its caller
	// when the bucket does not answer, even if the caller's context has no end.
	driven bool
	// unanswered counts the tries that got no answer. silentTries counts the tries in a
	// row to which the store said nothing, whether or not they were sent.
	unanswered, silentTries int
}

// prepare decides how the tries recognise each other. A take is sent again on the
// condition that the slot does not show an earlier try; if it lands twice all the same,
// it counts twice, which is safe. A give-back is sent again only if every try requires
// the slot to hold this client's own last write, so that it lands once.
func (l *Lane) prepare(d *delivery) {
	if l.sight.image != nil {
		d.slotBefore = l.sight.image.Op
	}
	d.lastIsOwn = l.lastOp.is(d.slotBefore)
	if d.givesBack && d.lastIsOwn {
		d.rule = schema.OpLast
	}
}

// deliver sends a write until it is known whether it landed, or until the driver's ctx
// ends. In the latter case the delivery can continue under another context.
func (l *Lane) deliver(ctx context.Context, d *delivery) (a Answer, driverEnded bool) {
	for ; ; d.try++ {
		if a, over, driverEnded := l.prepareTry(ctx, d); over {
			return a, driverEnded
		}
		o := schema.Op{Slot: l.owner.IDs.Slot, Rule: d.rule, ID: OpID(d.operation, d.try), Last: d.slotBefore}
		began := time.Now()
		a = l.attempt(ctx, d, o)
		a.Tries = d.try + 1
		trips := l.noteSilence(d, &a, time.Since(began))
		if l.bookTry(d, &a, o, trips) {
			return a, false
		}
		if trips {
			if !l.Trip(a.Err) { // after Close nothing probes the bucket, and nothing is kept
				return a.orUnconfirmed(d.unanswered), false
			}
			continue
		}
		if d.try+1 >= MaxTries || l.allOutOfTime(d.carried) {
			return a.orUnconfirmed(d.unanswered), false
		}
		if !Backoff.Pause(ctx, d.try) { // only a driver's context ends
			d.try++
			return a, true
		}
	}
}

// prepareTry waits while the bucket does not answer, and reads the bucket if too many
// tries got no answer. over means that the delivery is finished; driverEnded that it has
// to continue without its driver.
func (l *Lane) prepareTry(ctx context.Context, d *delivery) (a Answer, over, driverEnded bool) {
	waited := l.Contact.silent.Load()
	if waited {
		if d.driven {
			return Answer{}, true, true // a driver answers its caller
		}
		if !l.Contact.await(l.owner.life) {
			return d.unsent().orUnconfirmed(d.unanswered), true, false
		}
	}
	abandoned := (d.try > 0 || waited) && l.allAbandoned(d.carried, waited)
	switch {
	case d.unanswered >= MaxUnconfirmed || d.unanswered > 0 && abandoned:
		return l.lookFor(ctx, d), true, false
	case abandoned:
		return d.unsent(), true, false
	}
	return Answer{}, false, false
}

// unsent is the answer to a delivery that ends because its bucket does not answer.
func (d *delivery) unsent() Answer {
	return Answer{Verdict: ddb.Unsent, Err: silence(ErrTripped), Tries: d.try}
}

// bookTry books the answer to one try. It reports whether the answer ends the delivery.
func (l *Lane) bookTry(d *delivery, a *Answer, o schema.Op, trips bool) bool {
	switch a.Verdict {
	case ddb.Landed:
		l.lastOp.set(o.ID)
		a.earlierUnconfirmed = d.rule == schema.OpNotMine && d.kind != plan.Create // another write may hide it
		return true
	case ddb.Refused:
		if d.unanswered > 0 {
			*a = l.recognise(*a, d)
		}
		return true
	case ddb.Throttled:
		return d.unanswered == 0 // surely not written: it is decided anew
	case ddb.Unconfirmed:
		d.unanswered++
		if !d.givesBack {
			d.rule = schema.OpNotMine
			return false
		}
		if !d.lastIsOwn && trips {
			l.Trip(a.Err)
		}
		return !d.lastIsOwn
	case ddb.Failed:
		*a = a.orUnconfirmed(d.unanswered)
		return true
	default:
		return false
	}
}

// noteSilence notes whether the store answered at all. It reports whether the lane has
// to trip: after one request that was given its full time, or after MaxUnconfirmed fast
// failures.
func (l *Lane) noteSilence(d *delivery, a *Answer, took time.Duration) (trips bool) {
	if a.Verdict == ddb.Throttled {
		l.throttled(false, took)
	}
	if !silent(a.Err) {
		if heard(a.Err) {
			l.Contact.Hear()
			d.silentTries = 0
		}
		return false
	}
	d.silentTries++
	return took >= SlowFailure || d.silentTries >= MaxUnconfirmed
}

// attempt sends a write once.
func (l *Lane) attempt(ctx context.Context, d *delivery, o schema.Op) Answer {
	l.batchSent = true
	var st schema.Statement
	switch d.kind {
	case plan.Create:
		d.plan.Create.OpID = o.ID
		return l.owner.Store.Create(ctx, d.plan.Create, l.sight.hint(), o.Slot)
	case plan.Spend:
		d.plan.Spend.Op = o
		st = d.plan.Spend.Statement()
	case plan.Claim:
		d.plan.Claim.Op = o
		st = d.plan.Claim.Statement()
	default:
		d.giveBack.Op = o
		st = d.giveBack.Statement()
	}
	return l.owner.Store.Update(ctx, l.Key(), st, l.sight.hint(), o.Slot)
}
