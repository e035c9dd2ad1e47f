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
	maxQueue     = 10_000 // operations in the queue of one lane
	maxSenders   = 8      // transactions of one lane in flight at a time
)

// conflictBackoff is the wait after a conflict. It is short: a transaction takes milliseconds,
// and an operation that waits longer than others is served last.
var conflictBackoff = ddb.Backoff{First: store.Backoff.First, Most: 50 * time.Millisecond}

// lane sends the writes to one set of counters. Each of its senders has one transaction in
// flight, each on its own shard, so transactions of one process never conflict. Operations that
// arrive while a sender gathers, or while all are in flight, go into the next transaction. A
// lane without work is dropped and has no goroutine.
type lane struct {
	queue   []*Operation
	spread  *spread
	senders int
	gathers bool          // a sender waits for more operations and takes the queue next
	hurry   bool          // the queue contains operations that have waited before
	began   time.Time     // start of the gathering
	started time.Time     // start of the last transaction
	more    chan struct{} // signals operations that must not wait for more
}

// lanes holds all lanes with work.
type lanes struct {
	*Options
	onCounted func(*Operation) // called with each counted write

	mu      sync.Mutex // guards the fields below, every lane and every spread
	open    map[string]*lane
	spreads *lru.Cache[store.Key, *spread] // by counter
	closed  bool
	running background.Running
}

// refuseFurther makes enqueue refuse further operations, when the keeper closes.
func (l *lanes) refuseFurther() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// hasWork reports whether a write that counts to a scope, or to a scope within it, may still be
// pending.
func (l *lanes) hasWork(scope string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.open { // see Account.baseOperation
		if strings.HasPrefix(key, scope+"#") {
			return true
		}
	}
	return false
}

// countQueued returns the number of operations that wait in the queues of all lanes.
func (l *lanes) countQueued() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, lane := range l.open {
		n += len(lane.queue)
	}
	return n
}

// States of an operation, in Operation.state.
const (
	opWaiting int32 = iota
	opFinished
	opAbandoned // the caller is gone
)

// enqueue appends operations, all or none, to the queue of the lane key, which it opens if necessary, and wakes
// a sender. It returns ErrClosed after close, and a *fault.UnavailableError for a full queue.
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
		q = &lane{spread: l.spreadFor(ops[0].debits[0].counterKey()), more: make(chan struct{}, 1)}
		l.open[key] = q
	}
	q.queue = append(q.queue, ops...)
	l.wakeSender(key, q)
	return nil
}

// wakeSender starts a sender for the queue, unless one already waits for more operations or enough are in
// flight. If an urgent queue needs no new sender, it ends the wait of the present one. The lanes' lock must be
// held.
func (l *lanes) wakeSender(key string, q *lane) {
	if len(q.queue) == 0 {
		return
	}
	if !q.gathers && q.senders < q.maxInFlight() {
		q.gathers, q.began = true, time.Now()
		q.senders++
		l.running.Add(1)
		go l.runSender(key, q)
		return
	}
	if q.isUrgent() {
		select {
		case q.more <- struct{}{}:
		default:
		}
	}
}

// maxInFlight returns how many transactions of the lane may be in flight: one per shard, at most maxSenders.
// Adjustments are not urgent and get one. Until the day is marked there is one too, because two transactions
// with the same mark would conflict.
func (q *lane) maxInFlight() int {
	if o := q.queue[0]; o.adjust == nil && q.spread.marked {
		return max(1, min(o.debits[0].Shards, maxSenders))
	}
	return 1
}

// isUrgent reports whether the queue must be sent without further waiting. The lanes' lock must
// be held.
func (q *lane) isUrgent() bool { return q.hurry || len(q.queue) >= maxTxnItems-1 }

// runSender sends the operations of a lane, transaction after transaction, until the queue is empty, or
// another sender already waits for further operations. It puts operations that conflicted back to the front.
func (l *lanes) runSender(key string, q *lane) {
	defer l.running.Done()
	for {
		l.gatherOperations(q)
		l.mu.Lock()
		t, h := l.takeBatch(key, q)
		l.mu.Unlock()
		var again []*Operation
		if t != nil {
			again = l.sendTransaction(t, h)
			l.freeHome(h)
		}
		l.mu.Lock()
		if q.queue = append(again, q.queue...); len(again) > 0 {
			q.hurry = true
		}
		if len(q.queue) == 0 || q.gathers {
			l.endSender(key, q)
			l.mu.Unlock()
			return
		}
		q.gathers, q.began = true, time.Now()
		l.mu.Unlock()
	}
}

// takeBatch makes a transaction from the queue, and takes a home for it, its place among those in flight. It
// returns nil if the queue is empty. It leaves operations that do not fit in the queue and wakes another
// sender for them. The lanes' lock must be held.
func (l *lanes) takeBatch(key string, q *lane) (t *transaction, h home) {
	ops := q.queue
	q.gathers, q.hurry, q.queue = false, false, nil
	if len(ops) == 0 {
		return nil, h
	}
	h = q.spread.takeHome()
	q.started = time.Now()
	t, q.queue = composeTransaction(mergeRepeats(ops), h.shardChooser(), !q.spread.marked)
	for _, o := range t.ops {
		o.taken = true
	}
	q.hurry = len(q.queue) > 0
	l.wakeSender(key, q)
	return t, h
}

