package cache

import (
	"context"
	"hash/maphash"
	"time"
)

// Ready is what Get returns without waiting: a fresh value, which is read again with load,
// beside the caller, when it is about to end; else the zero V.
func (c *Loading[K, V]) Ready(ctx context.Context, key K, load Load[V]) (ready V) {
	v := c.Fresh(key)
	if v != ready && c.Ahead > 0 && c.ends(key) {
		c.running.DoChan(key.String(), c.fill(context.WithoutCancel(ctx), key, load, new(bool)))
	}
	return v
}

// ends reports whether a fresh value is to be read ahead: once, and not while the store is
// known not to answer.
func (c *Loading[K, V]) ends(key K) bool {
	now, e := c.Now(), c.entries.Peek(key)
	if e == nil || e.readWithin(now, c.TTL-c.Ahead-c.Spread) {
		return false
	}
	sooner := time.Duration(maphash.Comparable(c.entries.seed, key) % uint64(c.Spread+1)) //nolint:gosec // neither is negative
	if e.readWithin(now, c.TTL-c.Ahead-sooner) || c.outage() != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e = c.entries.Peek(key); e == nil || e.refreshing || e.readWithin(now, c.TTL-c.Ahead-sooner) || e.retry != nil && now.Before(*e.retry) {
		return false
	}
	e.refreshing = true
	return true
}
