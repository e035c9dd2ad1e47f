package cache

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
)

// Key names what is cached. Its String must differ from that of every other key.
type Key interface {
	comparable
	String() string
}

// Options say for how long a Loading cache uses what it has. What is set here is
// read with every call: set it before the first.
type Options[V any] struct {
	// Now is the clock.
	Now func() time.Time
	// TTL is how long a value is fresh, from the start of its read.
	TTL time.Duration
	// Grace is how long past its TTL a value is used because the read of a newer one
	// failed, or while another caller reads it. 0: never.
	Grace time.Duration
	// Wait makes callers wait for a read that is under way, instead of using the value
	// past its TTL meanwhile.
	Wait bool
	// Away returns why the store does not answer; nil while it does. While it does not,
	// nobody waits for a read, and values are used until MaxStale past their TTL. If
	// Away is nil, the store always answers.
	Away func() error
	// MaxStale is how long past its TTL a value is used while the store is away.
	MaxStale time.Duration
	// Leave may end a caller's wait for a read: the caller gets why's error as if the
	// read had failed, once gone is closed. held reports whether there is a value within
	// its grace. If Leave is nil, a caller waits until its context ends.
	Leave func(held bool) (gone <-chan struct{}, why func() error)
	// Definite reports whether the error of a read is an answer of the store. The cached
	// value is then forgotten, not used. If it is nil, no error is.
	Definite func(error) bool
	// Negative reports whether a value stands for nothing, for Stats. If it is nil, no
	// value does.
	Negative func(V) bool
}

// Stats counts what a Loading cache did since it was made. Requests = Hits +
// StaleHits + Misses.
type Stats struct {
	// Hits were answered from a fresh value.
	Hits int64
	// NegativeHits are the Hits on a value that stands for nothing.
	NegativeHits int64
	// StaleHits were answered from a value past its TTL, while one other caller
	// reads it again or because that read failed.
	StaleHits int64
	// Misses had to wait for a read.
	Misses int64
	// Coalesced shared the read of another caller.
	Coalesced int64
	// Loads is how many reads were begun, forced ones included.
	Loads int64
	// Evictions is how many values left for lack of room or were evicted.
	Evictions int64
	// Size is how many values are held now.
	Size int
}

// Load reads a value. Its context does not end with that of a caller, because other
// callers may wait for the same read; so a Load bounds its own time.
type Load[V any] func(context.Context) (V, error)

// Loading caches what was read from a store, with one read at a time for each key. It is
// safe for concurrent use, and holds no lock while a value is read. The zero V stands
// for no value.
type Loading[K Key, V comparable] struct {
	Options[V]

	// What needs no read takes no lock of the cache's own: callers come together.
	hits, negativeHits, staleHits, misses atomic.Int64

	mu      sync.Mutex
	entries *Recent[K, entry[K, V]]
	fills   map[*fill[K]]struct{}
	stats   Stats // but for those above

	// running holds the read under way for a key, next the forced one that
	// begins when it has ended.
	running, next singleflight.Group
}

// entry is a value. What is below its line needs the cache's lock; the rest never
// changes.
type entry[K Key, V any] struct {
	key      K
	value    V
	read     time.Time // when the read began
	negative bool

	refreshing bool       // one caller is reading it again
	retry      *time.Time // the earliest next attempt after a failed one, nil for none
}

// fill is a read under way. An eviction of its key drops it: what it brings may be
// older than the change.
type fill[K Key] struct {
	key     K
	began   time.Time
	dropped bool
}

// MaxRefreshPause bounds the pause after a failed read of a value that is cached.
const MaxRefreshPause = time.Second

// NewLoading returns an empty cache for a number of values. It fails for a size
// below 1.
func NewLoading[K Key, V comparable](size int, o Options[V]) (*Loading[K, V], error) {
	entries, err := NewRecent(size, func(e *entry[K, V]) K { return e.key })
	if err != nil {
		return nil, err
	}
	return &Loading[K, V]{Options: o, entries: entries, fills: map[*fill[K]]struct{}{}}, nil
}

