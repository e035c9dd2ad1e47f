package ledger

import (
	"context"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/keeper/internal/background"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

const (
	// WriteTimeout bounds one transaction with its retries.
	WriteTimeout = 15 * time.Second
	maxQueue     = 10_000 // operations that wait for one lane
	maxSenders   = 8      // transactions of one lane that are in flight at a time
)

// conflictBackoff is the wait after a conflict: a transaction is over in
// milliseconds, and who waits longer than others is served last.
var conflictBackoff = ddb.Backoff{First: store.Backoff.First, Most: 50 * time.Millisecond}

// lane sends the writes to one set of counters. Its senders have one transaction each in
// flight, each on a shard of its own, so that those of one process never meet. What arrives
// while one gathers, or all are in flight, rides in the next one. A lane without work has no
// goroutine and does not exist.
type lane struct {
	queue   []*Operation
	spread  *spread
	senders int
	gathers bool          // a sender waits for company, and takes the queue next
	hurry   bool          // what is in the queue has waited before
	began   time.Time     // to gather
	started time.Time     // of the last transaction
	more    chan struct{} // something came that does not wait for company
}

// lanes are all lanes that have work.
type lanes struct {
	*Options
	note func(*Operation) // hears of each write that is counted

	mu      sync.Mutex // guards what follows, every lane and every spread
	open    map[string]*lane
	spreads *lru.Cache[store.Key, *spread] // by counter
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
		q = &lane{spread: l.spreadOf(ops[0].debits[0].ref()), more: make(chan struct{}, 1)}
		l.open[key] = q
	}
	q.queue = append(q.queue, ops...)
	l.wake(key, q)
	return nil
}

// wake has a sender for what is in the queue, if one is free. The lanes' lock must be held.
func (l *lanes) wake(key string, q *lane) {
	if len(q.queue) == 0 {
		return
	}
	if !q.gathers && q.senders < q.most() {
		q.gathers, q.began = true, time.Now()
		q.senders++
		l.running.Add(1)
		go l.run(key, q)
		return
	}
	if q.urgent() {
		select {
		case q.more <- struct{}{}:
		default:
		}
	}
}

// most is how many transactions may be in flight: one for each shard. An adjustment, for which
// nobody is in a hurry, has one. Before the day is marked there is one too: two that mark it would
// conflict.
func (q *lane) most() int {
	if o := q.queue[0]; o.adjust == nil && q.spread.marked {
		return max(1, min(o.debits[0].Shards, maxSenders))
	}
	return 1
}

// urgent reports whether the queue waits no longer. The lanes' lock must be held.
func (q *lane) urgent() bool { return q.hurry || len(q.queue) >= maxTxnItems-1 }

// run is a sender, from when it gathers until there is nothing left that it has to send.
func (l *lanes) run(key string, q *lane) {
	defer l.running.Done()
	for {
		l.awaitCompany(q)
		l.mu.Lock()
		t, h := l.take(key, q)
		l.mu.Unlock()
		var again []*Operation
		if t != nil {
			again = l.send(t, h)
			l.free(h)
		}
		l.mu.Lock()
		if q.queue = append(again, q.queue...); len(again) > 0 {
			q.hurry = true
		}
		if len(q.queue) == 0 || q.gathers {
			l.leave(key, q)
			l.mu.Unlock()
			return
		}
		q.gathers, q.began = true, time.Now()
		l.mu.Unlock()
	}
}

// take makes a transaction of what is in the queue, and takes a home for it; nil if that is
// nothing. What does not fit is for another sender. The lanes' lock must be held.
func (l *lanes) take(key string, q *lane) (t *transaction, h home) {
	ops := q.queue
	q.gathers, q.hurry, q.queue = false, false, nil
	if len(ops) == 0 {
		return nil, h
	}
	h = q.spread.take()
	q.started = time.Now()
	t, q.queue = compose(mergeRepeats(ops), h.draw(), !q.spread.marked)
	for _, o := range t.ops {
		o.taken = true
	}
	q.hurry = len(q.queue) > 0
	l.wake(key, q)
	return t, h
}

// leave ends a sender. The lanes' lock must be held.
func (l *lanes) leave(key string, q *lane) {
	if q.senders--; q.senders > 0 {
		if q.hurry {
			select {
			case q.more <- struct{}{}:
			default:
			}
		}
		return
	}
	delete(l.open, key)
}

// awaitCompany lets a transaction wait for further operations.
func (l *lanes) awaitCompany(q *lane) {
	wait := l.patience(q)
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-q.more:
	case <-l.Life.Closing():
	}
}

// patience is how long a transaction waits for further operations: until so long after the last
// one began, if that, or another, is in flight still. In batch metering it always waits.
func (l *lanes) patience(q *lane) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-q.more: // of what is in the queue already, or was taken
	default:
	}
	if q.urgent() || l.closed {
		return 0
	}
	if l.AlwaysLinger {
		return l.Linger - time.Since(q.began)
	}
	return l.Linger - time.Since(q.started)
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

// send writes a transaction, and returns the operations that conflicted with another
// transaction and may ride in the next.
func (l *lanes) send(t *transaction, h home) (again []*Operation) {
	ctx, cancel := context.WithTimeout(l.Life.Context(), WriteTimeout)
	defer cancel()
	t = l.announced(ctx, t, h.spread)
	token, unanswered, nowSec := store.NewID(), false, l.Now().Unix()
	for n := 0; len(t.ops) > 0; n++ {
		err := guard.Apart(func() error { return t.send(ctx, l.Store, token, nowSec) })
		switch store.Diagnose(err) {
		case ddb.Landed:
			l.free(h) // first: a caller that hears of it may send the next
			if t.marks {
				l.setMarked(h.spread)
			}
			l.landed(t)
			return nil
		case ddb.Unconfirmed: // resent unchanged, with the same token
			unanswered = true
		case ddb.Throttled, ddb.Unsent:
		case ddb.Conflicted: // nothing applied: another shard, a new token
			l.move(h, t.ops[0].debits[0].Shards)
			return l.backOff(ctx, t.ops, err, unanswered)
		case ddb.Refused:
			refused, decodeErr := t.refusals(err)
			if decodeErr != nil || len(refused) == 0 {
				l.fail(t.ops, Judge("write", err))
				return nil
			}
			t = t.of(l.settle(t, refused))
			token, unanswered = store.NewID(), false
			continue
		default:
			return l.isolate(t, h, err)
		}
		if store.GiveUp(ctx, n, err) {
			l.fail(t.ops, &fault.UnavailableError{Package: pkg, Op: "write", Err: err, Unconfirmed: unanswered, RetryAfter: l.Breaker.RetryAfter()})
			return nil
		}
	}
	return nil
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
func (l *lanes) isolate(t *transaction, h home, err error) (again []*Operation) {
	if len(t.ops) == 1 {
		l.fail(t.ops, Judge("write", err))
		return nil
	}
	for _, o := range t.ops {
		again = append(again, l.send(t.of([]*Operation{o}), h)...)
	}
	return again
}
