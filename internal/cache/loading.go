package cache

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/dynalimit/dynalimit/internal/guard"
)

// Key identifies a value. Its String must differ from that of every other key.
type Key interface {
	comparable
	String() string
}

// Options say for how long a Loading cache uses its values. Every call reads them, so set them before the
// first.
type Options[V any] struct {
	// Now is the clock.
	Now func() time.Time
	// TTL is the time for which a value is fresh, from the start of its read.
	TTL time.Duration
	// Grace is the time past its TTL for which a value is used because the read of a newer one failed, or
	// while another caller reads it. 0: never.
	Grace time.Duration
	// Wait makes callers wait for a read in flight, instead of using the value past its TTL meanwhile.
	Wait bool
	// Ahead is the time before the end of its TTL at which a value in use is read again in the background, so
	// that it never expires. 0: a value is read again after its end.
	Ahead time.Duration
	// Spread makes that read earlier by up to this time, depending on the key. Values that were first read
	// together are then not read together for ever. 0: no spread.
	Spread time.Duration
	// Away returns the reason of an outage of the store; nil while the store answers. During an outage no
	// caller waits for a read, and values are used until MaxStale past their TTL. If Away is nil, the store
	// always answers.
	Away func() error
	// Unanswered reports whether the error of a read means that the store did not answer. The value is then
	// used until MaxStale past its TTL, and no caller waits for the reads that follow. If it is nil, every
	// error is an answer.
	Unanswered func(error) bool
	// MaxStale is the time past its TTL for which a value is used because the store is away or its read gets
	// no answer, even if it was evicted. 0: never.
	MaxStale time.Duration
	// Leave may end a caller's wait for a read. Once gone is closed, the caller gets the error of why, as if
	// the read had failed. held reports whether a value is within its grace. If Leave is nil, a caller waits
	// until its context ends.
	Leave func(held bool) (gone <-chan struct{}, why func() error)
	// Definite reports whether the error of a read is an answer of the store. The cached value is then
	// removed, not used. If it is nil, errors are never answers.
	Definite func(error) bool
	// Describe returns the traits of a value after its read. If it is nil, values have the zero Traits.
	Describe func(V) Traits
	// Ended reports whether a value with the trait MayEnd has ended before its TTL. It then counts as past its
	// TTL. It is needed for such values alone.
	Ended func(V) bool
}

// Traits are the properties of a value that do not change while it is cached.
type Traits struct {
	// Negative means that the value stands for nothing, for Stats.
	Negative bool
	// MayEnd means that the value may end before its TTL.
	MayEnd bool
	// Elder is how much older the value was than its read, at the start of that read. The age of the value
	// counts from then.
	Elder time.Duration
}

// Stats counts the events of a Loading cache since it was made. Requests = Hits + StaleHits + Misses.
type Stats struct {
	// Hits were answered with a fresh value.
	Hits int64
	// NegativeHits are the Hits on a value that stands for nothing.
	NegativeHits int64
	// StaleHits were answered with a value past its TTL, while another caller read it again or because that
	// read had failed.
	StaleHits int64
	// Misses had to wait for a read.
	Misses int64
	// Coalesced shared the read of another caller.
	Coalesced int64
	// Loads counts the started reads, forced ones included.
	Loads int64
	// Evictions counts the values removed for lack of room, or evicted.
	Evictions int64
	// Size is the present number of values.
	Size int
}

// Load reads a value. Its context does not end with that of a caller, because other callers may wait for the
// same read. A Load must bound its own time.
type Load[V any] func(context.Context) (V, error)

// Loading caches values of a store, with one read at a time for each key. It is safe for concurrent use, and
// holds no lock during a read. The zero V stands for an absent value.
type Loading[K Key, V comparable] struct {
	Options[V]

	// The fast path takes no lock of the cache's own, because callers come together.
	hits, negativeHits, staleHits, misses atomic.Int64

	seed    maphash.Seed // of the spread
	mu      sync.Mutex
	entries *Recent[K, entry[V]]
	fills   map[*fill[K]]struct{}
	stats   Stats // except the atomic counters above

	// running has the read in flight of a key, next the forced one that begins after it.
	running, next singleflight.Group
}

