package ledger

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dynalimit/dynalimit/budget/internal/background"
	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

// boardsKept is how many scopes' sums are known at a time.
const boardsKept = 10_000

// Options are what a ledger works with; all are needed.
type Options struct {
	Store        *store.Store     // of the usage table
	Breaker      *ddb.Breaker     // of the usage table
	Life         *background.Life // ends with Close
	Now          func() time.Time // the clock
	Logger       *slog.Logger     // gets what no caller is told
	Linger       time.Duration    // a transaction's wait for company
	AlwaysLinger bool             // it waits without load, too
	Fresh        time.Duration    // how old a known sum may be
	Settled      time.Duration    // and a sum of days that are over
	// Apps lists an organisation's apps, by id.
	Apps func(ctx context.Context, org string) ([]string, error)
}

// Ledger writes what calls cost, hold and give back, each once, and knows what is
// counted: its own writes and the stored sums. It is safe for concurrent use.
type Ledger struct {
	Options
	lanes  lanes
	boards struct {
		sync.Mutex
		byScope *lru.Cache[string, *Board]
	}
	abandoned abandonedHolds
	closers   chan struct{}      // see CloseBehind
	closing   background.Running // totals being stored
}

// New makes a ledger. It makes no request and starts no goroutine.
func New(options Options) *Ledger {
	l := &Ledger{Options: options, closers: make(chan struct{}, maxClosers)}
	l.lanes.open = map[string]*lane{}
	l.boards.byScope, _ = lru.New[string, *Board](boardsKept) // fails only for a size below 1
	return l
}

// Board is what is known of a scope's spend.
func (l *Ledger) Board(org, scope string) *Board {
	l.boards.Lock()
	defer l.boards.Unlock()
	if b, ok := l.boards.byScope.Get(scope); ok {
		return b
	}
	b := newBoard(l, org, scope)
	l.boards.byScope.Add(scope, b)
	return b
}

// note takes an acknowledged write into the board of its scope.
func (l *Ledger) note(o *Operation) { l.Board(o.Org, o.Scope).note(o) }

// Close lets nothing more be written, but what belongs to what was accepted.
func (l *Ledger) Close() {
	l.lanes.mu.Lock()
	l.lanes.closed = true
	l.lanes.mu.Unlock()
}

// Wait is until everything accepted is written or has failed.
func (l *Ledger) Wait() { l.lanes.running.Wait() }

// WaitForTotals is until no total is being stored behind a read: tests look at the
// table then.
func (l *Ledger) WaitForTotals() { l.closing.Wait() }

// Busy says that something that counts to a scope may still be written: an
// operation, whether its caller waits for it or has left, or the release of a hold
// that nobody has. True may also be about a scope within it.
func (l *Ledger) Busy(scope string) bool {
	if l.abandoned.waitFor(scope) {
		return true
	}
	l.lanes.mu.Lock()
	defer l.lanes.mu.Unlock()
	for key := range l.lanes.open { // see Account.lane
		if key == scope || strings.HasPrefix(key, scope+"#") {
			return true
		}
	}
	return false
}

// Queued is how many operations wait to be written.
func (l *Ledger) Queued() int {
	l.lanes.mu.Lock()
	defer l.lanes.mu.Unlock()
	n := 0
	for _, lane := range l.lanes.open {
		n += len(lane.queue)
	}
	return n
}
