// Package cache caches the most recently used values, for many readers and few writers.
package cache

import (
	"errors"
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
)

// Recent is a cache of the most recently used values, up to a size. It is safe for concurrent use, and made
// for values that are read far more often than added: a Get shares its lock. A record of every use would need
// the exclusive lock, and concurrent callers would queue for it. So a use is recorded only if many other
// uses, a sixteenth of the size, came since the last record. A cache of fewer than 16 values is exact.
//
// A value and its place are one allocation. Callers get pointers to values, which stay valid after a removal.
type Recent[K comparable, V any] struct {
	// Held reports whether a value must not be removed for lack of room. It may be nil. The cache then
	// exceeds its size for a while. It is called with the cache's lock held, and set before the cache is
	// used.
	Held func(*V) bool

	size  int
	every int64
	uses  atomic.Uint64

	mu sync.RWMutex
	// byHash has a value under the hash of its key. A key is large, and a map by key would store it a second
	// time. A key with the same hash as another is in byKey.
	byHash map[uint64]*kept[K, V]
	byKey  map[K]*kept[K, V]
	seed   maphash.Seed
	bits   uint64 // the significant bits of a hash: all, except in tests
	// newest and oldest are the ends of the list of values, in order of use.
	newest, oldest *kept[K, V]
}

// removed is stored in recorded after the removal of a value.
const removed = math.MaxUint64

// kept is a value with its key, and the count of uses at which its use was last recorded.
type kept[K comparable, V any] struct {
	key      K
	value    V
	recorded atomic.Uint64
	// newer and older are its neighbours; the cache's lock guards them.
	newer, older *kept[K, V]
}

var errNoRoom = errors.New("a cache needs room for one value or more")

// NewRecent returns an empty cache with room for size values. It fails for a size below 1.
func NewRecent[K comparable, V any](size int) (*Recent[K, V], error) {
	if size < 1 {
		return nil, errNoRoom
	}
	return &Recent[K, V]{size: size, every: int64(size / 16), byHash: map[uint64]*kept[K, V]{}, seed: maphash.MakeSeed(), bits: math.MaxUint64}, nil
}

// Get returns a pointer to the value of a key and counts a use; nil for an absent key. It makes the value the
// most recently used if many uses came since it last was.
func (r *Recent[K, V]) Get(key K) *V {
	r.uses.Add(1)
	return r.GetUncounted(key)
}

// GetUncounted returns a pointer to the value of a key without counting a use, for frequent repeated use; nil
// for an absent key. It makes the value the most recently used if many uses came since it last was.
func (r *Recent[K, V]) GetUncounted(key K) *V {
	if k := r.findPlace(key); k != nil && r.recordUse(k) {
		return &k.value
	}
	return nil
}

// Peek returns a pointer to the value of a key without counting or recording a use; nil for an absent key. The
// pointer stays valid after a removal.
func (r *Recent[K, V]) Peek(key K) *V {
	if k := r.findPlace(key); k != nil {
		return &k.value
	}
	return nil
}

// findPlace returns the list entry with a key's value; nil for an absent key. It counts no use, and takes r.mu
// for reading.
func (r *Recent[K, V]) findPlace(key K) *kept[K, V] {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, k := r.find(key)
	return k
}

// recordUse moves a value to the newest end of the list, if there were many uses since it was moved last. It
// returns false if the value was removed. It takes r.mu only to move it.
func (r *Recent[K, V]) recordUse(k *kept[K, V]) bool {
	now, recorded := r.uses.Load(), k.recorded.Load()
	if recorded == removed {
		return false
	}
	if int64(now-recorded) > r.every && k.recorded.CompareAndSwap(recorded, now) {
		r.mu.Lock()
		r.makeNewest(k)
		r.mu.Unlock()
	}
	return true
}

// Add adds a value and replaces the previous one of its key. It returns true if another value was removed for
// lack of room.
func (r *Recent[K, V]) Add(key K, value V) (evicted bool) {
	k := &kept[K, V]{key: key, value: value}
	k.recorded.Store(r.uses.Add(1))
	r.mu.Lock()
	defer r.mu.Unlock()
	hash, last := r.find(key)
	if last != nil {
		r.dropValue(last)
	}
	return r.insert(k, hash)
}

