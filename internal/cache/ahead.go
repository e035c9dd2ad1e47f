package cache

import (
	"context"
	"hash/maphash"
	"time"
)

// Ready returns the value that Get would return without waiting: a fresh value, which counts as a hit, or else
// the zero V. If a fresh value is near its end, it starts a background read with load, which replaces it.
func (c *Loading[K, V]) Ready(ctx context.Context, key K, load Load[V]) (ready V) {
	v := c.Fresh(key)
	if v != ready && c.Ahead > 0 && c.claimReadAhead(key) {
		c.running.DoChan(key.String(), func() (any, error) { return c.readValue(context.WithoutCancel(ctx), key, load, new(bool)) })
	}
	return v
}

// claimReadAhead reports whether the caller must read a value ahead: it is near its end, no caller reads it,
// and no outage is known. It then marks the value as being read. It is false during the pause after a failed
// read.
func (c *Loading[K, V]) claimReadAhead(key K) bool {
	now, e := c.Now(), c.entries.Peek(key)
	if e == nil || e.evicted || e.servesWithin(now, c.TTL-c.Ahead-c.Spread) {
		return false
	}
	sooner := time.Duration(maphash.Comparable(c.seed, key) % uint64(c.Spread+1)) //nolint:gosec // neither is negative
	if e.servesWithin(now, c.TTL-c.Ahead-sooner) || c.Away() != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e = c.entries.Peek(key); e == nil || e.evicted || e.refreshing || e.servesWithin(now, c.TTL-c.Ahead-sooner) || e.retry != nil && now.Before(*e.retry) {
		return false
	}
	e.refreshing = true
	return true
}
