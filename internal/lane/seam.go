package lane

import (
	"context"

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

// WritesOwed reports whether a write of what the bucket is owed is under way.
func (l *Lane) WritesOwed() bool {
	w := l.owing.Load()
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.carried
}

// ForgetOwnWrite makes the lane's next give-back one that is sent once, as that of
// a lane which was forgotten meanwhile.
func (l *Lane) ForgetOwnWrite() { l.lastOp = nil }

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
