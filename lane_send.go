package dynalimit

import (
	"bytes"
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	// maxTries bounds the requests of one decided write.
	maxTries = 10
	// maxAmbiguous is how many tries of a take may go unanswered before one
	// consistent read asks what became of them.
	maxAmbiguous = 3
	// backoffBase and backoffMost bound the jittered waits between tries.
	backoffBase = 5 * time.Millisecond
	backoffMost = 200 * time.Millisecond
)

// writeBackoff is the wait between the tries of a bucket's write.
var writeBackoff = ddb.Backoff{First: backoffBase, Most: backoffMost}

// delivery is one decided write on its way.
type delivery struct {
	kind      plan.Kind
	carried   []*op
	operation uint64
	// backs says that it gives something back, and so must never land twice.
	backs bool
	// plan, or giveBack, is what it writes.
	plan     plan.Write
	giveBack schema.GiveBack

	// last is what the slot held in the image the write was decided from; own
	// says that it was this client's own last write.
	last []byte
	own  bool
	rule schema.OpRule
	try  int
	// driven says that a caller's goroutine sends it, who must be answered once the
	// bucket does not answer; without context, it would wait as long as that.
	driven bool
	// unanswered is how many tries went unanswered, silent how many in a row the
	// store did not answer at all, sent or not.
	unanswered, silent int
}

// prepare decides how the tries recognise themselves. A take is resent so that
// it does not meet its own; landing twice is safe, it counts twice. A give-back
// is resent only when every try requires the slot's last write to be this
// client's own, so that it lands once.
func (l *lane) prepare(d *delivery) {
	if l.sight.image != nil {
		d.last = l.sight.image.Op
	}
	d.own = len(l.lastOp) > 0 && bytes.Equal(d.last, l.lastOp)
	if d.backs && d.own {
		d.rule = schema.OpLast
	}
}

// deliver sends a write until it is known to have landed or not, or the driver's
// ctx ends: then the delivery can go on under another.
func (l *lane) deliver(ctx context.Context, d *delivery) (a answer, ended bool) {
	for ; ; d.try++ {
		if l.tripped.Load() {
			if d.driven {
				return answer{}, true // a driver answers its caller
			}
			if !l.rideOut(l.owner.life) {
				return answer{verdict: ddb.Throttled, err: silence(errTripped), tries: d.try}.orUnknown(d.unanswered), false
			}
		}
		if d.unanswered >= maxAmbiguous || d.unanswered > 0 && l.deserted(d.carried) {
			return l.lookFor(ctx, d), false
		}
		if d.try > 0 && d.unanswered == 0 && l.deserted(d.carried) {
			return answer{verdict: ddb.Throttled, err: silence(errTripped), tries: d.try}, false
		}
		o := schema.Op{Slot: l.owner.ids.slot, Rule: d.rule, ID: opID(d.operation, d.try), Last: d.last}
		began := time.Now()
		a = l.attempt(ctx, d, o)
		a.tries = d.try + 1
		trips := l.listens(d, &a, time.Since(began))
		switch a.verdict {
		case ddb.Landed:
			l.lastOp = o.ID
			return a, false
		case ddb.Refused:
			if d.unanswered > 0 {
				a = l.recognise(a, d)
			}
			return a, false
		case ddb.Ambiguous:
			d.unanswered++
			if !d.backs {
				d.rule = schema.OpNotMine
			}
			if d.backs && !d.own {
				if trips {
					l.trip(a.err)
				}
				return a, false
			}
		case ddb.Failed:
			return a.orUnknown(d.unanswered), false
		}
		if trips {
			if !l.trip(a.err) { // after Close nothing probes the bucket, and nothing is kept
				return a.orUnknown(d.unanswered), false
			}
			continue
		}
		if d.try+1 >= maxTries || l.impatient(d.carried) {
			return a.orUnknown(d.unanswered), false
		}
		if !writeBackoff.Pause(ctx, d.try) { // only a driver's context ends
			d.try++
			return a, true
		}
	}
}

// listens notes whether the store answered at all. It reports whether the bucket
// has to be taken for one that does not: once a request was given its time, or
// after as many fast failures as a take is sent again for.
func (l *lane) listens(d *delivery, a *answer, took time.Duration) (trips bool) {
	if !silent(a.err) {
		if heard(a.err) {
			l.heard.Store(time.Now().UnixNano())
			d.silent = 0
		}
		return false
	}
	d.silent++
	return took >= slowFailure || d.silent >= maxAmbiguous
}

// attempt sends a write once.
func (l *lane) attempt(ctx context.Context, d *delivery, o schema.Op) answer {
	l.wrote = true
	var st schema.Statement
	switch d.kind {
	case plan.Create:
		d.plan.Create.OpID = o.ID
		return l.owner.store.Create(ctx, d.plan.Create, l.sight.hint(), o.Slot)
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
	return l.owner.store.Update(ctx, l.key, st, l.sight.hint(), o.Slot)
}

// orUnknown makes an answer ambiguous if an earlier try went unanswered.
func (a answer) orUnknown(unanswered int) answer {
	if unanswered > 0 {
		a.verdict = ddb.Ambiguous
	}
	return a
}

// recognise reads a refusal that follows an unanswered try: the image may show
// that the earlier one landed. Else a take is decided again: that the earlier
// one lands late is safe. A give-back is not, for it would land twice, whatever
// the slot holds now: what cannot be known stays consumed.
func (l *lane) recognise(a answer, d *delivery) answer {
	if a.image != nil && isTryOf(a.image.Op, d.operation) {
		l.lastOp = a.image.Op
		a.verdict = ddb.Landed
		return a
	}
	a.unsure = true
	if d.backs {
		a.verdict, a.err = ddb.Ambiguous, unconfirmed("give back")
	}
	return a
}

// lookFor asks by one consistent read what became of an unanswered write.
func (l *lane) lookFor(ctx context.Context, d *delivery) answer {
	image, err := l.owner.store.Read(ctx, l.key, l.sight.hint(), l.owner.ids.slot)
	if err != nil {
		return answer{verdict: ddb.Ambiguous, err: err}
	}
	if image != nil && isTryOf(image.Op, d.operation) {
		l.lastOp = image.Op
		return answer{verdict: ddb.Landed, image: image, seen: true}
	}
	return answer{verdict: ddb.Ambiguous, image: image, seen: true, err: unconfirmed(writeBucket)}
}
