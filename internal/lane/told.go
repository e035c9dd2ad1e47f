package lane

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// Pending updates: amounts counted without their bucket, and give-backs that could not be written. They
// wait here until the bucket answers. One goroutine writes them, outside the lanes' own work.

const (
	// maxUntold bounds the buckets with pending updates.
	maxUntold = 10_000
	// tellDelay is the time for which pending updates may grow, and tellPause the least time between
	// two writes: 50 a second.
	tellDelay = time.Second
	tellPause = 20 * time.Millisecond
)

// tellBackoff is the wait after writes that were throttled or refused, in a row.
var tellBackoff = ddb.Backoff{First: 200 * time.Millisecond, Most: 10 * time.Second}

// Given is a call's parent and plan for an entity, in case its record has none; each may be empty.
type Given struct{ Parent, Plan string }

// toldKey names a bucket with pending updates. unlocated means that the amounts were admitted for an
// entity without a known configuration, so that its buckets must be found first.
type toldKey struct {
	BucketKey
	unlocated bool
	given     Given
}

// teller writes pending updates.
type teller interface {
	// writeUpdates writes the pending updates of one bucket. It returns false if the table should be left alone
	// for a while.
	writeUpdates(ctx context.Context, w *untold) bool
	// silent reports whether a bucket is known not to answer; answers asks it once.
	silent(key BucketKey) bool
	answers(ctx context.Context, key BucketKey) bool
}

// told holds all pending updates of buckets.
type told struct {
	// life ends when the limiter has been closed. work counts the work in flight.
	life  context.Context
	work  *work
	table Table
	turns *Turns
	tally *tally
	log   *slog.Logger
	// by writes the updates.
	by teller

	mu    sync.Mutex
	byKey map[toldKey]*untold
	// order are the updates in the order of their writes.
	order   []*untold
	running bool
	// full means that updates were dropped for lack of room, and that there was no room since.
	full bool
}

// addUpdates lets add change the pending updates of a bucket, and starts the goroutine that writes them. It
// drops, counts and logs the amounts that add returns, or all if too many buckets have updates. It returns
// false, and adds nothing, if the limiter is closed.
func (d *told) addUpdates(key toldKey, cfg *plan.Config, amounts []plan.Signed, add func(*untold) (left []plan.Signed)) bool {
	if len(amounts) == 0 {
		return true
	}
	d.mu.Lock()
	if d.life.Err() != nil {
		d.mu.Unlock()
		return false
	}
	w := d.entryOf(key)
	if w == nil {
		first := !d.full
		d.full = true
		d.mu.Unlock()
		d.tally.Drop(amounts)
		if first {
			d.log.Warn("dynalimit: too many counter updates are pending: further ones are dropped, and the counters of buckets miss them; Health.Dropped has their sum")
		}
		return true
	}
	if cfg != nil {
		w.cfg = cfg
	}
	left := add(w)
	if !d.running {
		d.running = true
		d.work.Started()
		go d.run()
	}
	d.mu.Unlock()
	d.noteDropped(key.BucketKey, left, "the sum exceeds the most that an update can hold")
	return true
}

// entryOf returns the pending updates of a bucket, and adds an entry if the bucket has none. It returns nil if
// there are too many entries. d.mu must be held.
func (d *told) entryOf(key toldKey) *untold {
	w := d.byKey[key]
	if w != nil || len(d.byKey) >= maxUntold {
		return w
	}
	if d.byKey == nil {
		d.byKey = map[toldKey]*untold{}
	}
	w = &untold{key: key}
	d.byKey[key], d.order = w, append(d.order, w)
	return w
}

// run writes the pending updates while the table answers, one write at a time, until none is left or the
// limiter is closed. It waits a second before the first, and longer after failures.
func (d *told) run() {
	defer d.work.Stopped()
	life, failed := d.life, 0
	for pause := tellDelay; ddb.Sleep(life, pause); {
		select {
		case <-d.table.Closed():
		case <-life.Done():
			return
		}
		if !d.turns.wait(life) {
			return
		}
		w, done := d.takeNext(d.by.silent)
		switch {
		case done:
			return
		case w == nil: // every bucket that something waits for is silent
			pause = tellDelay
		case d.writeGuarded(w):
			pause, failed = 0, 0
		default:
			pause = tellBackoff.Wait(failed)
			failed++
		}
	}
}

// writeGuarded writes the part in w.sent, and survives a panic: the part is then in doubt. It returns false if
// the table should be left alone for a while.
func (d *told) writeGuarded(w *untold) (well bool) {
	sizes := w.sent.sizes()
	err := guard.Apart(func() error {
		well = d.by.writeUpdates(context.Background(), w)
		return nil
	})
	if err != nil {
		d.tally.Doubt(sizes)
		d.clearSent(w)
	}
	return well && err == nil
}

