package shards

import (
	"cmp"
	"hash/fnv"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// ID names a shard.
type ID = schema.StreamShard

// Shard is a shard of a stream.
type Shard struct {
	ID
	// Parent is the id of the shard that it follows; "" for none.
	Parent string
}

// Known are the shards that are listed and, without a parent, those that somebody began to
// read, in the order of their streams. One of these may be missing in a list that was made
// while shards changed. One that is gone may have records that are in hand of its reader.
func Known(listed []Shard, begun iter.Seq[ID]) []Shard {
	all := slices.Clone(listed)
	there := make(map[ID]bool, len(listed))
	for _, s := range listed {
		there[s.ID] = true
	}
	for id := range begun {
		if !there[id] {
			there[id] = true
			all = append(all, Shard{ID: id})
		}
	}
	slices.SortStableFunc(all, func(a, b Shard) int { return strings.Compare(a.Stream, b.Stream) })
	return all
}

// Ready are those of the known shards that may be read now.
func Ready(all []Shard, finished func(ID) bool) []Shard {
	known := make(map[ID]bool, len(all))
	for _, s := range all {
		known[s.ID] = true
	}
	behind := func(parent ID) bool {
		return parent.Shard == "" || finished(parent) || !known[parent]
	}
	var ready []Shard
	stream := ""
	for _, s := range all {
		if stream != "" && stream != s.Stream {
			break // an earlier stream is not at its end
		}
		if finished(s.ID) {
			continue
		}
		stream = s.Stream
		if behind(ID{Stream: s.Stream, Shard: s.Parent}) {
			ready = append(ready, s)
		}
	}
	return ready
}

// Lease is who reads a shard, or is there.
type Lease struct {
	// Holder is unique.
	Holder string
	// Free is when somebody else may take it.
	Free time.Time
}

// Sight is what one follower of a stream sees.
type Sight struct {
	// Me is who looks.
	Me string
	// Ready are the shards that may be read.
	Ready []Shard
	// Leases are those of shards, Members who is there.
	Leases  map[ID]Lease
	Members []Lease
	// Mine are the shards that this follower reads; true for those that it keeps.
	Mine map[ID]bool
	// Idle is since when each shard has been without a reader.
	Idle map[ID]time.Time
	// Patience is for how long a shard that is another's share is left alone.
	Patience time.Duration
}

// Plan is what to do.
type Plan struct {
	// Take are the shards to begin, Leave those to leave to others.
	Take, Leave []ID
	// Next is when a lease of somebody else ends unless it is renewed; the zero time if
	// there is none.
	Next time.Time
}

// Plan decides what to do at a time.
func (s *Sight) Plan(now time.Time) Plan {
	var p Plan
	loads := s.loads(now)
	share := (len(s.Ready) + len(loads) - 1) / len(loads)
	free, overdue := s.free(now)
	if room := share - len(s.Mine); room > 0 {
		p.Take = free[:min(room, len(free))]
	}
	for _, id := range overdue {
		if !slices.Contains(p.Take, id) {
			p.Take = append(p.Take, id)
		}
	}
	if len(p.Take) == 0 {
		p.Leave = s.excess(share, loads)
	}
	p.Next = s.next(now)
	return p
}

// loads are how many shards each follower that is there reads.
func (s *Sight) loads(now time.Time) map[string]int {
	loads := map[string]int{s.Me: len(s.Mine)}
	for _, m := range s.Members {
		if m.Holder != s.Me && now.Before(m.Free) {
			loads[m.Holder] = 0
		}
	}
	for _, shard := range s.Ready {
		if l := s.Leases[shard.ID]; l.Holder != s.Me && now.Before(l.Free) {
			loads[l.Holder]++
		}
	}
	return loads
}

// free are the shards without a reader, and those of them that have been so for long. Each
// follower has an order of its own, so that two do not try the same first.
func (s *Sight) free(now time.Time) (free, overdue []ID) {
	for _, shard := range s.Ready {
		_, mine := s.Mine[shard.ID]
		if mine || now.Before(s.Leases[shard.ID].Free) {
			continue
		}
		free = append(free, shard.ID)
		if since := s.Idle[shard.ID]; !since.IsZero() && now.Sub(since) > s.Patience {
			overdue = append(overdue, shard.ID)
		}
	}
	slices.SortFunc(free, func(a, b ID) int {
		return cmp.Or(cmp.Compare(s.rank(a), s.rank(b)), strings.Compare(a.Shard, b.Shard))
	})
	return free, overdue
}

func (s *Sight) rank(id ID) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.Me + "#" + id.Stream + "#" + id.Shard))
	return h.Sum64()
}

// excess are the shards to leave: those above the share, if somebody has two fewer.
func (s *Sight) excess(share int, loads map[string]int) []ID {
	var kept []ID
	for id, keep := range s.Mine {
		if keep {
			kept = append(kept, id)
		}
	}
	if len(kept) <= share || slices.Min(slices.Collect(maps.Values(loads))) > len(kept)-2 {
		return nil
	}
	slices.SortFunc(kept, func(a, b ID) int { return strings.Compare(a.Shard, b.Shard) })
	return kept[share:]
}

// next is when the first lease of another ends.
func (s *Sight) next(now time.Time) (next time.Time) {
	earlier := func(l Lease) {
		if l.Holder != s.Me && now.Before(l.Free) && (next.IsZero() || l.Free.Before(next)) {
			next = l.Free
		}
	}
	for _, shard := range s.Ready {
		earlier(s.Leases[shard.ID])
	}
	for _, m := range s.Members {
		earlier(m)
	}
	return next
}