// entry is a cached value. The lock of the cache guards refreshing, unanswered and retry; the other fields
// never change.
type entry[V any] struct {
	value    V
	read     time.Time // when the read began
	negative bool
	mayEnd   bool // before its TTL
	evicted  bool // it is used only if its read gets no answer

	refreshing bool       // one caller is reading it again
	unanswered bool       // the last read, not long ago, got no answer
	retry      *time.Time // the earliest retry after a failed read, or nil
}

// fill is a read in flight. An eviction of its key drops it, because its value may be older than the change.
type fill[K Key] struct {
	key     K
	began   time.Time // by Options.Now
	sent    time.Time // by the machine's clock
	dropped bool
}

const (
	// MaxRefreshPause bounds the pause after the first failed read of a cached value. Later pauses are half
	// as long as the value is overdue, up to a quarter of the TTL. Otherwise every process would burden a
	// store that lacks capacity.
	MaxRefreshPause = time.Second
	// leastWait is the least time that a caller with an old value waits for a newer one. Usually it waits
	// half of its remaining time, because it has other work to do.
	leastWait = 200 * time.Millisecond
)

// errSlow ends the wait of a caller with an old value.
var errSlow = errors.New("no answer in half of the caller's time")

// NewLoading returns an empty cache with room for size values. It fails for a size below 1.
func NewLoading[K Key, V comparable](size int, o Options[V]) (*Loading[K, V], error) {
	entries, err := NewRecent[K, entry[V]](size)
	if err != nil {
		return nil, err
	}
	if o.Away == nil {
		o.Away = func() error { return nil }
	}
	if o.Unanswered == nil {
		o.Unanswered = func(error) bool { return false }
	}
	if o.Definite == nil {
		o.Definite = func(error) bool { return false }
	}
	if o.Describe == nil {
		o.Describe = func(V) Traits { return Traits{} }
	}
	return &Loading[K, V]{Options: o, seed: maphash.MakeSeed(), entries: entries, fills: map[*fill[K]]struct{}{}}, nil
}

// Fresh returns the value of a key if it needs no read, and counts a hit. Otherwise it returns the zero V and
// counts nothing.
func (c *Loading[K, V]) Fresh(key K) (fresh V) {
	e := c.entries.Get(key)
	if e == nil || !e.servesWithin(c.Now(), c.TTL) || e.mayEnd && c.Ended(e.value) {
		return fresh
	}
	c.hits.Add(1)
	if e.negative {
		c.negativeHits.Add(1)
	}
	return e.value
}

// servesWithin reports whether the entry is usable within d after its read. An evicted entry is not.
func (e *entry[V]) servesWithin(now time.Time, d time.Duration) bool {
	age := now.Sub(e.read)
	return !e.evicted && age >= 0 && age < d
}

// servesUnanswered reports whether the entry is usable within d after its read, because a new read gets no
// answer. Evicted entries count too, and a clock that was set back does not make it too old.
func (e *entry[V]) servesUnanswered(now time.Time, d time.Duration) bool {
	return now.Sub(e.read) < d
}

