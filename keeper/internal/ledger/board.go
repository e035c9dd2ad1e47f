package ledger

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// ownAmount is the spend that this process wrote and that the stored sums may not contain yet.
type ownAmount struct {
	before money.Picos // written before the running or last query began
	since  money.Picos // written since
}

// Board caches one scope's spend: the stored sums of the last read, and this process's own
// writes since that read began. It merges rows shard by shard and prefers the row with more
// writes, so a sum never falls below an earlier one. It is safe for concurrent use.
type Board struct {
	l     *Ledger
	Scope string // its key
	// renewAfter is the age of a query at which callers are asked to renew it before it
	// expires. It is random, so that boards with a common first read do not renew together for
	// ever.
	renewAfter time.Duration

	mu         sync.Mutex // guards the fields below; not held during requests
	want       Need
	has        Need
	rows       map[store.Key]map[store.Key]Counter // partition and prefix → key → row
	own        map[store.Key]*ownAmount
	fetched    time.Time
	ahead      time.Time // the value of fetched for which a renewal was requested
	version    int64     // increases with every query
	writes     int64     // number of own writes recorded
	gone       bool      // the ledger has dropped the board
	query      chan struct{}
	lastErr    error
	wroteSince bool // this process wrote since the last query began
}

// newBoard makes an empty board of a scope. It draws a random age for renewals, so that boards with a common
// first read do not renew together. It sends no request.
func newBoard(l *Ledger, scope string) *Board {
	fifth := l.Fresh / 5
	return &Board{l: l, Scope: scope, renewAfter: l.Fresh - fifth - rand.N(fifth+1), rows: map[store.Key]map[store.Key]Counter{}, own: map[store.Key]*ownAmount{}}
}

// addOwnWrite adds a write of this process, which the store has acknowledged, to the board's spend, so that
// lookups include it before the next query.
func (b *Board) addOwnWrite(o *Operation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range o.debits {
		ref := d.counterKey()
		if b.own[ref] == nil {
			b.own[ref] = &ownAmount{}
		}
		b.own[ref].since = b.own[ref].since.Add(o.amountsFor(d).Spend())
	}
	b.wroteSince = true
	b.writes++
}

// Stand identifies the state of a board. Another Stand may mean other sums.
type Stand struct{ version, notes int64 }

// KnownStand returns the version of the board's sums without a query. fresh is false if they are too old; a
// fresh result counts as a lookup in the cache. ends is true once if the caller must call Renew in the
// background.
func (b *Board) KnownStand() (stand Stand, fresh, ends bool) {
	stand, ends = b.Stand()
	b.mu.Lock()
	fresh = b.isFresh() && !b.gone
	b.mu.Unlock()
	if fresh {
		b.l.countLookup(true)
	}
	return stand, fresh, ends
}

// Stand returns the version of the board's sums. ends is true once for sums that will soon be too old: the
// caller must then call Renew in the background.
func (b *Board) Stand() (stand Stand, ends bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ends = b.isFresh() && b.l.Now().Sub(b.fetched) >= b.renewAfter && b.query == nil && b.ahead != b.fetched; ends {
		b.ahead = b.fetched
	}
	return Stand{b.version, b.writes}, ends
}

// isFresh reports whether the last query began less than Ledger.Fresh ago. It is false if the clock has been
// set back since. b.mu must be held.
func (b *Board) isFresh() bool {
	age := b.l.Now().Sub(b.fetched)
	return age >= 0 && age < b.l.Fresh
}

// markGone marks the board as dropped: the ledger makes a new board for the scope.
func (b *Board) markGone() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone = true
}

