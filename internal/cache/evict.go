package cache

// Evict forgets the values whose key matches, and the reads of them under way. With
// MaxStale, a value is used on if its next read brings no answer.
func (c *Loading[K, V]) Evict(match func(K) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropFills(match)
	for _, key := range c.entries.Keys() {
		if match(key) {
			c.forget(c.entries.Peek(key))
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
		if e := c.entries.Peek(key); e != nil && keys(key) && values(e.value) {
			c.forget(e)
		}
	}
}

// Drop is Evict of one key, without looking at the others. It does nothing for a value
// that is evicted: otherwise who drops it with every use would drop every read of it.
func (c *Loading[K, V]) Drop(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries.Peek(key); e != nil && e.evicted {
		return
	}
	c.dropFills(func(k K) bool { return k == key })
	c.forget(c.entries.Peek(key))
}

// forget evicts a value; nil is none. c.mu must be held.
func (c *Loading[K, V]) forget(e *entry[K, V]) {
	if e == nil {
		return
	}
	if e.refreshing = false; e.evicted { // its read is dropped
		return
	}
	c.stats.Evictions++
	if c.MaxStale == 0 {
		c.entries.Remove(e.key)
		return
	}
	c.entries.Add(entry[K, V]{key: e.key, value: e.value, read: e.read, negative: e.negative, evicted: true})
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
