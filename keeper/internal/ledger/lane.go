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

// refuseFurther makes enqueue return ErrClosed from now on. Queued operations are still sent, without a wait
// for more.
func (l *lanes) refuseFurther() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// hasWork reports whether an operation that counts to the scope, or to an app's scope within it, is queued or
// in flight in this process.
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

// countQueued returns the number of operations in the queues of all lanes. Operations in flight do not count.
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

// enqueue appends ops, all or none, to the queue of the lane key, makes the lane if it is missing, and wakes a
// sender. It returns ErrClosed after refuseFurther, and a *fault.UnavailableError if more than maxQueue would
// wait.
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

// wakeSender starts a sender for q's operations, unless the queue is empty, a sender already gathers, or enough
// transactions are in flight. Then it ends the wait of the gathering sender if q is urgent. l.mu must be held.
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

// maxInFlight returns how many transactions of the lane may be in flight: one per shard, at most maxSenders. It
// returns 1 for adjustments and until the day's mark is stored. The queue must not be empty and l.mu must be
// held.
func (q *lane) maxInFlight() int {
	if o := q.queue[0]; o.adjust == nil && q.spread.marked {
		return max(1, min(o.debits[0].Shards, maxSenders))
	}
	return 1
}

// isUrgent reports whether the queue must be sent without further waiting: it has operations that were put
// back, or enough for a full transaction. The lanes' lock must be held.
func (q *lane) isUrgent() bool { return q.hurry || len(q.queue) >= maxTxnItems-1 }

// runSender gathers and sends the lane's operations, one transaction after another, and puts conflicted ones
// back to the front of the queue. It ends when the queue is empty or another sender gathers, and then drops a
// lane without senders.
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

// takeBatch takes q's operations into a transaction and marks them as taken; h is its place in flight. It
// returns nil for an empty queue. Operations that do not fit stay queued and wake a sender; l.mu must be held.
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

// endSender counts one sender of q less, and after the last one removes the lane. Otherwise, if q has
// operations that were put back, it ends the wait of the gathering sender. l.mu must be held.
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

// gatherOperations waits up to gatherTime, so that further operations join q's next transaction. It returns
// earlier when the queue becomes urgent or the keeper closes, and takes nothing from the queue.
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

// gatherTime returns the time to wait for further operations: until Linger after the start of q's last
// transaction, with AlwaysLinger of the gathering. It is at most 0 for an urgent queue, after refuseFurther,
// and if that time has passed. It removes a pending wake signal.
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

// mergeRepeats returns ops with one operation for each record's key. It appends each repetition to the
// followers of the first operation, whose verdict it will get. It overwrites ops.
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

// sendTransaction sends t from its place h until it lands, is refused or fails, sets the verdicts of its
// operations and wakes their callers. After a conflict it waits and returns the operations that must be sent
// again. Tries end after WriteTimeout.
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

// backOff waits after a conflict and returns the operations to send again. It fails those with conflicts for
// WriteTimeout, or all if ctx ends, with a *fault.UnavailableError of err; doubt becomes its Unconfirmed. It
// counts the conflict on each operation.
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

// sendSingly sends each of t's operations alone after the store rejected t as invalid, so that only an invalid
// record fails. It returns the operations that conflicted and must be sent again. A single operation fails with
// err at once.
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
