package ledger

import (
	"context"

	"github.com/dynalimit/dynalimit/fault"
)

// settle finishes the operations that a refusal ended and returns those to try again.
func (l *lanes) settle(t *transaction, refused []refusal) (again []*Operation) {
	finished, again := t.resolve(refused)
	for _, o := range finished {
		if !o.Verdict.Duplicate {
			l.note(o) // an earlier, unanswered try had landed
		}
		l.finish(o)
	}
	return again
}

func (l *lanes) landed(t *transaction) {
	t.landed()
	for _, o := range t.ops {
		l.note(o)
	}
	for _, o := range t.ops {
		l.finish(o)
	}
}

func (l *lanes) fail(ops []*Operation, err error) {
	for _, o := range ops {
		o.Verdict.err = err
		l.finish(o)
	}
}

// finish answers the caller, and the callers that sent the same record.
func (l *lanes) finish(o *Operation) {
	for _, f := range o.followers {
		f.Verdict = o.Verdict
		if o.Verdict.err == nil {
			f.Verdict.Duplicate = true
			f.Verdict.Conflict = o.Verdict.Stored.Hash != f.record.Hash
		}
		l.finish(f)
	}
	o.state.CompareAndSwap(opWaiting, opFinished)
	close(o.done)
}

// await returns when the operation is finished or ctx ends. An operation that is still
// queued when ctx ends, or when the store stops answering, leaves the queue and was
// never sent.
func (l *lanes) await(ctx context.Context, o *Operation) error {
	select {
	case <-o.done:
		return o.Verdict.err
	case <-l.Breaker.Lasting():
		if l.withdraw(o) {
			return Away("write", l.Breaker)
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

// withdraw takes an operation that no caller waits for out of its lane's queue. It
// returns false if it has left the queue, so that it may have been sent. It does not withdraw
// an adjustment.
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