// GetOrAdd returns the value of a key and counts a use. For an absent key it adds one, filled by make under the
// lock; without room it removes the oldest values that are not held. make may keep the pointer to the cache's own
// copy of the key, and must not change it.
func (r *Recent[K, V]) GetOrAdd(key K, make func(*K, *V)) *V {
	if value := r.Get(key); value != nil {
		return value
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	hash, k := r.find(key)
	if k != nil { // made meanwhile
		r.makeNewest(k)
		return &k.value
	}
	k = &kept[K, V]{key: key}
	make(&k.key, &k.value)
	k.recorded.Store(r.uses.Load())
	r.insert(k, hash)
	return &k.value
}

// Remove removes the value of a key, and returns false if it was absent. Pointers to the value stay valid.
func (r *Recent[K, V]) Remove(key K) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, k := r.find(key)
	if k == nil {
		return false
	}
	r.dropValue(k)
	return true
}

// Keys returns the keys of all values, about the least recently used first: not every use is recorded.
func (r *Recent[K, V]) Keys() []K {
	r.mu.RLock()
	defer r.mu.RUnlock()
	keys := make([]K, 0, len(r.byHash)+len(r.byKey))
	for k := r.oldest; k != nil; k = k.newer {
		keys = append(keys, k.key)
	}
	return keys
}

// Len returns the number of values.
func (r *Recent[K, V]) Len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.byHash) + len(r.byKey)
}

// The functions below need the lock.

// find returns the hash of a key, by the cache's own seed, and the list entry with its value, or nil. r.mu must
// be held, for reading at least.
func (r *Recent[K, V]) find(key K) (hash uint64, k *kept[K, V]) {
	hash = maphash.Comparable(r.seed, key) & r.bits
	if k = r.byHash[hash]; k != nil && k.key == key {
		return hash, k
	}
	return hash, r.byKey[key] // nearly always empty
}

// mostHeld bounds the number of held values that Add skips.
const mostHeld = 16

// insert adds a value, whose key has that hash, as the newest. It removes the oldest values until there is room,
// and returns true if it removed one. It passes over held ones, and gives up after 16 of them; r.mu must be held.
func (r *Recent[K, V]) insert(k *kept[K, V], hash uint64) (evicted bool) {
	switch {
	case r.byHash[hash] == nil:
		r.byHash[hash] = k
	case r.byKey == nil:
		r.byKey = map[K]*kept[K, V]{k.key: k}
	default:
		r.byKey[k.key] = k
	}
	r.link(k)
	for passed := 0; len(r.byHash)+len(r.byKey) > r.size && r.oldest != k && passed < mostHeld; {
		oldest := r.oldest
		if r.Held != nil && r.Held(&oldest.value) {
			r.makeNewest(oldest)
			passed++
			continue
		}
		r.dropValue(oldest)
		evicted = true
	}
	return evicted
}

// makeNewest makes a value the newest in the list, unless it was removed meanwhile. r.mu must be held.
func (r *Recent[K, V]) makeNewest(k *kept[K, V]) {
	if k.recorded.Load() != removed {
		r.unlink(k)
		r.link(k)
	}
}

// dropValue removes a value and marks it as removed for callers that still hold it. r.mu must be held.
func (r *Recent[K, V]) dropValue(k *kept[K, V]) {
	k.recorded.Store(removed)
	if hash, _ := r.find(k.key); r.byHash[hash] == k {
		delete(r.byHash, hash)
	} else {
		delete(r.byKey, k.key)
	}
	r.unlink(k)
}

// link appends a value to the list as the newest. r.mu must be held.
func (r *Recent[K, V]) link(k *kept[K, V]) {
	if k.older = r.newest; k.older == nil {
		r.oldest = k
	} else {
		k.older.newer = k
	}
	r.newest = k
}

// unlink takes a value out of the list. It clears the value's neighbours, because a caller may keep the value
// longer than the cache does. The lock must be held.
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