// RecentlyExpired returns the value of a key past its TTL and within its grace, if no read of a newer one has
// failed. It returns the zero V otherwise, and for an evicted value. It counts nothing.
func (c *Loading[K, V]) RecentlyExpired(key K) (old V) {
	e := c.entries.Peek(key)
	if e == nil {
		return old
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	if e.retry != nil || e.servesWithin(now, c.TTL) || !e.servesWithin(now, c.TTL+c.Grace) {
		return old
	}
	return e.value
}

// Last returns the value of a key at any age, also an evicted one that is kept for outages; the zero V for an
// absent key. It counts nothing.
func (c *Loading[K, V]) Last(key K) (last V) {
	if e := c.entries.Peek(key); e != nil {
		return e.value
	}
	return last
}

// Get returns the value of a key and counts the call. It reads it with load unless it is fresh, and in the
// background near its end (Options.Ahead). Past the TTL one caller reads it again, and the others use the old
// value or, with Options.Wait, wait. If that read fails, the old value serves within its grace or, without an
// answer, within MaxStale; an ended ctx gives its own error.
func (c *Loading[K, V]) Get(ctx context.Context, key K, load Load[V]) (V, error) {
	var none V
	if v := c.Ready(ctx, key, load); v != none {
		return v, nil
	}
	if err := c.Away(); err != nil {
		return c.whileAway(key, err)
	}
	old, how := c.findStale(key)
	if how == useOld {
		return old.value, nil
	}
	executed := false
	shared := context.WithoutCancel(ctx)
	outcome := c.running.DoChan(key.String(), func() (any, error) { return c.readValue(shared, key, load, &executed) })
	if how == readBeside {
		return old.value, nil
	}
	v, err, left := c.awaitRead(ctx, old, outcome)
	if ctx.Err() != nil {
		return none, ctx.Err()
	}
	if !left && !executed { // after leaving, executed may not be read: the read may be in flight still
		c.countStats(func(s *Stats) { s.Coalesced++ })
	}
	if err != nil && (old.graceful && !c.Definite(err) || old.value != none && c.isUnanswered(err)) {
		return old.value, nil
	}
	return v, err
}

// awaitRead returns the outcome of a shared read. It gives up if the channel of Options.Leave closes, if ctx
// ends, or, with an old value, after half of the caller's time. It then returns the reason, and left is true.
func (c *Loading[K, V]) awaitRead(ctx context.Context, old past[V], outcome <-chan singleflight.Result) (v V, err error, left bool) {
	var gone <-chan struct{}
	var why func() error
	if c.Leave != nil {
		gone, why = c.Leave(old.graceful)
	}
	var none V
	var enough <-chan time.Time
	if deadline, ok := ctx.Deadline(); ok && old.value != none {
		timer := time.NewTimer(max(time.Until(deadline)/2, leastWait))
		defer timer.Stop()
		enough = timer.C
	}
	select {
	case <-gone:
		return v, why(), true
	case <-enough:
		return v, errSlow, true
	case <-ctx.Done():
		return v, ctx.Err(), true
	case r := <-outcome:
		v, _ = r.Val.(V) // the zero V with an error
		return v, r.Err, false
	}
}

// isUnanswered reports whether the error of a read means that the store did not answer. It is true for every
// error during an outage.
func (c *Loading[K, V]) isUnanswered(err error) bool {
	return errors.Is(err, errSlow) || c.Away() != nil || c.Unanswered(err)
}

// whileAway returns the value to use during an outage of the store, if it is at most MaxStale past its TTL,
// or else err. It counts a stale hit or a miss.
func (c *Loading[K, V]) whileAway(key K, err error) (V, error) {
	e := c.entries.Get(key)
	if e == nil || !e.servesUnanswered(c.Now(), c.TTL+c.MaxStale) {
		c.misses.Add(1)
		var none V
		return none, err
	}
	c.staleHits.Add(1)
	return e.value, nil
}

// past is a value past its TTL; the zero past stands for an absent one. graceful means that it is within its
// grace. Otherwise it is used only if its read gets no answer.
type past[V any] struct {
	value    V
	graceful bool
}

// refresh is the action of a caller with a value past its TTL.
type refresh uint8

const (
	readAndWait refresh = iota // it reads the value, or waits for the caller that reads it
	useOld                     // another caller reads it, or a read has just failed
	readBeside                 // it starts a read and does not wait
)

// findStale returns the usable value past its TTL, and the caller's action: use it, read a new one and wait, or
// read in the background. It marks the value as being read if the caller must read, and counts a stale hit or a
// miss. If another caller has just read a value, it returns that, to use.
func (c *Loading[K, V]) findStale(key K) (past[V], refresh) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var none V
	now, e := c.Now(), c.entries.Get(key)
	if e != nil && e.servesWithin(now, c.TTL) {
		if v := c.Fresh(key); v != none {
			return past[V]{value: v}, useOld
		}
	}
	graceful := e != nil && e.servesWithin(now, c.TTL+c.Grace)
	if !graceful && (e == nil || !e.servesUnanswered(now, c.TTL+c.MaxStale)) {
		c.misses.Add(1)
		return past[V]{}, readAndWait
	}
	if e.unanswered && now.Sub(*e.retry) >= c.TTL {
		e.unanswered = false // no caller has asked since: the store may answer again
	}
	old, serves := past[V]{e.value, graceful}, graceful || e.unanswered
	if serves && (e.refreshing && (!c.Wait || e.unanswered) || e.retry != nil && now.Before(*e.retry)) {
		c.staleHits.Add(1)
		return old, useOld
	}
	e.refreshing = true
	if e.unanswered {
		c.staleHits.Add(1)
		return old, readBeside
	}
	c.misses.Add(1)
	return old, readAndWait
}

