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
	// boardsKept is how many scopes' sums are known at a time.
	boardsKept = 10_000
)

// Ledger writes what calls cost, and what is adjusted by hand, each exactly once. It knows what is
// counted: the stored sums and its own writes. It is safe for concurrent use; New makes
// it.
type Ledger struct {
	Options
	lanes  lanes // its writes on their way
	boards struct {
		sync.Mutex
		byScope *lru.Cache[string, *Board]
	}
	looks struct{ known, asked atomic.Int64 } // calls for which spend was known, or was not

	closers chan struct{}      // see CloseBehind
	closing background.Running // totals being stored
}

// New makes a ledger. It makes no request and starts no goroutine.
func New(options Options) *Ledger {
	l := &Ledger{Options: options, closers: make(chan struct{}, maxClosers)}
	l.lanes.Options, l.lanes.note, l.lanes.open = &l.Options, l.note, map[string]*lane{}
	l.boards.byScope, _ = lru.NewWithEvict(boardsKept, func(_ string, b *Board) { b.forgotten() }) // fails only for a size below 1
	l.lanes.spreads, _ = lru.New[store.Key, *spread](spreadsKept)
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

// BoardBeside is Board for a look that keeps no other scope's board from being known: one that is
// not known already is of this look alone.
func (l *Ledger) BoardBeside(scope string) *Board {
	l.boards.Lock()
	defer l.boards.Unlock()
	if b, ok := l.boards.byScope.Peek(scope); ok {
		return b
	}
	return newBoard(l, scope)
}

// note adds an acknowledged write to the board of its scope.
func (l *Ledger) note(o *Operation) { l.Board(o.Scope).note(o) }

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

// Write writes the operation. It returns when the operation is finished, whose verdict
// says how it ended, or when ctx ends. Errors: those that match ErrUnavailable,
// ErrClosed, and ctx's own while the operation is on its way.
func (l *Ledger) Write(ctx context.Context, o *Operation) error {
	if err := l.lanes.enqueue(o.lane, o); err != nil {
		return err
	}
	return l.lanes.await(ctx, o)
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
		if err := l.lanes.enqueue(lane, group...); err != nil {
			l.lanes.fail(group, err)
		}
	}
	errs := make([]error, len(ops))
	for i, o := range ops {
		if o != nil {
			errs[i] = l.lanes.await(ctx, o)
		}
	}
	return errs
}

// Close refuses further writes, except those that belong to what was accepted.
func (l *Ledger) Close() { l.lanes.close() }

// Wait returns when everything accepted is written or has failed.
func (l *Ledger) Wait() { l.lanes.running.Wait() }

// WaitForTotals returns when no total is being stored behind a read. Tests use it before
// they look at the table.
func (l *Ledger) WaitForTotals() { l.closing.Wait() }

// Busy reports whether something that counts to a scope may still be written: an
// operation, whether or not its caller waits for it. It may also be true because of a scope
// within this one.
func (l *Ledger) Busy(scope string) bool { return l.lanes.busy(scope) }

// Queued is the number of operations that wait to be written.
func (l *Ledger) Queued() int { return l.lanes.queued() }
