package ledger

import (
	"context"

	"github.com/dynalimit/dynalimit/fault"
)

// settleRefused finishes the operations of a refused transaction whose items exist, and wakes their callers.
// Those that an earlier try of their own had written are recorded on their board. It returns the others, which
// must be sent again.
func (l *lanes) settleRefused(t *transaction, refused []refusal) (again []*Operation) {
	finished, again := t.resolveRefusals(refused)
	for _, o := range finished {
		if !o.Verdict.Duplicate {
			l.onCounted(o) // an earlier try landed without an answer
		}
		l.finishOperation(o)
	}
	return again
}

// settleLanded sets the verdicts of a landed transaction. It records every operation on its
// board, then wakes the callers.
func (l *lanes) settleLanded(t *transaction) {
	t.setStored()
	for _, o := range t.ops {
		l.onCounted(o)
	}
	for _, o := range t.ops {
		l.finishOperation(o)
	}
}

// failAll finishes operations with err and wakes their callers.
func (l *lanes) failAll(ops []*Operation, err error) {
	for _, o := range ops {
		o.Verdict.err = err
		l.finishOperation(o)
	}
}

// finishOperation gives the verdict of o to its followers, as duplicates or conflicts, and wakes
// the callers of all.
func (l *lanes) finishOperation(o *Operation) {
	for _, f := range o.followers {
		f.Verdict = o.Verdict
		if o.Verdict.err == nil {
			f.Verdict.Duplicate = true
			f.Verdict.Conflict = o.Verdict.Stored.Hash != f.record.Hash
		}
		l.finishOperation(f)
	}
	o.state.CompareAndSwap(opWaiting, opFinished)
	close(o.done)
}

// awaitResult waits until the operation is finished, and returns its error. If ctx ends or the table stops
// answering while the operation is queued, it removes the operation, which was never sent, and returns a
// *fault.UnavailableError. If ctx ends later, it returns the error of ctx, and the write continues.
func (l *lanes) awaitResult(ctx context.Context, o *Operation) error {
	select {
	case <-o.done:
		return o.Verdict.err
	case <-l.Breaker.Lasting():
		if l.withdraw(o) {
			return OutageError("write", l.Breaker)
		}
	case <-ctx.Done():
	}
	select {
	case <-o.done:
	case <-ctx.Done():
		if l.withdraw(o) {
			return &fault.UnavailableError{Package: pkg, Op: "write", Err: ctx.Err(), RetryAfter: l.Breaker.RetryAfter()}
		}
		if o.state.CompareAndSwap(opWaiting, opAbandoned) {
			return ctx.Err()
		}
		<-o.done
	}
	return o.Verdict.err
}

// withdraw removes an operation from the queue of its lane. It returns false if the operation has left the
// queue and may have been sent, if others follow it, or if it is an adjustment.
func (l *lanes) withdraw(o *Operation) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.open[o.lane]
	if q == nil {
		return false
	}
	for i, queued := range q.queue {
		if queued == o && o.adjust == nil && !o.taken && len(o.followers) == 0 {
			q.queue = append(q.queue[:i:i], q.queue[i+1:]...)
			return true
		}
	}
	return false
}
