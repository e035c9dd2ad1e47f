package ledger

import (
	"context"

	"github.com/dynalimit/dynalimit/fault"
)

// settleRefused sets the verdicts of the operations whose items exist already, and wakes their callers. An
// operation that its own earlier try had written is also added to its board. It returns the others, which must
// be sent again.
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

// settleLanded sets the verdicts of a landed transaction, adds every operation to its scope's board, and then
// wakes the callers, also those of followers.
func (l *lanes) settleLanded(t *transaction) {
	t.setStored()
	for _, o := range t.ops {
		l.onCounted(o)
	}
	for _, o := range t.ops {
		l.finishOperation(o)
	}
}

// failAll sets err as the result of each operation and its followers, and wakes their callers. It does not
// remove operations from queues.
func (l *lanes) failAll(ops []*Operation, err error) {
	for _, o := range ops {
		o.Verdict.err = err
		l.finishOperation(o)
	}
}

// finishOperation wakes the callers of o and of its followers. Each follower gets o's verdict, and on success
// also Duplicate, and Conflict if its payload differs. It must be called once for each operation.
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

// awaitResult waits until o is finished, and returns its error. If ctx ends, or the table is silent for long,
// while o is still queued, it removes o and returns a *fault.UnavailableError. If ctx ends later, it returns
// ctx's error and the write continues.
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

// withdraw removes o from its lane's queue and returns true: o is then never sent. It returns false, and leaves
// o, if o may have been sent, has followers, or is an adjustment.
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
