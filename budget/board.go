package budget

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/calendar"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// need is what must be known to judge a scope's labels.
type need struct {
	day    string
	from   string          // first day summed from its shards
	closed string          // first day taken from the closed totals before from; empty: none
	labels map[string]bool // whose counters to read
	refs   map[store.Key]bool
	abroad span // days counted under the other scope

	calendar calendar.Calendar
}

// within says that everything n asks for is in o.
func (n need) within(o need) bool {
	for l := range n.labels {
		if !o.labels[l] {
			return false
		}
	}
	for r := range n.refs {
		if !o.refs[r] {
			return false
		}
	}
	return n.day == o.day && n.from >= o.from && (n.closed == "" || o.closed != "" && n.closed >= o.closed) &&
		n.abroad.within(o.abroad)
}

// merge asks for both, so that apps of one scope share a board.
func (n need) merge(o need) need {
	if n.day != o.day {
		return n
	}
	labels, refs := maps.Clone(n.labels), maps.Clone(n.refs)
	maps.Copy(labels, o.labels)
	maps.Copy(refs, o.refs)
	n.labels, n.refs = labels, refs
	n.from = min(n.from, o.from)
	if n.closed == "" || o.closed != "" && o.closed < n.closed {
		n.closed = o.closed
	}
	n.abroad = n.abroad.join(o.abroad)
	return n
}

// ownAmount is what this process wrote and the stored sums may lack.
type ownAmount struct {
	before amount // the running or last query began
	since  amount // then
}

// board is what is known of one scope's spend: the last stored sums, and the
// own writes acknowledged since that query began. Rows are merged shard by
// shard, the higher n wins: a sum never falls behind what was seen.
type board struct {
	k     *Keeper
	org   string
	scope string

	mu      sync.Mutex
	want    need
	has     need
	rows    map[store.Key]map[string]counterRow // partition and prefix → sort key → row
	totals  map[string]map[string]counterRow    // closed day → label → sum
	abroad  abroadDays
	own     map[store.Key]*ownAmount
	full    map[store.Key]fullCounter // that refused a moment ago
	live    []*holdRef                // the next to end, when last read
	liveAt  time.Time
	fetched time.Time
	version int64 // rises with every query
	flight  chan struct{}
	failed  error

	apps  map[string]bool // that asked
	dirty bool            // own writes since the last query began
	timer *time.Timer
}

func (k *Keeper) boardOf(org, scope string) *board {
	k.boards.Lock()
	defer k.boards.Unlock()
	if b, ok := k.boards.byScope.Get(scope); ok {
		return b
	}
	b := &board{
		k: k, org: org, scope: scope, apps: map[string]bool{},
		rows: map[store.Key]map[string]counterRow{}, own: map[store.Key]*ownAmount{},
		full: map[store.Key]fullCounter{},
	}
	k.boards.byScope.Add(scope, b)
	return b
}

func (k *Keeper) board(o *op) *board { return k.boardOf(o.org, o.board) }

// note adds an acknowledged write of this process.
func (b *board) note(o *op) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range o.debits {
		row := o.delta(d)
		ref := store.Key{PK: d.pk, SK: d.prefix}
		if b.own[ref] == nil {
			b.own[ref] = &ownAmount{}
		}
		b.own[ref].since = b.own[ref].since.add(row.amount())
		b.forget(ref, row.used)
	}
	b.dirty = true
	b.schedule()
}