// endSender removes a sender from q, and closes the lane after the last. If operations must be sent at once,
// it wakes another sender. The lanes' lock must be held.
func (l *lanes) endSender(key string, q *lane) {
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

// gatherOperations waits for further operations that can join the next transaction of q, for gatherTime. It
// returns earlier if an operation must be sent at once, or at Close.
func (l *lanes) gatherOperations(q *lane) {
	wait := l.gatherTime(q)
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

// gatherTime returns the time to wait for further operations. While a transaction is in flight, the wait ends
// Linger after the start of the last one. With AlwaysLinger, the metering "batch", it is Linger in any case.
// It is 0 if an operation must be sent at once.
func (l *lanes) gatherTime(q *lane) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-q.more: // a signal for operations that are in the queue, or were taken
	default:
	}
	if q.isUrgent() || l.closed {
		return 0
	}
	if l.AlwaysLinger {
		return l.Linger - time.Since(q.began)
	}
	return l.Linger - time.Since(q.started)
}

// mergeRepeats returns the operations without repetitions of a record: a repetition becomes a follower of the
// first operation with that record, and gets its verdict. It reuses the memory of ops.
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

// sendTransaction sends a transaction, whose place in flight is h, until it lands, is refused, or
// WriteTimeout ends, and wakes the callers. After a conflict it waits and returns the operations for the next
// transaction.
func (l *lanes) sendTransaction(t *transaction, h home) (again []*Operation) {
	ctx, cancel := context.WithTimeout(l.Life.Context(), WriteTimeout)
	defer cancel()
	t = l.announceShard(ctx, t, h.spread)
	token, unanswered, nowSec := store.NewID(), false, l.Now().Unix()
	for n := 0; len(t.ops) > 0; n++ {
		err := guard.Apart(func() error { return t.sendOnce(ctx, l.Store, token, nowSec) })
		switch store.Diagnose(err) {
		case ddb.Landed:
			l.freeHome(h) // before finishing: a caller may send the next at once
			if t.marks {
				l.setMarked(h.spread)
			}
			l.settleLanded(t)
			return nil
		case ddb.Unconfirmed: // resent unchanged, with the same token
			unanswered = true
		case ddb.Throttled, ddb.Unsent:
		case ddb.Conflicted: // nothing was applied: another shard, a new token
			l.moveHome(h, t.ops[0].debits[0].Shards)
			return l.backOff(ctx, t.ops, err, unanswered)
		case ddb.Refused:
			refused, decodeErr := t.decodeRefusals(err)
			if decodeErr != nil || len(refused) == 0 {
				l.failAll(t.ops, WrapError("write", err))
				return nil
			}
			t = t.composeSubset(l.settleRefused(t, refused))
			token, unanswered = store.NewID(), false
			continue
		default:
			return l.sendSingly(t, h, err)
		}
		if store.GiveUp(ctx, n, err) {
			l.failAll(t.ops, &fault.UnavailableError{Package: pkg, Op: "write", Err: err, Unconfirmed: unanswered, RetryAfter: l.Breaker.RetryAfter()})
			return nil
		}
	}
	return nil
}

// backOff waits after a conflict. It returns the operations that have time left and fails the others with
// err. doubt means that an earlier try may have landed, so that the failure is unconfirmed.
func (l *lanes) backOff(ctx context.Context, ops []*Operation, err error, doubt bool) (again []*Operation) {
	conflicts := 0
	for _, o := range ops {
		o.conflicts++
		conflicts = max(conflicts, o.conflicts)
		if o.firstConflict.IsZero() {
			o.firstConflict = time.Now()
		}
		if time.Since(o.firstConflict) >= WriteTimeout {
			l.failAll([]*Operation{o}, &fault.UnavailableError{Package: pkg, Op: "write", Err: err, Unconfirmed: doubt})
			continue
		}
		again = append(again, o)
	}
	if !conflictBackoff.Pause(ctx, conflicts) {
		l.failAll(again, &fault.UnavailableError{Package: pkg, Op: "write", Err: err, Unconfirmed: doubt})
		return nil
	}
	return again
}

// sendSingly sends the operations one by one after the store has rejected the transaction as invalid, so that
// an invalid record fails alone. It returns the operations that conflicted and must be sent again. If there is
// only one operation, it fails it with err.
func (l *lanes) sendSingly(t *transaction, h home, err error) (again []*Operation) {
	if len(t.ops) == 1 {
		l.failAll(t.ops, WrapError("write", err))
		return nil
	}
	for _, o := range t.ops {
		again = append(again, l.sendTransaction(t.composeSubset([]*Operation{o}), h)...)
	}
	return again
}