// Renew queries the store for n, however fresh the board is, or joins the query in flight, and waits for the
// answer. It returns the board's version, which increases with every query.
func (b *Board) Renew(ctx context.Context, n Need) (version int64, err error) {
	b.mu.Lock()
	flight, err := b.startQuery(n, false)
	b.mu.Unlock()
	if err == nil {
		err = b.awaitQuery(ctx, flight)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.version, err
}

// EnsureFresh queries the store for the sums that n names, unless the board has them and they are younger than
// Ledger.Fresh. With force it also queries if this process has written since the last query. It counts the call
// as a lookup and runs one query at a time; after a failed one the earlier sums stay usable.
func (b *Board) EnsureFresh(ctx context.Context, n Need, force bool) error {
	asked := b.l.Now()
	for first := true; ; first = false {
		flight, err := b.beginQuery(n, force)
		if first && err == nil {
			b.l.countLookup(flight == nil)
		}
		if flight == nil || err != nil {
			return err
		}
		if err := b.awaitQuery(ctx, flight); err != nil {
			return err
		}
		b.mu.Lock()
		has := b.has
		b.mu.Unlock()
		if n.isCoveredBy(has) && !b.l.Now().After(asked.Add(b.l.Fresh)) {
			return nil
		}
	}
}

// awaitQuery waits until flight closes and returns the query's error. It fails earlier if ctx
// ends or the table counts as down.
func (b *Board) awaitQuery(ctx context.Context, flight <-chan struct{}) error {
	select {
	case <-flight:
	case <-b.l.Breaker.Lasting():
		return OutageError("read", b.l.Breaker)
	case <-ctx.Done():
		return &fault.UnavailableError{Package: pkg, Op: "read", Err: ctx.Err()}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lastErr
}

// beginQuery returns the channel of the query in flight, or starts a query. It returns nil if the board already
// has fresh sums for n; with force only if this process has not written since. It returns ErrClosed while the
// keeper closes, unless force is true.
func (b *Board) beginQuery(n Need, force bool) (<-chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n.isCoveredBy(b.has) && b.isFresh() && !(force && b.wroteSince) {
		return nil, nil
	}
	return b.startQuery(n, force)
}

// startQuery returns the channel of the query in flight, or starts one for n. It returns ErrClosed while the
// keeper closes, unless atClose is true. b.mu must be held.
func (b *Board) startQuery(n Need, atClose bool) (<-chan struct{}, error) {
	if b.query == nil {
		b.want = n.merge(b.want)
		if !b.l.Life.Begin(atClose) {
			return nil, ErrClosed
		}
		b.query = make(chan struct{})
		go b.runQuery(b.want, b.query)
	}
	return b.query, nil
}

// ReadSums calls EnsureFresh, and reports in known whether the board's sums can be used. While the store cannot
// be reached, sums of an earlier day can be. version increases with every query.
func (b *Board) ReadSums(ctx context.Context, n Need, force bool) (version int64, known bool, err error) {
	err = b.EnsureFresh(ctx, n, force)
	b.mu.Lock()
	defer b.mu.Unlock()
	known = n.isCoveredBy(b.has) || errors.Is(err, fault.ErrUnavailable) && b.has.Day != "" && b.has.Day < n.Day
	return b.version, known, err
}

// outdateAfter is the minimal age of the last query for MarkStale to have an effect.
const outdateAfter = 500 * time.Millisecond

// MarkStale makes the next EnsureFresh query the store, unless the last query is younger than outdateAfter.
func (b *Board) MarkStale() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if age := b.l.Now().Sub(b.fetched); age < 0 || age >= outdateAfter {
		b.fetched = time.Time{}
	}
}

// HasNewWrites reports whether this process has written to the scope since the last query began, so that a
// query would find more spend.
func (b *Board) HasNewWrites() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wroteSince
}

// runQuery queries the store for n, and then closes flight, which its callers wait for. A failure sets
// b.lastErr and keeps the earlier sums.
func (b *Board) runQuery(n Need, flight chan struct{}) {
	defer b.l.Life.Done()
	ctx, cancel := context.WithTimeout(b.l.Life.Context(), WriteTimeout)
	defer cancel()
	began := b.l.Now()
	b.mu.Lock()
	for _, o := range b.own {
		o.before, o.since = o.before.Add(o.since), money.Picos{}
	}
	b.wroteSince = false
	b.mu.Unlock()

	var rows map[store.Key]map[store.Key]Counter
	err := guard.Apart(func() (err error) {
		rows, err = b.l.readScope(ctx, b.Scope, n)
		return err
	})

	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.lastErr = WrapError("read", err)
		b.wroteSince = true
	} else {
		b.lastErr = nil
		b.mergeRows(rows)
		b.fetched, b.has = began, n
		b.version++
	}
	b.query = nil
	close(flight)
}

// mergeRows replaces the board's counters by the rows of a query, but keeps a counter that has more writes
// than its row. It drops own writes that the rows include.
func (b *Board) mergeRows(rows map[store.Key]map[store.Key]Counter) {
	for ref, shards := range rows {
		for key, old := range b.rows[ref] {
			if old.Writes > shards[key].Writes {
				shards[key] = old
			}
		}
	}
	b.rows = rows
	for ref, o := range b.own {
		o.before = money.Picos{}
		if o.since.IsZero() && rows[ref] == nil {
			delete(b.own, ref)
		}
	}
}
