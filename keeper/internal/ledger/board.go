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

// newBoard returns an empty board of a scope and does not cache it. It draws the age for renewals at random,
// between 3/5 and 4/5 of Ledger.Fresh. It sends no request.
func newBoard(l *Ledger, scope string) *Board {
	fifth := l.Fresh / 5
	return &Board{l: l, Scope: scope, renewAfter: l.Fresh - fifth - rand.N(fifth+1), rows: map[store.Key]map[store.Key]Counter{}, own: map[store.Key]*ownAmount{}}
}

// addOwnWrite adds the amounts of an acknowledged write of this process to the board, so that its sums contain
// them before the next query. It changes the board's Stand and makes HasNewWrites true.
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

// KnownStand returns the state of the board's sums without a query. fresh is true if they may be used; that
// counts as a lookup in the cache. If ends is true, the caller must call Renew in the background; only one
// caller gets true.
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

// Stand returns the state of the board's sums without a query, at any age. If ends is true, fresh sums will
// soon expire and the caller must call Renew in the background; only one caller gets true.
func (b *Board) Stand() (stand Stand, ends bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ends = b.isFresh() && b.l.Now().Sub(b.fetched) >= b.renewAfter && b.query == nil && b.ahead != b.fetched; ends {
		b.ahead = b.fetched
	}
	return Stand{b.version, b.writes}, ends
}

// isFresh reports whether the last successful query began less than Ledger.Fresh ago. It is false before the
// first query, and if the clock has been set back to before it. b.mu must be held.
func (b *Board) isFresh() bool {
	age := b.l.Now().Sub(b.fetched)
	return age >= 0 && age < b.l.Fresh
}

// markGone marks the board as evicted from the ledger's cache. KnownStand then never reports fresh sums,
// because new writes go to another board.
func (b *Board) markGone() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone = true
}

// Renew queries the store for n, or joins the query in flight, which may be for another need, and waits for it.
// It returns the board's version, which rises with each successful query. A failed query leaves the sums
// unchanged.
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

// EnsureFresh queries the store unless the board has the sums for n, younger than Ledger.Fresh. With force it
// also queries if this process has written since the last query, even while the keeper closes. It counts one
// lookup, and keeps the old sums after a failure.
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

// awaitQuery waits until the query closes flight, and returns the query's error. It returns a
// *fault.UnavailableError earlier if ctx ends or the usage table does not answer for long; the query then
// continues.
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

// beginQuery returns nil if the board has fresh sums for n; with force only if this process has not written
// since. Else it starts a query or joins the one in flight, and returns its channel. Without force it returns
// ErrClosed while the keeper closes.
func (b *Board) beginQuery(n Need, force bool) (<-chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n.isCoveredBy(b.has) && b.isFresh() && !(force && b.wroteSince) {
		return nil, nil
	}
	return b.startQuery(n, force)
}

// startQuery returns a channel that closes at the end of the query in flight, or of a new one for n. After
// Close it starts none and returns ErrClosed, unless atClose is true. b.mu must be held.
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

// ReadSums calls EnsureFresh and returns its error, and a version that rises with each successful query. known
// reports whether the board's sums serve n, also after a failure; during an outage sums of an earlier day serve
// too.
func (b *Board) ReadSums(ctx context.Context, n Need, force bool) (version int64, known bool, err error) {
	err = b.EnsureFresh(ctx, n, force)
	b.mu.Lock()
	defer b.mu.Unlock()
	known = n.isCoveredBy(b.has) || errors.Is(err, fault.ErrUnavailable) && b.has.Day != "" && b.has.Day < n.Day
	return b.version, known, err
}

// outdateAfter is the minimal age of the last query for MarkStale to have an effect.
const outdateAfter = 500 * time.Millisecond

// MarkStale makes the cached sums count as expired, so that the next lookup queries the store. It does nothing
// if the last query began less than outdateAfter ago.
func (b *Board) MarkStale() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if age := b.l.Now().Sub(b.fetched); age < 0 || age >= outdateAfter {
		b.fetched = time.Time{}
	}
}

// HasNewWrites reports whether this process has written to the scope since the last query began, or that query
// failed. A query may then find more spend.
func (b *Board) HasNewWrites() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wroteSince
}

// runQuery queries the store for n within WriteTimeout, merges the rows into the board, and raises its version.
// A failure sets lastErr and keeps the sums. At the end it closes flight and ends the query's background task.
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

// mergeRows replaces the board's counters by rows, but keeps a cached counter with more writes than its row; it
// changes rows. It drops own writes from before the query, which rows contain. b.mu must be held.
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
