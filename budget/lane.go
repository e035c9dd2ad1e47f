package budget

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

const (
	writeTimeout = 15 * time.Second // of one transaction with its retries
	maxQueue     = 10_000           // operations that wait for one lane
)

// conflictBackoff is the wait after a conflict: a transaction is over in
// milliseconds, and who waits longer than others is served last.
var conflictBackoff = ddb.Backoff{First: store.Backoff.First, Most: 50 * time.Millisecond}

var (
	errCrowded = errors.New("too many operations wait for one counter; send it again later")
	errAway    = errors.New("the store did not answer")
)

// lane has at most one transaction of this process in flight for a set of
// counters; what arrives meanwhile rides in the next one. An idle lane has no
// goroutine and does not exist.
type lane struct {
	queue   []*op
	started time.Time     // of the last transaction
	hurry   chan struct{} // something came that does not wait for company
}

type lanes struct {
	mu      sync.Mutex
	open    map[string]*lane
	closed  bool
	running running
}

// The life of an operation, in op.state.
const (
	opWaiting int32 = iota
	opFinished
	opAbandoned // the caller is gone
)

func newOp(kind opKind) *op {
	return &op{kind: kind, writer: store.NewID(), done: make(chan struct{})}
}

// enqueue hands operations to a lane and wakes it.
func (k *Keeper) enqueue(key string, ops ...*op) error {
	k.lanes.mu.Lock()
	defer k.lanes.mu.Unlock()
	if k.lanes.closed {
		return ErrClosed
	}
	if l := k.lanes.open[key]; l != nil && len(l.queue)+len(ops) > maxQueue {
		return &UnavailableError{Operation: "write", Err: errCrowded}
	}
	k.push(key, ops)
	return nil
}

// push needs the lanes' lock.
func (k *Keeper) push(key string, ops []*op) {
	l, ok := k.lanes.open[key]
	if !ok {
		l = &lane{hurry: make(chan struct{}, 1)}
		k.lanes.open[key] = l
		k.lanes.running.Add(1)
		go k.runLane(key, l)
	}
	l.queue = append(l.queue, ops...)
	if l.urgent() {
		select {
		case l.hurry <- struct{}{}:
		default:
		}
	}
}

// urgent says that the queue fills a transaction or holds a reservation. It
// needs the lanes' lock.
func (l *lane) urgent() bool {
	return len(l.queue) >= maxTxnItems-1 || slices.ContainsFunc(l.queue, func(o *op) bool { return o.kind == opReserve })
}

func (k *Keeper) runLane(key string, l *lane) {
	defer k.lanes.running.Done()
	var left []*op
	for first := true; ; first = false {
		if len(left) == 0 {
			k.linger(l, first)
		}
		k.lanes.mu.Lock()
		ops := append(left, l.queue...)
		l.queue = nil
		if len(ops) == 0 {
			delete(k.lanes.open, key)
			k.lanes.mu.Unlock()
			return
		}
		k.lanes.mu.Unlock()
		l.started = time.Now()
		left = k.transact(mergeRepeats(k.dropAbandoned(ops)))
	}
}

// linger lets a transaction wait for company: always in batch metering, else
// only under load, when callers queued up behind the last one. A reservation
// never waits.
func (k *Keeper) linger(l *lane, first bool) {
	wait := k.opts.Linger
	if first && k.opts.Metering != MeteringBatch {
		return
	}
	if !first {
		wait -= time.Since(l.started)
	}
	k.lanes.mu.Lock()
	now := len(l.queue) == 0 && !first || l.urgent() || k.lanes.closed
	select {
	case <-l.hurry: // of what is in the queue already, or was taken
	default:
	}
	k.lanes.mu.Unlock()
	if now || wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.hurry:
	case <-k.closing:
	}
}

// dropAbandoned leaves out reservations whose caller is gone. Records of calls
// that happened are written all the same.
func (k *Keeper) dropAbandoned(ops []*op) []*op {
	kept := ops[:0]
	for _, o := range ops {
		if o.kind == opReserve && atomic.LoadInt32(&o.state) == opAbandoned {
			if o.doubt {
				k.abandon(o.hold)
			}
			close(o.done)
			continue
		}
		kept = append(kept, o)
	}
	return kept
}

// mergeRepeats lets a record sent twice at once follow the first.
func mergeRepeats(ops []*op) []*op {
	first := map[store.Key]*op{}
	kept := ops[:0]
	for _, o := range ops {
		if o.record != nil && o.kind == opSubmit {
			if leader, ok := first[o.record.key]; ok {
				leader.followers = append(leader.followers, o)
				continue
			}
		}
		if o.record != nil {
			first[o.record.key] = o
		}
		kept = append(kept, o)
	}
	return kept
}

