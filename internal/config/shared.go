package config

import (
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// mostShared bounds the number of shared items in memory.
const mostShared = 1000

// sharedItems caches the items of sources that many entities share: of resources, the system and plans. It
// makes it cheap to read an expired configuration that has not changed, which is then as old as its oldest
// item. A configuration that seems to have changed is read whole, because a mixture of old and new items may
// never have been in force. It is safe for concurrent use.
type sharedItems struct {
	// most is the age up to which an item is used. It is short beside the TTL, because it shortens the
	// time for which a configuration made from the item is fresh.
	most time.Duration

	mu      sync.Mutex
	known   map[schema.Key]sharedItem
	changes int // the number of evictions
}

// sharedItem is a stored item, nil if it does not exist, and the stamps of its read.
type sharedItem struct {
	item schema.Item
	// read is the start of the read by Clock.Source; readAt and tick are those of storedItems.
	read         time.Time
	readAt, tick int64
}

// takeRecent returns the cached items of keys that are younger than s.most; an absent item is nil. The result
// oldest has the times of the oldest of their reads, or is now, the present times, without any item.
func (s *sharedItems) takeRecent(keys []schema.Key, now sharedItem) (found map[schema.Key]schema.Item, oldest sharedItem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, oldest = map[schema.Key]schema.Item{}, now
	for _, key := range keys {
		one, ok := s.known[key]
		if age := now.read.Sub(one.read); !ok || age < 0 || age >= s.most {
			continue
		}
		found[key] = one.item
		if one.tick < oldest.tick {
			oldest = one
		}
	}
	return found, oldest
}

// countEvictions returns the number of calls of dropAll, with which storeRead recognises a read that began
// before one.
func (s *sharedItems) countEvictions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes
}

// storeRead caches the items of keys that were read at stamps, unless a newer read of the item is cached. It
// caches nothing if items were evicted since evictions, the count before the read. Above 1,000 items it first
// drops all others.
func (s *sharedItems) storeRead(keys []schema.Key, found map[schema.Key]schema.Item, stamps sharedItem, evictions int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes != evictions {
		return
	}
	if s.known == nil || len(s.known)+len(keys) > mostShared {
		s.known = map[schema.Key]sharedItem{}
	}
	for _, key := range keys {
		if last, ok := s.known[key]; !ok || last.tick < stamps.tick {
			stamps.item = found[key]
			s.known[key] = stamps
		}
	}
}

// dropAll removes all shared items. storeRead will not cache the results of reads that began before.
func (s *sharedItems) dropAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = nil
	s.changes++
}