// ensure makes the board know n, at most Options.Staleness old, or at all
// costs when forced. One query runs at a time; what is known stays usable when
// it fails.
func (b *board) ensure(ctx context.Context, n need, force bool) error {
	asked := b.k.now()
	for {
		b.mu.Lock()
		age := b.k.now().Sub(b.fetched)
		fresh := n.within(b.has) && age >= 0 && age < b.k.opts.Staleness
		if fresh && !(force && b.dirty) {
			b.mu.Unlock()
			return nil
		}
		if b.flight == nil {
			b.want = n.merge(b.want)
			b.flight = make(chan struct{})
			if !b.k.begin(force) {
				b.flight = nil
				b.mu.Unlock()
				return ErrClosed
			}
			go b.refresh(b.want, b.flight)
		}
		flight := b.flight
		b.mu.Unlock()
		select {
		case <-flight:
		case <-b.k.breaker.Lasting():
			return away("read", b.k.breaker)
		case <-ctx.Done():
			return &UnavailableError{Operation: "read", Err: ctx.Err()}
		}
		b.mu.Lock()
		failed, has := b.failed, b.has
		b.mu.Unlock()
		if failed != nil {
			return failed
		}
		if n.within(has) && !b.k.now().After(asked.Add(b.k.opts.Staleness)) {
			return nil
		}
	}
}

// refresh queries everything wanted. It runs for all that wait.
func (b *board) refresh(n need, flight chan struct{}) {
	defer b.k.tasks.Done()
	ctx, cancel := context.WithTimeout(b.k.base, writeTimeout)
	defer cancel()
	began := b.k.now()
	b.mu.Lock()
	for _, o := range b.own {
		o.before, o.since = o.before.add(o.since), amount{}
	}
	b.dirty = false
	abroad := b.abroad
	b.mu.Unlock()

	loaded, err := b.k.readScope(ctx, b.scope, n)
	if err == nil {
		abroad, err = b.k.readAbroad(ctx, b.scope, n, abroad, began)
	}

	b.mu.Lock()
	if err != nil {
		b.failed = failure("read", err)
		b.dirty = true
	} else {
		b.failed = nil
		b.take(loaded)
		b.abroad = abroad
		b.fetched, b.has = began, n
		b.version++
	}
	expired := b.heldLocked()
	b.mu.Unlock()
	if err == nil && expired {
		if _, _, err := b.k.releaseExpired(ctx, b.scope); err != nil {
			b.k.opts.Logger.WarnContext(ctx, "budget: releasing expired holds", "scope", b.scope, "error", err)
		}
	}
	b.mu.Lock()
	b.flight = nil
	b.mu.Unlock()
	close(flight)
}

// scopeRows is what one query of a scope found.
type scopeRows struct {
	rows   map[store.Key]map[string]counterRow
	closed map[string]map[string]counterRow
}

// take merges a query's rows and forgets days that are no longer asked for.
func (b *board) take(loaded scopeRows) {
	rows := map[store.Key]map[string]counterRow{}
	for ref, shards := range loaded.rows {
		rows[ref] = shards
		for sk, old := range b.rows[ref] {
			if old.n > shards[sk].n {
				shards[sk] = old
			}
		}
	}
	b.rows, b.totals = rows, loaded.closed
	for ref, o := range b.own {
		o.before = amount{}
		if o.since == (amount{}) && rows[ref] == nil {
			delete(b.own, ref)
		}
	}
}

// heldLocked says that money is held, perhaps by holds that have expired.
func (b *board) heldLocked() bool {
	for _, shards := range b.rows {
		for _, row := range shards {
			if row.amount().held.Sign() > 0 {
				return true
			}
		}
	}
	return false
}

// amount is what counts on one counter; stored leaves own writes out.
func (b *board) amount(ref store.Key, stored bool) amount {
	var sum counterRow
	for _, row := range b.rows[ref] {
		sum = sum.add(row)
	}
	a := sum.amount()
	if o := b.own[ref]; o != nil && !stored {
		a = a.add(o.before).add(o.since)
	}
	return a
}

// dayAmount is a label's amount on a day, open or closed.
func (b *board) dayAmount(label, day string, stored bool) amount {
	if row, ok := b.totals[day][label]; ok {
		return amount{spend: row.spend()}
	}
	return b.amount(store.Key{PK: labelPK(b.scope, label), SK: shardPrefix(Day, day)}, stored)
}

