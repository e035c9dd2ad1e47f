// Package cache keeps what was used recently, for callers who only rarely change
// what is kept.
package cache

import (
	"errors"
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
)

// Recent keeps the most recently used values, up to a size. It is safe for
// concurrent use, and made for values that are read far more often than added: a
// Get shares its lock. To note every use would need the lock alone, and callers who
// come together would stand in line for it, so a use is noted only if there were
// many since the last that was: a sixteenth of the size. A cache of fewer than 16
// values is exact.
//
// A value and its place are one piece of memory: callers get pointers to
// values, which stay good when they are forgotten.
type Recent[K comparable, V any] struct {
	// Held reports whether a value must not be forgotten for lack of room; nil for none.
	// Then there is more than the size for a while. It is called with the cache's lock
	// held, and set before the cache is used.
	Held func(*V) bool

	size  int
	every int64
	keyOf func(*V) K
	uses  atomic.Uint64

	mu sync.RWMutex
	// byHash holds a value under the hash of its key: a key is large, and here for
	// the third time otherwise. Keys whose hash is another's are in byKey.
	byHash map[uint64]*kept[K, V]
	byKey  map[K]*kept[K, V]
	seed   maphash.Seed
	bits   uint64 // those of a hash that count: all, but in tests
	// newest and oldest are the ends of the list of what is kept, in order of use.
	newest, oldest *kept[K, V]
}

// forgotten is noted of a value that is not kept any more.
const forgotten = math.MaxUint64

// kept is a value, and at which use its place was last noted.
type kept[K comparable, V any] struct {
	value V
	noted atomic.Uint64
	// newer and older are its neighbours; the cache's lock guards them.
	newer, older *kept[K, V]
}

var errNoRoom = errors.New("a cache needs room for one value or more")

// NewRecent returns an empty cache for a number of values, which know their keys. It
// fails for a size below 1.
func NewRecent[K comparable, V any](size int, keyOf func(*V) K) (*Recent[K, V], error) {
	if size < 1 {
		return nil, errNoRoom
	}
	return &Recent[K, V]{size: size, every: int64(size / 16), keyOf: keyOf, byHash: map[uint64]*kept[K, V]{}, seed: maphash.MakeSeed(), bits: math.MaxUint64}, nil
}

// Get returns the value of a key, and that it was used now; nil if there is none.
func (r *Recent[K, V]) Get(key K) *V {
	now := r.uses.Add(1)
	hash := r.hash(key)
	r.mu.RLock()
	k := r.find(hash, key)
	r.mu.RUnlock()
	if k == nil {
		return nil
	}
	r.note(k, now)
	return &k.value
}

// note moves a value to the newest, if there were many uses since its place was noted. It
// returns false if the value was forgotten.
func (r *Recent[K, V]) note(k *kept[K, V], now uint64) bool {
	noted := k.noted.Load()
	if noted == forgotten {
		return false
	}
	if int64(now-noted) > r.every && k.noted.CompareAndSwap(noted, now) {
		r.mu.Lock()
		r.use(k)
		r.mu.Unlock()
	}
	return true
}

// Again is Get for what is used again and again: its use is noted where that is due, and not
// counted as one of the many.
func (r *Recent[K, V]) Again(key K) *V {
	if k := r.hold(key); k != nil && r.again(k) {
		return &k.value
	}
	return nil
}

// hold is where the value of a key is kept; nil if it is not.
func (r *Recent[K, V]) hold(key K) *kept[K, V] {
	hash := r.hash(key)
	r.mu.RLock()
	k := r.find(hash, key)
	r.mu.RUnlock()
	return k
}

// again notes a use as Again does. It returns false if the value was forgotten.
func (r *Recent[K, V]) again(k *kept[K, V]) bool { return r.note(k, r.uses.Load()) }

// Peek returns the value of a key without using it; nil if there is none.
func (r *Recent[K, V]) Peek(key K) *V {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if k := r.find(r.hash(key), key); k != nil {
		return &k.value
	}
	return nil
}

