package cache

// Evict removes the values with matching keys and drops their reads in flight. With MaxStale, an evicted
// value still serves if its next read gets no answer.
func (c *Loading[K, V]) Evict(match func(K) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropFills(match)
	for _, key := range c.entries.Keys() {
		if match(key) {
			c.forget(key, c.entries.Peek(key))
		}
	}
}

// EvictValues removes the matching values of the matching keys; with MaxStale they still serve reads without an
// answer. It also drops the reads in flight of all matching keys, because their values are not known yet.
func (c *Loading[K, V]) EvictValues(keys func(K) bool, values func(V) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for f := range c.fills {
		if e := c.entries.Peek(f.key); e != nil && keys(f.key) {
			e.refreshing = false // another caller has to read the remaining value again
		}
	}
	c.dropFills(keys)
	for _, key := range c.entries.Keys() {
		if e := c.entries.Peek(key); e != nil && keys(key) && values(e.value) {
			c.forget(key, e)
		}
	}
}

// Drop removes the value of one key and drops its reads in flight. With MaxStale the value still serves if its
// next read gets no answer. It does nothing if the value is evicted already.
func (c *Loading[K, V]) Drop(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries.Peek(key); e != nil && e.evicted {
		return
	}
	c.dropFills(func(k K) bool { return k == key })
	c.forget(key, c.entries.Peek(key))
}

// forget evicts the value of a key's entry and counts that; with MaxStale it stays for reads without an answer. It
// does nothing if e is nil or evicted. c.mu must be held.
func (c *Loading[K, V]) forget(key K, e *entry[V]) {
	if e == nil {
		return
	}
	if e.refreshing = false; e.evicted { // its read is dropped
		return
	}
	c.stats.Evictions++
	if c.MaxStale == 0 {
		c.entries.Remove(key)
		return
	}
	c.entries.Add(key, entry[V]{value: e.value, read: e.read, negative: e.negative, evicted: true})
}

// dropFills drops the reads in flight of the matching keys: their values are not cached, and later callers
// start new reads. c.mu must be held.
func (c *Loading[K, V]) dropFills(match func(K) bool) {
	for f := range c.fills {
		if match(f.key) {
			f.dropped = true
			c.running.Forget(f.key.String())
		}
	}
}
