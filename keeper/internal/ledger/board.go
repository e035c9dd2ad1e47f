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

// ownAmount is what this process wrote and the stored sums may not contain yet.
type ownAmount struct {
	before money.Picos // the running or last query began
	since  money.Picos // then
}

// Board is what is known of one scope's spend: the stored sums as last read, and this
// process's own writes since that read began. Rows are merged shard by shard, and the
// row with more writes wins, so a sum never falls behind what was seen. It is safe for
// concurrent use.
type Board struct {
	l     *Ledger
	Scope string // its key
	// renewAfter is the age of a query at which another is asked ahead of its end. It differs
	// from board to board, so that those that were first read at once are not for ever.
	renewAfter time.Duration

	mu         sync.Mutex // guards what follows; not held while the store is asked
	want       Need
	has        Need
	rows       map[store.Key]map[store.Key]Counter // partition and prefix → key → row
	own        map[store.Key]*ownAmount
	fetched    time.Time
	ahead      time.Time // the fetched for which a query ahead of its end was asked
	version    int64     // rises with every query
	notes      int64     // own writes that were added
	gone       bool      // the ledger does not know it any more
	query      chan struct{}
	lastErr    error
	wroteSince bool // own writes since the last query began
}

func newBoard(l *Ledger, scope string) *Board {
	fifth := l.Fresh / 5
	return &Board{l: l, Scope: scope, renewAfter: l.Fresh - fifth - rand.N(fifth+1), rows: map[store.Key]map[store.Key]Counter{}, own: map[store.Key]*ownAmount{}}
}

// note adds an acknowledged write of this process.
func (b *Board) note(o *Operation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range o.debits {
		ref := d.ref()
		if b.own[ref] == nil {
			b.own[ref] = &ownAmount{}
		}
		b.own[ref].since = b.own[ref].since.Add(o.delta(d).Spend())
	}
	b.wroteSince = true
	b.notes++
}

// Stand names what a board knows: another one may say something else.
type Stand struct{ version, notes int64 }

// Known is what the board knows without a query, false if that is too old. ends is that of
// Stand.
func (b *Board) Known() (stand Stand, fresh, ends bool) {
	stand, ends = b.Stand()
	b.mu.Lock()
	fresh = b.fresh() && !b.gone
	b.mu.Unlock()
	if fresh {
		b.l.countLook(true)
	}
	return stand, fresh, ends
}

// Stand is what the board knows. ends says that it is about to be too old, and is true once:
// who hears it is to Renew the board, beside its callers.
func (b *Board) Stand() (stand Stand, ends bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ends = b.fresh() && b.l.Now().Sub(b.fetched) >= b.renewAfter && b.query == nil && b.ahead != b.fetched; ends {
		b.ahead = b.fetched
	}
	return Stand{b.version, b.notes}, ends
}

// fresh reports whether the last query is not too old. b.mu must be held.
func (b *Board) fresh() bool {
	age := b.l.Now().Sub(b.fetched)
	return age >= 0 && age < b.l.Fresh
}

// forgotten says that the ledger has another board of the scope from now on.
func (b *Board) forgotten() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone = true
}

// Renew asks the store for n whatever is known, and makes the answer known.
func (b *Board) Renew(ctx context.Context, n Need) (version int64, err error) {
	b.mu.Lock()
	flight, err := b.startQuery(n, false)
	b.mu.Unlock()
	if err == nil {
		err = b.await(ctx, flight)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.version, err
}

// Ensure makes the board know n, read at most Ledger.Fresh ago. With force it reads
// again if this process has written since. One query runs at a time. If it fails, what
// is known can still be used.
func (b *Board) Ensure(ctx context.Context, n Need, force bool) error {
	asked := b.l.Now()
	for first := true; ; first = false {
		flight, err := b.beginQuery(n, force)
		if first && err == nil {
			b.l.countLook(flight == nil)
		}
		if flight == nil || err != nil {
			return err
		}
		if err := b.await(ctx, flight); err != nil {
			return err
		}
		b.mu.Lock()
		has := b.has
		b.mu.Unlock()
		if n.within(has) && !b.l.Now().After(asked.Add(b.l.Fresh)) {
			return nil
		}
	}
}

// await waits for a query under way.
func (b *Board) await(ctx context.Context, flight <-chan struct{}) error {
	select {
	case <-flight:
	case <-b.l.Breaker.Lasting():
		return Away("read", b.l.Breaker)
	case <-ctx.Done():
		return &fault.UnavailableError{Package: pkg, Op: "read", Err: ctx.Err()}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lastErr
}

// beginQuery returns the query under way, and begins one if there is none; nil if n is known
// already.
func (b *Board) beginQuery(n Need, force bool) (<-chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n.within(b.has) && b.fresh() && !(force && b.wroteSince) {
		return nil, nil
	}
	return b.startQuery(n, force)
}

// startQuery returns the query under way, and begins one if there is none. b.mu must be held.
func (b *Board) startQuery(n Need, atClose bool) (<-chan struct{}, error) {
	if b.query == nil {
		b.want = n.merge(b.want)
		if !b.l.Life.Begin(atClose) {
			return nil, ErrClosed
		}
		b.query = make(chan struct{})
		go b.refresh(b.want, b.query)
	}
	return b.query, nil
}

// Look makes the board know n, as Ensure does, and reports whether what it knows can be
// used. version rises with every query. While the store cannot be reached, what is known
// of an earlier day can be used.
func (b *Board) Look(ctx context.Context, n Need, force bool) (version int64, known bool, err error) {
	err = b.Ensure(ctx, n, force)
	b.mu.Lock()
	defer b.mu.Unlock()
	known = n.within(b.has) || errors.Is(err, fault.ErrUnavailable) && b.has.Day != "" && b.has.Day < n.Day
	return b.version, known, err
}

// outdateAfter is how old the last query must be for another one that somebody asks for.
const outdateAfter = 500 * time.Millisecond

// Outdate makes the next Ensure ask the store, unless the last query began within half a second.
func (b *Board) Outdate() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if age := b.l.Now().Sub(b.fetched); age < 0 || age >= outdateAfter {
		b.fetched = time.Time{}
	}
}

// Unseen reports whether this process has written since the last query began.
func (b *Board) Unseen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wroteSince
}

// refresh queries everything that is wanted, for all callers that wait.
func (b *Board) refresh(n Need, flight chan struct{}) {
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
		b.lastErr = Judge("read", err)
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

// mergeRows merges the rows of a query and forgets days that are not asked for any more.
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