// Fresh returns the value of a key if it needs no read; else the zero V, and nothing
// is counted.
func (c *Loading[K, V]) Fresh(key K) (fresh V) {
	e := c.entries.Get(key)
	if e == nil || !e.readWithin(c.Now(), c.TTL) {
		return fresh
	}
	c.hits.Add(1)
	if e.negative {
		c.negativeHits.Add(1)
	}
	return e.value
}

// readWithin says whether the entry was read within d; a clock set back makes it old.
func (e *entry[K, V]) readWithin(now time.Time, d time.Duration) bool {
	age := now.Sub(e.read)
	return age >= 0 && age < d
}

// Last returns the value of a key, whatever its age; the zero V if there is none.
func (c *Loading[K, V]) Last(key K) (last V) {
	if e := c.entries.Peek(key); e != nil {
		return e.value
	}
	return last
}

// Get returns the value of a key, reading it with load when there is no fresh one.
// Past the TTL one caller reads it again and the others use the one they have, or
// wait for it with Options.Wait. A caller whose ctx ends gets ctx's error, and
// leaves a shared read running for the others.
func (c *Loading[K, V]) Get(ctx context.Context, key K, load Load[V]) (V, error) {
	var none V
	if v := c.Fresh(key); v != none {
		return v, nil
	}
	if err := c.outage(); err != nil {
		return c.staleWhileAway(key, err)
	}
	stale, refresh := c.stale(key)
	if !refresh {
		return stale, nil
	}
	executed := false
	shared := context.WithoutCancel(ctx)
	v, err, left := c.awaitRead(ctx, stale != none, c.running.DoChan(key.String(), func() (any, error) {
		executed = true
		return c.fill(shared, key, load)
	}))
	if ctx.Err() != nil {
		return none, ctx.Err()
	}
	if !left && !executed { // who left a read must not look: it may be under way still
		c.count(func(s *Stats) { s.Coalesced++ })
	}
	if err != nil && stale != none && !c.definite(err) {
		return stale, nil
	}
	if err != nil && c.outage() != nil {
		return c.staleWhileAway(key, err)
	}
	return v, err
}

// awaitRead returns the outcome of a shared read, or what Leave returns for a read that
// is not worth waiting for. left means that the caller left the read.
func (c *Loading[K, V]) awaitRead(ctx context.Context, held bool, outcome <-chan singleflight.Result) (v V, err error, left bool) {
	var gone <-chan struct{}
	var why func() error
	if c.Leave != nil {
		gone, why = c.Leave(held)
	}
	select {
	case <-gone:
		return v, why(), true
	case <-ctx.Done():
		return v, ctx.Err(), true
	case r := <-outcome:
		v, err = valueOf[V](r)
		return v, err, false
	}
}

func valueOf[V any](r singleflight.Result) (v V, err error) {
	if r.Err != nil {
		return v, r.Err
	}
	return r.Val.(V), nil
}

func (c *Loading[K, V]) outage() error {
	if c.Away == nil {
		return nil
	}
	return c.Away()
}

func (c *Loading[K, V]) definite(err error) bool { return c.Definite != nil && c.Definite(err) }

// staleWhileAway returns the value to use while the store does not answer, or the error
// if there is none.
func (c *Loading[K, V]) staleWhileAway(key K, err error) (V, error) {
	e := c.entries.Get(key)
	if e == nil || !e.readWithin(c.Now(), c.TTL+c.MaxStale) {
		c.misses.Add(1)
		var none V
		return none, err
	}
	c.staleHits.Add(1)
	return e.value, nil
}

// stale returns the value past its TTL, if there is one within its grace. refresh means
// that this caller has to read it, or to wait for the caller who does.
// Another caller may have read it since this one saw that it was old: then it is fresh.
func (c *Loading[K, V]) stale(key K) (stale V, refresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.Fresh(key); v != stale {
		return v, false
	}
	now, e := c.Now(), c.entries.Get(key)
	if e == nil || !e.readWithin(now, c.TTL+c.Grace) {
		c.misses.Add(1)
		return stale, true
	}
	if e.refreshing && !c.Wait || e.retry != nil && now.Before(*e.retry) {
		c.staleHits.Add(1)
		return e.value, false
	}
	e.refreshing = true
	c.misses.Add(1)
	return e.value, true
}