// transact writes as many operations as one transaction takes and returns the
// rest: those that did not fit, and those that met another transaction, which
// may ride in the next with what has come meanwhile.
func (k *Keeper) transact(ops []*op) (left []*op) {
	ctx, cancel := context.WithTimeout(k.base, writeTimeout)
	defer cancel()
	t, left := compose(ops, rand.IntN)
	token, doubt, nowSec := store.NewID(), false, k.now().Unix()
	for n := 0; len(t.ops) > 0; n++ {
		err := t.send(ctx, k.store, token, nowSec)
		v := store.Diagnose(err)
		again := t.ops
		switch v {
		case ddb.Landed:
			k.landed(t)
			return left
		case ddb.Ambiguous: // resent unchanged, with the same token
			doubt = true
			for _, o := range t.ops {
				o.doubt = true
			}
		case ddb.Throttled, ddb.Unsent:
		case ddb.Conflicted: // nothing applied: another shard, a new token
			return append(k.backOff(ctx, t.ops, err, doubt), left...)
		case ddb.Refused:
			refused, decodeErr := t.refusals(err)
			if decodeErr != nil || len(refused) == 0 {
				k.fail(again, failure("write", err))
				return left
			}
			again, deferred := k.settle(ctx, t, refused)
			t, _ = compose(again, rand.IntN)
			token, doubt = store.NewID(), false
			left = append(deferred, left...)
			continue
		default:
			k.isolate(t, err)
			return left
		}
		if store.GiveUp(ctx, n, err) {
			k.fail(again, &UnavailableError{Operation: "write", Err: err, Ambiguous: doubt, RetryAfter: k.breaker.RetryAfter()})
			return left
		}
	}
	return left
}

// backOff waits after a conflict and returns the operations that have time
// left.
func (k *Keeper) backOff(ctx context.Context, ops []*op, err error, doubt bool) (again []*op) {
	conflicts := 0
	for _, o := range ops {
		o.conflicts++
		conflicts = max(conflicts, o.conflicts)
		if o.since.IsZero() {
			o.since = time.Now()
		}
		if time.Since(o.since) >= writeTimeout {
			k.fail([]*op{o}, &UnavailableError{Operation: "write", Err: err, Ambiguous: doubt})
			continue
		}
		again = append(again, o)
	}
	if !conflictBackoff.Pause(ctx, conflicts) {
		k.fail(again, &UnavailableError{Operation: "write", Err: err, Ambiguous: doubt})
		return nil
	}
	return again
}

// isolate runs the operations one by one when the store calls the transaction
// itself wrong, so that one bad record costs only itself.
func (k *Keeper) isolate(t *txn, err error) {
	if len(t.ops) == 1 {
		k.fail(t.ops, failure("write", err))
		return
	}
	for _, o := range t.ops {
		for alone := []*op{o}; len(alone) > 0; {
			alone = k.transact(alone)
		}
	}
}

// settle finishes what a refusal decided and returns what must be tried again.
// A reservation refused for lack of room for the first time has the scope's
// expired holds released first.
func (k *Keeper) settle(ctx context.Context, t *txn, refused []refusal) (again, deferred []*op) {
	finished, again, deferred := t.resolve(refused)
	scopes := map[string]bool{}
	for _, o := range finished {
		if o.verdict.noRoom && !o.denied {
			o.denied, o.verdict.noRoom = true, false
			clear(o.full)
			again = append(again, o)
			scopes[o.hold.scope] = true
			continue
		}
		if !o.verdict.duplicate && !o.verdict.noRoom {
			k.board(o).note(o) // an earlier, unanswered try had landed
		}
		if o.verdict.noRoom {
			k.board(o).remember(o, o.live, k.now())
		}
		k.finish(o)
	}
	for scope := range scopes {
		_, live, err := k.releaseExpired(ctx, scope)
		if err != nil {
			k.opts.Logger.WarnContext(ctx, "budget: releasing expired holds", "scope", scope, "error", err)
			continue
		}
		for _, o := range again {
			if o.hold != nil && o.hold.scope == scope {
				o.live = live
			}
		}
	}
	return again, deferred
}

func (k *Keeper) landed(t *txn) {
	t.landed()
	for _, o := range t.ops {
		k.board(o).note(o)
	}
	for _, o := range t.ops {
		k.finish(o)
	}
}

func (k *Keeper) fail(ops []*op, err error) {
	for _, o := range ops {
		o.verdict.err = err
		k.finish(o)
	}
}

// finish answers the caller, and those that sent the same record.
func (k *Keeper) finish(o *op) {
	for _, f := range o.followers {
		f.verdict = o.verdict
		if o.verdict.err == nil {
			f.verdict.duplicate = true
			f.verdict.conflict = o.verdict.stored.hash != f.record.hash
		}
		k.finish(f)
	}
	here := atomic.CompareAndSwapInt32(&o.state, opWaiting, opFinished)
	if o.kind == opReserve {
		granted := o.verdict == (verdict{})
		if granted && !here || !granted && o.doubt { // nobody has it, and it may be there
			k.abandon(o.hold)
		}
	}
	close(o.done)
}

// wait is until the operation is finished or ctx ends. What is still queued then,
// or when the store stops answering, leaves the queue and was never sent.
func (k *Keeper) wait(ctx context.Context, o *op) error {
	select {
	case <-o.done:
		return o.verdict.err
	case <-k.breaker.Lasting():
		if k.withdraw(o) {
			return away("write", k.breaker)
		}
	case <-ctx.Done():
	}
	select {
	case <-o.done:
	case <-ctx.Done():
		if k.withdraw(o) {
			return &UnavailableError{Operation: "write", Err: ctx.Err(), RetryAfter: k.breaker.RetryAfter()}
		}
		if atomic.CompareAndSwapInt32(&o.state, opWaiting, opAbandoned) {
			return ctx.Err()
		}
		<-o.done
	}
	return o.verdict.err
}
