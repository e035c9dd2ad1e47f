package ledger

import (
	"context"

	"github.com/dynalimit/dynalimit/internal/problem"
)

// settle finishes the operations that a refusal ended and returns those to try again.
func (l *Ledger) settle(t *transaction, refused []refusal) (again []*Operation) {
	finished, again := t.resolve(refused)
	for _, o := range finished {
		if !o.Verdict.Duplicate {
			l.note(o) // an earlier, unanswered try had landed
		}
		l.finish(o)
	}
	return again
}

func (l *Ledger) landed(t *transaction) {
	t.landed()
	for _, o := range t.ops {
		l.note(o)
	}
	for _, o := range t.ops {
		l.finish(o)
	}
}

func (l *Ledger) fail(ops []*Operation, err error) {
	for _, o := range ops {
		o.Verdict.err = err
		l.finish(o)
	}
}

// finish answers the caller, and the callers that sent the same record.
func (l *Ledger) finish(o *Operation) {
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

// Write writes the operation. It returns when the operation is finished, whose verdict
// says how it ended, or when ctx ends. Errors: those that match ErrUnavailable,
// ErrClosed, and ctx's own while the operation is on its way.
func (l *Ledger) Write(ctx context.Context, o *Operation) error {
	if err := l.enqueue(o.lane, o); err != nil {
		return err
	}
	return l.await(ctx, o)
}

// WriteAll writes operations, those of one lane together. It leaves out nil ones, and
// returns an error for each, in their order.
func (l *Ledger) WriteAll(ctx context.Context, ops []*Operation) []error {
	byLane := map[string][]*Operation{}
	for _, o := range ops {
		if o != nil {
			byLane[o.lane] = append(byLane[o.lane], o)
		}
	}
	for lane, group := range byLane {
		if err := l.enqueue(lane, group...); err != nil {
			l.fail(group, err)
		}
	}
	errs := make([]error, len(ops))
	for i, o := range ops {
		if o != nil {
			errs[i] = l.await(ctx, o)
		}
	}
	return errs
}

// await returns when the operation is finished or ctx ends. An operation that is still
// queued when ctx ends, or when the store stops answering, leaves the queue and was
// never sent.
func (l *Ledger) await(ctx context.Context, o *Operation) error {
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
			return &problem.UnavailableError{Package: pkg, Op: "write", Err: ctx.Err(), RetryAfter: l.Breaker.RetryAfter()}
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
func (l *Ledger) withdraw(o *Operation) bool {
	l.lanes.mu.Lock()
	defer l.lanes.mu.Unlock()
	q := l.lanes.open[o.lane]
	if q == nil {
		return false
	}
	for i, queued := range q.queue {
		if queued == o && o.adjust == nil {
			q.queue = append(q.queue[:i:i], q.queue[i+1:]...)
			return true
		}
	}
	return false
}