// drain writes the pending updates before the limiter ends, until none is left, ctx ends, or the table does not
// answer. It probes a silent bucket or table once. It waits for a write in flight, because that bucket may have
// more updates, or the write may fail.
func (d *told) drain(ctx context.Context) {
	if d.table.Open() && !hasAnswer(d.table.Probe(ctx)) {
		return
	}
	asked := map[BucketKey]bool{}
	silent := func(key BucketKey) bool {
		if !d.by.silent(key) {
			return false
		}
		answers, known := asked[key]
		if !known {
			answers = d.by.answers(ctx, key)
			asked[key] = answers
		}
		return !answers
	}
	for failed := 0; ctx.Err() == nil && !d.table.Open(); {
		w, done := d.takeNext(silent)
		switch {
		case done || w == nil && !d.isWriting():
			return
		case w == nil:
			ddb.Sleep(ctx, tellPause)
		case d.by.writeUpdates(ctx, w):
			failed = 0
		default:
			if !ddb.Sleep(ctx, tellBackoff.Wait(failed)) {
				return
			}
			failed++
		}
	}
}

// takeNext moves the updates of the next write to w.sent, and returns w: that of the bucket that has waited
// longest and is not silent. w is nil if every bucket is silent or being written; done means that no update is
// pending. It removes entries without updates.
func (d *told) takeNext(silent func(BucketKey) bool) (w *untold, done bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for range len(d.order) {
		w, d.order = d.order[0], d.order[1:]
		switch {
		case !w.sent.isEmpty(): // another goroutine tells it
		case w.isEmpty():
			delete(d.byKey, w.key)
			continue
		case d.isSilent(w, silent):
		default:
			w.takePart()
			d.order = append(d.order, w)
			return w, false
		}
		d.order = append(d.order, w)
	}
	d.full = d.full && len(d.byKey) >= maxUntold
	if len(d.byKey) == 0 {
		d.running, d.order = false, nil
	}
	return nil, len(d.byKey) == 0
}

// isWriting reports whether a write of pending updates is in flight.
func (d *told) isWriting() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.byKey {
		if !w.sent.isEmpty() {
			return true
		}
	}
	return false
}

// isSilent reports whether a bucket is silent, and releases d.mu while it asks. An unlocated update has no
// bucket that could be.
func (d *told) isSilent(w *untold, silent func(BucketKey) bool) bool {
	if w.key.unlocated {
		return false
	}
	d.mu.Unlock()
	defer d.mu.Lock()
	return silent(w.key.BucketKey)
}

// keepAgain puts the part p, which was surely not written, back into w, and clears w.sent. Amounts that would
// exceed one update are dropped, counted and logged.
func (d *told) keepAgain(w *untold, p part) {
	d.mu.Lock()
	left := w.restorePart(p)
	d.mu.Unlock()
	d.noteDropped(w.key.BucketKey, left, "the sum exceeds the most that an update can hold")
}

// clearSent clears the part of w in flight: it has landed, is dropped, or is in doubt. Updates that came
// meanwhile stay.
func (d *told) clearSent(w *untold) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w.sent = part{}
}

// noteDropped counts amounts that will never be written as dropped, by their absolute values, and logs them
// with the reason why. It does nothing without amounts.
func (d *told) noteDropped(key BucketKey, amounts []plan.Signed, why string) {
	if len(amounts) == 0 {
		return
	}
	d.tally.Drop(amounts)
	d.log.Warn("dynalimit: a pending counter update is dropped, and the bucket's counter misses it: "+why,
		slog.String("entity", key.Entity), slog.String("resource", key.Resource), slog.Any("tokens", plan.Tokens(amounts)))
}

// sumUpdates returns the number of buckets with pending updates, and the sums of their absolute amounts by
// limit, in millitokens. Updates in flight count.
func (d *told) sumUpdates() (buckets int, amounts []plan.Signed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.byKey {
		if sizes := w.sizes(); len(sizes) > 0 {
			buckets++
			amounts = plan.Plus(amounts, sizes)
		}
	}
	return buckets, amounts
}

// Turns spaces the background writes of several limiters of one process: 50 a second together. The zero
// value is ready.
type Turns struct {
	mu   sync.Mutex
	next time.Time
}

// wait waits for a turn of the background writes, which start at least 20 ms apart. It returns false if ctx
// ends first.
func (t *Turns) wait(ctx context.Context) bool {
	t.mu.Lock()
	now := time.Now()
	at := t.next
	if at.Before(now) {
		at = now
	}
	t.next = at.Add(tellPause)
	t.mu.Unlock()
	return ddb.Sleep(ctx, at.Sub(now))
}
