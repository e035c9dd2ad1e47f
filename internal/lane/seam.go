package lane

import (
	"context"
	"slices"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// What tests of whole limiters look at, and change, in a lane.

// Image is the bucket as last seen, nil for none.
func (l *Lane) Image() *schema.Image {
	known := l.snapshot()
	return known.image
}

// Carried are the ops of the write that is under way.
func (l *Lane) Carried() []*Op {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ops []*Op
	for _, o := range l.queue {
		if o.state == opCarried || o.state == opPending {
			ops = append(ops, o)
		}
	}
	return ops
}

// ForgetOwnWrite makes the lane's next give-back one that is sent once, as that of
// a lane which was forgotten meanwhile.
func (l *Lane) ForgetOwnWrite() {
	l.mu.Lock() // after the running goroutine has rested
	defer l.mu.Unlock()
	l.lastOp.set(nil)
}

// CallersContext is the context of the caller whose op it is, for its values.
func (o *Op) CallersContext() context.Context { return o.ctx }

// Written are the amounts of the op that a write carries: what is given back to a
// bucket that is gone is not.
func (o *Op) Written() []plan.Signed {
	var amounts []plan.Signed
	for _, a := range o.Amounts {
		if a.Amount > 0 || !o.refundDropped {
			amounts = append(amounts, a)
		}
	}
	return amounts
}

// Served is what a call was served from tokens debited ahead.
type Served struct {
	// Amounts are what the call asked for, Incarnation is the bucket from which they
	// were debited, and Sent says when, by the lane's clock.
	Amounts     []plan.Signed
	Incarnation []byte
	Sent        int64
	// Back means that the amounts were put back, because another bucket denied the call.
	Back bool
}

// tellServed calls OnServe, if it is set. l.mu must be held.
func (l *Lane) tellServed(ctx context.Context, asked []plan.Signed, of []byte, sent int64, back bool) {
	if l.owner.OnServe != nil { // else it makes no garbage
		l.owner.OnServe(ctx, l, Served{Amounts: slices.Clone(asked), Incarnation: of, Sent: sent, Back: back})
	}
}

// Ahead are the amounts that an op debits ahead of calls, and those that it takes off
// the counter because they lapsed.
func (o *Op) Ahead() (debited, lapsed []plan.Signed) {
	if o.ahead {
		debited = o.Amounts
	}
	if o.lapses && !o.refundDropped {
		lapsed = plan.Negated(o.late)
	}
	return debited, lapsed
}