// Reload reads the value again, whatever is cached, and stores it. The read begins
// after the call; callers that are waiting for one to begin share it.
func (c *Loading[K, V]) Reload(ctx context.Context, key K, load Load[V]) (V, error) {
	name, shared := key.String(), context.WithoutCancel(ctx)
	outcome := c.next.DoChan(name, func() (any, error) {
		for {
			ours := false
			v, err, _ := c.running.Do(name, func() (any, error) {
				ours = true
				c.next.Forget(name) // who asks from now on came after this read began
				return c.fill(shared, key, load)
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
		return valueOf[V](r)
	}
}

// fill reads the value and stores it, unless it was evicted meanwhile.
func (c *Loading[K, V]) fill(ctx context.Context, key K, load Load[V]) (V, error) {
	f := &fill[K]{key: key, began: c.Now()}
	c.mu.Lock()
	c.fills[f] = struct{}{}
	c.stats.Loads++
	c.mu.Unlock()

	v, err := load(ctx)

	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.fills, f)
	e := c.entries.Peek(key)
	switch {
	case f.dropped:
	case err == nil:
		if c.entries.Add(entry[K, V]{key: key, value: v, read: f.began, negative: c.Negative != nil && c.Negative(v)}) {
			c.stats.Evictions++
		}
	case e != nil && c.definite(err):
		c.entries.Remove(key) // the store answered: what it holds cannot be used
	case e != nil:
		e.refreshing = false
		retry := c.Now().Add(min(c.TTL/16, MaxRefreshPause))
		e.retry = &retry
	}
	return v, err
}

// Replace caches a value in place of another, if that is still cached. The new value is
// as old as the other.
func (c *Loading[K, V]) Replace(key K, old, with V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries.Peek(key); e != nil && e.value == old {
		replaced := *e
		replaced.value = with
		c.entries.Add(replaced)
	}
}

// Evict forgets the values whose key matches, and the reads of them under way.
func (c *Loading[K, V]) Evict(match func(K) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropFills(match)
	for _, key := range c.entries.Keys() {
		if match(key) && c.entries.Remove(key) {
			c.stats.Evictions++
		}
	}
}

// EvictValues forgets the values that match among those of the keys that match. It also
// ignores the reads of those keys that are under way, because it is not known what they
// will bring.
func (c *Loading[K, V]) EvictValues(keys func(K) bool, values func(V) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for f := range c.fills {
		if e := c.entries.Peek(f.key); e != nil && keys(f.key) {
			e.refreshing = false // what stays is to be read again by another caller
		}
	}
	c.dropFills(keys)
	for _, key := range c.entries.Keys() {
		if e := c.entries.Peek(key); e != nil && keys(key) && values(e.value) && c.entries.Remove(key) {
			c.stats.Evictions++
		}
	}
}

// Drop is Evict of one key, without looking at the others.
func (c *Loading[K, V]) Drop(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropFills(func(k K) bool { return k == key })
	if c.entries.Remove(key) {
		c.stats.Evictions++
	}
}

// dropFills drops the reads under way of the keys that match. c.mu must be held.
func (c *Loading[K, V]) dropFills(match func(K) bool) {
	for f := range c.fills {
		if match(f.key) {
			f.dropped = true
			c.running.Forget(f.key.String())
		}
	}
}

func (c *Loading[K, V]) count(add func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	add(&c.stats)
}

// Stats returns what the cache did so far.
func (c *Loading[K, V]) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Hits, s.NegativeHits, s.StaleHits, s.Misses = c.hits.Load(), c.negativeHits.Load(), c.staleHits.Load(), c.misses.Load()
	s.Size = c.entries.Len()
	return s
}
