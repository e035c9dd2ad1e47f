package llmhttp

import "sync"

// open are the answers that are being read.
type open struct {
	mu  sync.Mutex
	all map[*answer]struct{}
}

func (o *open) add(b *answer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = map[*answer]struct{}{}
	}
	o.all[b] = struct{}{}
}

func (o *open) remove(b *answer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, b)
}

// settle settles the answers whose requests have ended: a goroutine may be on its way to.
func (o *open) settle() {
	o.mu.Lock()
	var left []*answer
	for b := range o.all {
		if b.ctx.Err() != nil {
			left = append(left, b)
		}
	}
	o.mu.Unlock()
	for _, b := range left {
		b.end(b.ctx.Err())
	}
}
