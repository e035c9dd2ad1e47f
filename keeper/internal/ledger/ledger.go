package ledger

import (
	"context"
	"sync"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dynalimit/dynalimit/keeper/internal/background"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

const (
	// boardsKept is the maximal number of cached boards.
	boardsKept = 10_000
)

// Ledger writes the costs of calls and manual adjustments, each exactly once, and caches the
// counted sums. It is safe for concurrent use. Make one with New.
type Ledger struct {
	Options
	lanes  lanes // pending writes
	boards struct {
		sync.Mutex
		byScope *lru.Cache[string, *Board]
	}
	looks struct{ known, asked atomic.Int64 } // lookups that found the spend in the cache, and that queried the store

	closers chan struct{}      // see StoreTotalsLater
	closing background.Running // stores of totals in flight
}

// New returns a ledger with empty caches and the given options, which must be complete. It sends no request and
// starts no goroutine.
func New(options Options) *Ledger {
	l := &Ledger{Options: options, closers: make(chan struct{}, maxClosers)}
	l.lanes.Options, l.lanes.onCounted, l.lanes.open = &l.Options, l.recordWrite, map[string]*lane{}
	l.boards.byScope, _ = lru.NewWithEvict(boardsKept, func(_ string, b *Board) { b.markGone() }) // fails only for a size below 1
	l.lanes.spreads, _ = lru.New[store.Key, *spread](spreadsKept)
	return l
}

// Board returns the cached board of a scope. Without one it caches an empty board, which may evict and mark as
// gone the least recently used. It sends no request.
func (l *Ledger) Board(scope string) *Board {
	l.boards.Lock()
	defer l.boards.Unlock()
	if b, ok := l.boards.byScope.Get(scope); ok {
		return b
	}
	b := newBoard(l, scope)
	l.boards.byScope.Add(scope, b)
	return b
}

// PeekBoard returns the cached board of a scope, or a new empty one that it does not cache. It evicts no board
// and does not count as a use, so a sweep of many scopes leaves the cache alone.
func (l *Ledger) PeekBoard(scope string) *Board {
	l.boards.Lock()
	defer l.boards.Unlock()
	if b, ok := l.boards.byScope.Peek(scope); ok {
		return b
	}
	return newBoard(l, scope)
}

// recordWrite adds an acknowledged write to the cached board of its scope. It makes the board if necessary, so
// that lookups include the write.
func (l *Ledger) recordWrite(o *Operation) { l.Board(o.Scope).addOwnWrite(o) }

// LookupCounts returns, since New, how many lookups of a scope's spend the cache answered (known), and how many
// waited for a query (asked).
func (l *Ledger) LookupCounts() (known, asked int64) {
	return l.looks.known.Load(), l.looks.asked.Load()
}

// countLookup counts a lookup. known is true if the spend was cached, false if the lookup queried the store.
func (l *Ledger) countLookup(known bool) {
	if known {
		l.looks.known.Add(1)
	} else {
		l.looks.asked.Add(1)
	}
}

// Write queues an operation and waits until it is finished; the result is then in o.Verdict. It returns
// ErrClosed, or an error that matches fault.ErrUnavailable. If ctx ends while o is in flight, it returns ctx's
// error and the write continues.
func (l *Ledger) Write(ctx context.Context, o *Operation) error {
	if err := l.lanes.enqueue(o.lane, o); err != nil {
		return err
	}
	return l.lanes.awaitResult(ctx, o)
}

// WriteAll queues ops by lane, waits for all, and returns one error per element, in order; nil operations get
// nil. Results are in each Verdict. If a lane refuses its operations, all of them get that error.
func (l *Ledger) WriteAll(ctx context.Context, ops []*Operation) []error {
	byLane := map[string][]*Operation{}
	for _, o := range ops {
		if o != nil {
			byLane[o.lane] = append(byLane[o.lane], o)
		}
	}
	for lane, group := range byLane {
		if err := l.lanes.enqueue(lane, group...); err != nil {
			l.lanes.failAll(group, err)
		}
	}
	errs := make([]error, len(ops))
	for i, o := range ops {
		if o != nil {
			errs[i] = l.lanes.awaitResult(ctx, o)
		}
	}
	return errs
}

// Close makes further writes fail with ErrClosed. It does not wait: queued operations and those in flight are
// still written, see Wait.
func (l *Ledger) Close() { l.lanes.refuseFurther() }

// Wait returns when every accepted operation is written or has failed. It does not wait for background stores
// of totals.
func (l *Ledger) Wait() { l.lanes.running.Wait() }

// WaitForTotals returns when no background store of totals is in flight. Tests call it before
// they read the table.
func (l *Ledger) WaitForTotals() { l.closing.Wait() }

// HasPendingWrites reports whether a write that counts to the scope, or to a scope within it, may still be
// pending. The caller of that write may have left.
func (l *Ledger) HasPendingWrites(scope string) bool { return l.lanes.hasWork(scope) }

// Queued returns the number of operations in the queues of all lanes. Operations in flight do not count.
func (l *Ledger) Queued() int { return l.lanes.countQueued() }
