package lane

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Paced describes a lane that leaves an interval between its writes.
type Paced struct {
	// Entity and Resource name the bucket.
	Entity, Resource string
	// Reads means that the last throttled request was a read; otherwise it was a write.
	Reads bool
	// Interval is the least time between the starts of two writes, 0 for none.
	Interval time.Duration
	// Throttled is when a request was last throttled; zero if the lane is not paced any
	// more.
	Throttled time.Time
}

// mostPaced bounds how many paced lanes a process lists.
const mostPaced = 1000

// paced holds the lanes that are paced, at most mostPaced of them.
type paced struct {
	mu    sync.Mutex
	lanes map[*Lane]struct{}
}

func (p *paced) add(l *Lane) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lanes == nil {
		p.lanes = map[*Lane]struct{}{}
	}
	if len(p.lanes) < mostPaced {
		p.lanes[l] = struct{}{}
	}
}

func (p *paced) remove(l *Lane) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.lanes, l)
}

func (p *paced) all() []*Lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]*Lane, 0, len(p.lanes))
	for l := range p.lanes {
		list = append(list, l)
	}
	return list
}

// Hottest lists paced buckets, longest interval first, at most the given number.
func (s *Registry) Hottest(most int) []Paced {
	var list []Paced
	for _, l := range s.paced.all() {
		if p := l.pacer.Load(); p != nil && !p.over() {
			list = append(list, l.paced(p))
		} else {
			s.paced.remove(l) // not used since; it comes back when it is throttled again
		}
	}
	slices.SortFunc(list, func(a, b Paced) int {
		return cmp.Or(cmp.Compare(b.Interval, a.Interval), cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Resource, b.Resource))
	})
	return list[:min(most, len(list))]
}
