package cache

import "time"

// Held pins a fresh value so that repeated reads need no lookup.
type Held[K Key, V comparable] struct {
	// Value is the value.
	Value V
	place *kept[K, entry[K, V]]
}

// Hold returns the value that Fresh would return, for later calls of Still. It counts nothing. ok is false if
// the value is not fresh.
func (c *Loading[K, V]) Hold(key K) (held Held[K, V], ok bool) {
	k := c.entries.place(key)
	if k == nil || !k.value.serves(c.Now(), c.TTL) {
		return held, false
	}
	return Held[K, V]{k.value.value, k}, true
}

// Still reports whether Fresh would return the value at now, a time of Options.Now. It counts as Fresh does.
func (c *Loading[K, V]) Still(held *Held[K, V], now time.Time) bool {
	e := &held.place.value
	if !e.serves(now, c.TTL) || !c.entries.recordUse(held.place) {
		return false
	}
	c.hits.Add(1)
	if e.negative {
		c.negativeHits.Add(1)
	}
	return true
}
