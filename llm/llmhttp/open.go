package llmhttp

import (
	"maps"
	"slices"
	"sync"
)

// reading is an answer that is being read, or that its reader has left.
type reading interface {
	// settleIfLeft settles an answer after the end of its request's context.
	settleIfLeft()
}

// open are the answers that are being read.
type open struct {
	mu  sync.Mutex
	all map[reading]struct{}
}

// addReading stores an answer until removeReading, so that Transport.Close can settle it.
func (o *open) addReading(r reading) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = map[reading]struct{}{}
	}
	o.all[r] = struct{}{}
}

// removeReading forgets an answer that has ended.
func (o *open) removeReading(r reading) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, r)
}

// settleEnded settles the open answers of requests with an ended context, in case their own goroutines have not
// yet. Answers that are still read stay open.
func (o *open) settleEnded() {
	o.mu.Lock()
	all := slices.Collect(maps.Keys(o.all))
	o.mu.Unlock()
	for _, r := range all {
		r.settleIfLeft()
	}
}
