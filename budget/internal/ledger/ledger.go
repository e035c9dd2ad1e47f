package ledger

import (
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dynalimit/dynalimit/budget/internal/background"
	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

const (
	// boardsKept is how many scopes' sums are known at a time.
	boardsKept = 10_000
	// unkeptKnown is how many records are known that were counted without an item.
	unkeptKnown = 10_000
)

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
	KeepDays     int              // closed totals are kept so long, see expires
}

// Ledger writes what calls cost, and what is adjusted by hand, each exactly once. It knows what is
// counted: the stored sums and its own writes. It is safe for concurrent use; New makes
// it.
type Ledger struct {
	Options
	lanes  lanes
	boards struct {
		sync.Mutex
		byScope *lru.Cache[string, *Board]
	}
	looks struct{ known, asked atomic.Int64 } // calls for which spend was known, or was not

	unkept  *lru.Cache[string, string] // records counted without an item, by key: the hash of the payload
	closers chan struct{}              // see CloseBehind
	closing background.Running         // totals being stored
}

// New makes a ledger. It makes no request and starts no goroutine.
func New(options Options) *Ledger {
	l := &Ledger{Options: options, closers: make(chan struct{}, maxClosers)}
	l.lanes.open = map[string]*lane{}
	l.boards.byScope, _ = lru.New[string, *Board](boardsKept) // fails only for a size below 1
	l.unkept, _ = lru.New[string, string](unkeptKnown)
	return l
}

// Board is what is known of a scope's spend.
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

// Looks are how many calls found what they needed of a scope's spend known, and how many
// waited for a query of the store.
func (l *Ledger) Looks() (known, asked int64) { return l.looks.known.Load(), l.looks.asked.Load() }

func (l *Ledger) countLook(known bool) {
	if known {
		l.looks.known.Add(1)
	} else {
		l.looks.asked.Add(1)
	}
}

// note adds an acknowledged write to the board of its scope.
func (l *Ledger) note(o *Operation) { l.Board(o.Scope).note(o) }

// Close refuses further writes, except those that belong to what was accepted.
func (l *Ledger) Close() {
	l.lanes.mu.Lock()
	l.lanes.closed = true
	l.lanes.mu.Unlock()
}

// Wait returns when everything accepted is written or has failed.
func (l *Ledger) Wait() { l.lanes.running.Wait() }

// WaitForTotals returns when no total is being stored behind a read. Tests use it before
// they look at the table.
func (l *Ledger) WaitForTotals() { l.closing.Wait() }

// Busy reports whether something that counts to a scope may still be written: an
// operation, whether or not its caller waits for it. It may also be true because of a scope
// within this one.
func (l *Ledger) Busy(scope string) bool {
	l.lanes.mu.Lock()
	defer l.lanes.mu.Unlock()
	for key := range l.lanes.open { // see Account.operation
		if strings.HasPrefix(key, scope+"#") {
			return true
		}
	}
	return false
}

// Queued is the number of operations that wait to be written.
func (l *Ledger) Queued() int {
	l.lanes.mu.Lock()
	defer l.lanes.mu.Unlock()
	n := 0
	for _, lane := range l.lanes.open {
		n += len(lane.queue)
	}
	return n
}
