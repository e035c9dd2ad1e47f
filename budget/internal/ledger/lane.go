package ledger

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/background"
	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

const (
	// WriteTimeout bounds one transaction with its retries.
	WriteTimeout = 15 * time.Second
	maxQueue     = 10_000 // operations that wait for one lane
)

// conflictBackoff is the wait after a conflict: a transaction is over in
// milliseconds, and who waits longer than others is served last.
var conflictBackoff = ddb.Backoff{First: store.Backoff.First, Most: 50 * time.Millisecond}

// lane sends the writes to one set of counters. It has at most one transaction of this
// process in flight; what arrives meanwhile rides in the next one. A lane without work
// has no goroutine and does not exist.
type lane struct {
	queue      []*Operation
	started    time.Time     // of the last transaction
	urgentWork chan struct{} // something came that does not wait for company
}

// lanes are all lanes that have work.
type lanes struct {
	*Options
	note func(*Operation) // hears of each write that is counted

	mu      sync.Mutex // guards what follows and every lane's queue
	open    map[string]*lane
	closed  bool
	running background.Running
}

// close refuses further operations.
func (l *lanes) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// busy reports whether something that counts to a scope, or to one within it, may still be
// written.
func (l *lanes) busy(scope string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.open { // see Account.operation
		if strings.HasPrefix(key, scope+"#") {
			return true
		}
	}
	return false
}

// queued is the number of operations that wait.
func (l *lanes) queued() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, lane := range l.open {
		n += len(lane.queue)
	}
	return n
}

// The life of an operation, in op.state.
const (
	opWaiting int32 = iota
	opFinished
	opAbandoned // the caller is gone
)

// enqueue puts operations into the queue of a lane and wakes the lane.
func (l *lanes) enqueue(key string, ops ...*Operation) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	if q := l.open[key]; q != nil && len(q.queue)+len(ops) > maxQueue {
		return &fault.UnavailableError{Package: pkg, Op: "write", Err: errCrowded}
	}
	q, ok := l.open[key]
	if !ok {
		q = &lane{urgentWork: make(chan struct{}, 1)}
		l.open[key] = q
		l.running.Add(1)
		go l.run(key, q)
	}
	q.queue = append(q.queue, ops...)
	if q.urgent() {
		select {
		case q.urgentWork <- struct{}{}:
		default:
		}
	}
	return nil
}

// urgent reports whether the queue fills a transaction. The lanes' lock must be held.
func (q *lane) urgent() bool { return len(q.queue) >= maxTxnItems-1 }

func (l *lanes) run(key string, q *lane) {
	defer l.running.Done()
	var left []*Operation
	for first := true; ; first = false {
		if len(left) == 0 {
			l.awaitCompany(q, first)
		}
		l.mu.Lock()
		ops := append(left, q.queue...)
		q.queue = nil
		if len(ops) == 0 {
			delete(l.open, key)
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		q.started = time.Now()
		left = l.transact(mergeRepeats(ops))
	}
}

// awaitCompany lets a transaction wait for further operations.
func (l *lanes) awaitCompany(q *lane, first bool) {
	wait := l.patience(q, first)
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-q.urgentWork:
	case <-l.Life.Closing():
	}
}

// patience is how long a transaction waits for further operations. In batch metering it
// always waits; otherwise only under load, when callers queued up behind the last one.
func (l *lanes) patience(q *lane, first bool) time.Duration {
	wait := l.Linger
	if first && !l.AlwaysLinger {
		return 0
	}
	if !first {
		wait -= time.Since(q.started)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-q.urgentWork: // of what is in the queue already, or was taken
	default:
	}
	if len(q.queue) == 0 && !first || q.urgent() || l.closed {
		return 0
	}
	return wait
}

// mergeRepeats lets a record that was sent twice at the same time follow the first.
func mergeRepeats(ops []*Operation) []*Operation {
	first := map[store.Key]*Operation{}
	kept := ops[:0]
	for _, o := range ops {
		if o.record != nil {
			if leader, ok := first[o.record.Key]; ok {
				leader.followers = append(leader.followers, o)
				continue
			}
			first[o.record.Key] = o
		}
		kept = append(kept, o)
	}
	return kept
}

// transact writes as many operations as fit into one transaction and returns the others:
// those that did not fit, and those that conflicted with another transaction and may
// ride in the next.
func (l *lanes) transact(ops []*Operation) (left []*Operation) {
	ctx, cancel := context.WithTimeout(l.Life.Context(), WriteTimeout)
	defer cancel()
	t, left := compose(ops, rand.IntN)
	token, unanswered, nowSec := store.NewID(), false, l.Now().Unix()
	for n := 0; len(t.ops) > 0; n++ {
		err := t.send(ctx, l.Store, token, nowSec)
		switch store.Diagnose(err) {
		case ddb.Landed:
			l.landed(t)
			return left
		case ddb.Unconfirmed: // resent unchanged, with the same token
			unanswered = true
		case ddb.Throttled, ddb.Unsent:
		case ddb.Conflicted: // nothing applied: another shard, a new token
			return append(l.backOff(ctx, t.ops, err, unanswered), left...)
		case ddb.Refused:
			refused, decodeErr := t.refusals(err)
			if decodeErr != nil || len(refused) == 0 {
				l.fail(t.ops, Judge("write", err))
				return left
			}
			t, _ = compose(l.settle(t, refused), rand.IntN)
			token, unanswered = store.NewID(), false
			continue
		default:
			l.isolate(t, err)
			return left
		}
		if store.GiveUp(ctx, n, err) {
			l.fail(t.ops, &fault.UnavailableError{Package: pkg, Op: "write", Err: err, Unconfirmed: unanswered, RetryAfter: l.Breaker.RetryAfter()})
			return left
		}
	}
	return left
}

// backOff waits after a conflict and returns the operations that have time left.
func (l *lanes) backOff(ctx context.Context, ops []*Operation, err error, doubt bool) (again []*Operation) {
	conflicts := 0
	for _, o := range ops {
		o.conflicts++
		conflicts = max(conflicts, o.conflicts)
		if o.firstConflict.IsZero() {
			o.firstConflict = time.Now()
		}
		if time.Since(o.firstConflict) >= WriteTimeout {
			l.fail([]*Operation{o}, &fault.UnavailableError{Package: pkg, Op: "write", Err: err, Unconfirmed: doubt})
			continue
		}
		again = append(again, o)
	}
	if !conflictBackoff.Pause(ctx, conflicts) {
		l.fail(again, &fault.UnavailableError{Package: pkg, Op: "write", Err: err, Unconfirmed: doubt})
		return nil
	}
	return again
}

// isolate writes the operations one by one, because the store says that the transaction
// itself is wrong. So a wrong record only costs itself.
func (l *lanes) isolate(t *transaction, err error) {
	if len(t.ops) == 1 {
		l.fail(t.ops, Judge("write", err))
		return
	}
	for _, o := range t.ops {
		for alone := []*Operation{o}; len(alone) > 0; {
			alone = l.transact(alone)
		}
	}
}
