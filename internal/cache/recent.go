// Package cache keeps what was used recently, for callers who only rarely change
// what is kept.
package cache

import (
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Recent keeps the most recently used values, up to a size. It is safe for
// concurrent use, and made for values that are read far more often than added: a
// Get shares its lock. To note every use would need the lock alone, and callers who
// come together would stand in line for it, so a use is noted only if there were
// many since the last that was: a sixteenth of the size. A cache of fewer than 16
// values is exact.
type Recent[K comparable, V any] struct {
	every int64
	uses  atomic.Uint64

	mu   sync.RWMutex
	list *simplelru.LRU[K, *kept[V]]
}

// kept is a value, and at which use its place was last noted.
type kept[V any] struct {
	value V
	noted atomic.Uint64
}

// NewRecent returns an empty cache for a number of values. It fails for a size below
// 1.
func NewRecent[K comparable, V any](size int) (*Recent[K, V], error) {
	list, err := simplelru.NewLRU[K, *kept[V]](size, nil)
	if err != nil {
		return nil, err
	}
	return &Recent[K, V]{every: int64(size / 16), list: list}, nil
}

// Get returns the value of a key, and that it was used now.
func (r *Recent[K, V]) Get(key K) (V, bool) {
	now := r.uses.Add(1)
	r.mu.RLock()
	k, ok := r.list.Peek(key)
	r.mu.RUnlock()
	if !ok {
		var none V
		return none, false
	}
	if noted := k.noted.Load(); int64(now-noted) > r.every && k.noted.CompareAndSwap(noted, now) {
		r.mu.Lock()
		r.list.Get(key)
		r.mu.Unlock()
	}
	return k.value, true
}

// Peek returns the value of a key without using it.
func (r *Recent[K, V]) Peek(key K) (V, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if k, ok := r.list.Peek(key); ok {
		return k.value, true
	}
	var none V
	return none, false
}

// Add keeps a value, in the place of the key's last; evicted says that another was
// forgotten for it.
func (r *Recent[K, V]) Add(key K, value V) (evicted bool) {
	k := &kept[V]{value: value}
	k.noted.Store(r.uses.Add(1))
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list.Add(key, k)
}

// GetOrAdd returns the value of a key, which is made if there is none.
func (r *Recent[K, V]) GetOrAdd(key K, make func() V) V {
	if value, ok := r.Get(key); ok {
		return value
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if k, ok := r.list.Get(key); ok { // made meanwhile
		return k.value
	}
	k := &kept[V]{value: make()}
	k.noted.Store(r.uses.Load())
	r.list.Add(key, k)
	return k.value
}

// Remove forgets a key; false if it was not there.
func (r *Recent[K, V]) Remove(key K) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list.Remove(key)
}

// Keys are the keys of what is kept, the least recently used first.
func (r *Recent[K, V]) Keys() []K {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.list.Keys()
}

// Len is how many values are kept.
func (r *Recent[K, V]) Len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.list.Len()
}