// Reload reads the value again, stores it and returns it, regardless of the cached one. The read begins after
// the call, and callers that wait for it to begin share it. It returns the read's error, or ctx's once ctx has
// ended.
func (c *Loading[K, V]) Reload(ctx context.Context, key K, load Load[V]) (V, error) {
	name, shared := key.String(), context.WithoutCancel(ctx)
	outcome := c.next.DoChan(name, func() (any, error) {
		for {
			ours := false
			v, err, _ := c.running.Do(name, func() (any, error) {
				c.next.Forget(name) // a caller from now on came after the start of this read
				return c.readValue(shared, key, load, &ours)
			})
			if ours {
				return v, err
			}
		}
	})
	select {
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	case r := <-outcome:
		v, _ := r.Val.(V) // the zero V with an error
		return v, r.Err
	}
}

// readValue counts and makes a read with load, and stores the value, unless it was evicted meanwhile. It sets *begun
// first. A panic of load becomes an error. After a failed read it returns the zero V. It then removes the old value
// if the error is an answer, else it sets the earliest retry.
func (c *Loading[K, V]) readValue(ctx context.Context, key K, load Load[V], begun *bool) (v V, err error) {
	*begun = true
	f := &fill[K]{key: key, began: c.Now(), sent: time.Now()}
	c.mu.Lock()
	c.fills[f] = struct{}{}
	c.stats.Loads++
	c.mu.Unlock()

	err = guard.Apart(func() error { // singleflight lets a panic end the process, and Goexit hang its callers
		loaded, err := load(ctx)
		if err == nil {
			v = loaded
		}
		return err
	})

	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.fills, f)
	e := c.entries.Peek(key)
	switch {
	case f.dropped:
	case err == nil:
		traits := c.Describe(v)
		if c.entries.Add(key, entry[V]{value: v, read: f.began.Add(-traits.Elder), negative: traits.Negative, mayEnd: traits.MayEnd}) {
			c.stats.Evictions++
		}
	case e != nil && c.Definite(err):
		c.entries.Remove(key) // the store answered: the old value cannot be used
	case e != nil:
		now := c.Now()
		overdue := now.Sub(e.read) - c.TTL
		retry := now.Add(min(max(overdue/2, min(c.TTL/16, MaxRefreshPause)), c.TTL/4))
		e.refreshing, e.unanswered, e.retry = false, c.isUnanswered(err), &retry
	}
	return v, err
}

// ReadSince returns the start of the oldest read in flight of a key, by the machine's clock. It returns the
// zero time without one.
func (c *Loading[K, V]) ReadSince(key K) (since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for f := range c.fills {
		if f.key == key && (since.IsZero() || f.sent.Before(since)) {
			since = f.sent
		}
	}
	return since
}

// Replace caches a value in place of old, with old's age and reads, if old is still cached.
func (c *Loading[K, V]) Replace(key K, old, with V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries.Peek(key); e != nil && e.value == old {
		replaced := *e
		replaced.value = with
		c.entries.Add(key, replaced)
	}
}

// countStats calls add with the statistics under c.mu, so that add may change them.
func (c *Loading[K, V]) countStats(add func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	add(&c.stats)
}

// Stats returns the counts of events since the cache was made, and its present size.
func (c *Loading[K, V]) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Hits, s.NegativeHits, s.StaleHits, s.Misses = c.hits.Load(), c.negativeHits.Load(), c.staleHits.Load(), c.misses.Load()
	s.Size = c.entries.Len()
	return s
}

// Held pins a fresh value so that repeated reads need no lookup.
type Held[K Key, V comparable] struct {
	// Value is the value.
	Value V
	place *kept[K, entry[V]]
}

// Hold returns the value of a key that is fresh by its TTL, for later checks by Still without a lookup. It
// returns false without such a value. It counts nothing, and does not ask Options.Ended.
func (c *Loading[K, V]) Hold(key K) (held Held[K, V], ok bool) {
	k := c.entries.findPlace(key)
	if k == nil || !k.value.servesWithin(c.Now(), c.TTL) {
		return held, false
	}
	return Held[K, V]{k.value.value, k}, true
}

// Still reports whether the held value is still cached and fresh by its TTL at the time now. It counts a hit if
// so, and does not ask Options.Ended.
func (c *Loading[K, V]) Still(held *Held[K, V], now time.Time) bool {
	e := &held.place.value
	if !e.servesWithin(now, c.TTL) || !c.entries.recordUse(held.place) {
		return false
	}
	c.hits.Add(1)
	if e.negative {
		c.negativeHits.Add(1)
	}
	return true
}