// readScope reads counters consistently: one query per label, and the period
// counters in one batch.
func (k *Keeper) readScope(ctx context.Context, scope string, n need) (scopeRows, error) {
	out := scopeRows{rows: map[store.Key]map[string]counterRow{}}
	var mu sync.Mutex
	err := parallel(ctx, maps.Keys(n.labels), func(ctx context.Context, label string) error {
		pk := labelPK(scope, label)
		return k.readShards(ctx, pk, "DAY#"+n.from, "DAY#"+n.day+"~", func(sk string, row counterRow) {
			mu.Lock()
			defer mu.Unlock()
			addShard(out.rows, pk, sk, row)
		})
	})
	if err != nil {
		return out, err
	}
	keys := make([]store.Key, 0, len(n.refs))
	for ref := range n.refs {
		keys = append(keys, shardKey(ref.PK, ref.SK, 0))
	}
	items, err := k.store.BatchGet(ctx, k.store.Usage, keys...)
	if err != nil {
		return out, err
	}
	for key, item := range items {
		row, err := decodeCounter(item)
		if err != nil {
			return out, err
		}
		addShard(out.rows, key.PK, key.SK, row)
	}
	if n.closed != "" && n.closed < n.from {
		c := &closings{since: n.closed}
		out.closed, err = k.closedDays(ctx, n.calendar, scope, n.labels, n.closed, calendar.AddDays(n.from, -1), c)
		k.closeBehind(c)
	}
	return out, err
}

func (k *Keeper) readShards(ctx context.Context, pk, from, to string, each func(sk string, row counterRow)) error {
	return k.store.Query(ctx, k.store.Usage, pk, from, to, func(item store.Item) error {
		row, err := decodeCounter(item)
		if err == nil {
			each(store.KeyOf(item).SK, row)
		}
		return err
	})
}

func addShard(rows map[store.Key]map[string]counterRow, pk, sk string, row counterRow) {
	end := strings.LastIndex(sk, "#SH#")
	if end < 0 {
		return
	}
	ref := store.Key{PK: pk, SK: sk[:end+len("#SH#")]}
	if rows[ref] == nil {
		rows[ref] = map[string]counterRow{}
	}
	rows[ref][sk] = row
}

// schedule makes one more query follow the last write within a staleness
// period, so that no threshold is missed. It needs the board's lock.
func (b *board) schedule() {
	if b.timer != nil || b.k.opts.OnEvent == nil || b.k.isClosed() {
		return
	}
	b.k.tasks.Add(1)
	b.timer = time.AfterFunc(b.k.opts.Staleness, func() {
		defer b.k.tasks.Done()
		b.mu.Lock()
		b.timer = nil
		b.mu.Unlock()
		b.observe(b.k.base)
	})
}

// observe looks once more for every app that asked, if there is news.
func (b *board) observe(ctx context.Context) {
	b.mu.Lock()
	apps, dirty := maps.Clone(b.apps), b.dirty
	b.mu.Unlock()
	if !dirty {
		return
	}
	for app := range apps {
		t, err := b.k.tenants.get(ctx, b.org, app)
		if err != nil {
			continue
		}
		if _, err := b.k.look(ctx, t, true); err != nil {
			b.k.opts.Logger.WarnContext(ctx, "budget: looking for events", "scope", b.scope, "error", err)
		}
	}
}

// observeAll is the last look of a keeper that closes.
func (k *Keeper) observeAll(ctx context.Context) {
	k.boards.Lock()
	boards := k.boards.byScope.Values()
	k.boards.Unlock()
	for _, b := range boards {
		if k.opts.OnEvent != nil && ctx.Err() == nil {
			b.observe(ctx)
		}
	}
}

// stopTimers leaves what they would have seen to the last look.
func (k *Keeper) stopTimers() {
	k.boards.Lock()
	boards := k.boards.byScope.Values()
	k.boards.Unlock()
	for _, b := range boards {
		b.mu.Lock()
		if b.timer != nil && b.timer.Stop() {
			b.timer = nil
			k.tasks.Done()
		}
		b.mu.Unlock()
	}
}