// Add keeps a value, in the place of its key's last; evicted says that another was
// forgotten for it.
func (r *Recent[K, V]) Add(value V) (evicted bool) {
	k := &kept[K, V]{value: value}
	key := r.keyOf(&value)
	k.noted.Store(r.uses.Add(1))
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := r.find(r.hash(key), key); last != nil {
		r.forget(last)
	}
	return r.keep(k)
}

// GetOrAdd returns the value of a key, which is made, with its key, if there is none.
func (r *Recent[K, V]) GetOrAdd(key K, make func(*V)) *V {
	if value := r.Get(key); value != nil {
		return value
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.find(r.hash(key), key); k != nil { // made meanwhile
		r.use(k)
		return &k.value
	}
	k := &kept[K, V]{}
	make(&k.value)
	k.noted.Store(r.uses.Load())
	r.keep(k)
	return &k.value
}

// Remove forgets a key; false if it was not there.
func (r *Recent[K, V]) Remove(key K) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.find(r.hash(key), key)
	if k == nil {
		return false
	}
	r.forget(k)
	return true
}

// Keys are the keys of what is kept, the least recently used first.
func (r *Recent[K, V]) Keys() []K {
	r.mu.RLock()
	defer r.mu.RUnlock()
	keys := make([]K, 0, len(r.byHash)+len(r.byKey))
	for k := r.oldest; k != nil; k = k.newer {
		keys = append(keys, r.keyOf(&k.value))
	}
	return keys
}

// Len is how many values are kept.
func (r *Recent[K, V]) Len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.count()
}

func (r *Recent[K, V]) hash(key K) uint64 { return maphash.Comparable(r.seed, key) & r.bits }

// What follows needs the lock.

// find returns what is kept of a key with that hash, nil for nothing.
func (r *Recent[K, V]) find(hash uint64, key K) *kept[K, V] {
	if k := r.byHash[hash]; k != nil && r.keyOf(&k.value) == key {
		return k
	}
	return r.byKey[key] // of which there are none, as good as always
}

func (r *Recent[K, V]) count() int { return len(r.byHash) + len(r.byKey) }

// mostHeld bounds how many held values one that is added passes over.
const mostHeld = 16

// keep makes a value the newest, and forgets the oldest that are not held if there is no
// room.
func (r *Recent[K, V]) keep(k *kept[K, V]) (evicted bool) {
	switch key, hash := r.keyOf(&k.value), r.hash(r.keyOf(&k.value)); {
	case r.byHash[hash] == nil:
		r.byHash[hash] = k
	case r.byKey == nil:
		r.byKey = map[K]*kept[K, V]{key: k}
	default:
		r.byKey[key] = k
	}
	r.link(k)
	for passed := 0; r.count() > r.size && r.oldest != k && passed < mostHeld; {
		oldest := r.oldest
		if r.Held != nil && r.Held(&oldest.value) {
			r.use(oldest)
			passed++
			continue
		}
		r.forget(oldest)
		evicted = true
	}
	return evicted
}

// use makes a value the newest, unless it was forgotten meanwhile.
func (r *Recent[K, V]) use(k *kept[K, V]) {
	if key := r.keyOf(&k.value); r.find(r.hash(key), key) == k {
		r.unlink(k)
		r.link(k)
	}
}

func (r *Recent[K, V]) forget(k *kept[K, V]) {
	k.noted.Store(forgotten)
	key := r.keyOf(&k.value)
	if hash := r.hash(key); r.byHash[hash] == k {
		delete(r.byHash, hash)
	} else {
		delete(r.byKey, key)
	}
	r.unlink(k)
}

func (r *Recent[K, V]) link(k *kept[K, V]) {
	if k.older = r.newest; k.older == nil {
		r.oldest = k
	} else {
		k.older.newer = k
	}
	r.newest = k
}

// unlink leaves the value without neighbours, which it might outlive.
func (r *Recent[K, V]) unlink(k *kept[K, V]) {
	if k.newer == nil {
		r.newest = k.older
	} else {
		k.newer.older = k.older
	}
	if k.older == nil {
		r.oldest = k.newer
	} else {
		k.older.newer = k.newer
	}
	k.newer, k.older = nil, nil
}
