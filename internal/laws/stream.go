package laws

import (
	"sync"
	"time"

	"github.com/dynalimit/dynalimit"
)

// streamCalls makes calls at a rate that starts prefetching, with small random amounts, and waits for them; it
// does nothing without a limit to name. Sometimes it then lets the prefetched tokens age, takes large amounts,
// and goes on.
func (w *worker) streamCalls(m *member) {
	entity := w.h.entities[w.r.IntN(len(w.h.entities))]
	amounts, bursts := dynalimit.Amounts{}, dynalimit.Amounts{}
	w.h.mu.Lock()
	for _, l := range w.h.config[entity] {
		if w.r.IntN(3) > 0 {
			amounts[l.Name], bursts[l.Name] = 1+w.r.Int64N(1+l.Burst/200), l.Burst
		}
	}
	w.h.mu.Unlock()
	if len(amounts) == 0 {
		return
	}
	pause := time.Duration(5+w.r.Int64N(60)) * time.Millisecond
	w.acquireAtRate(m, entity, amounts, 10+w.r.IntN(30), pause)
	if w.r.IntN(2) == 0 {
		Elapse(time.Duration(w.r.Int64N(4 * int64(w.h.horizon))))
		for _, part := range []int64{4, 20, 100} {
			some := dynalimit.Amounts{}
			for name, burst := range bursts {
				some[name] = max(1, burst/part)
			}
			w.acquireAtRate(m, entity, some, 6, time.Millisecond)
		}
		w.acquireAtRate(m, entity, amounts, w.r.IntN(30), time.Millisecond)
	}
}

// acquireAtRate starts the given number of calls of Acquire, one every pause, and waits for all of them. It
// records grants, and errors that must not occur.
func (w *worker) acquireAtRate(m *member, entity string, amounts dynalimit.Amounts, calls int, pause time.Duration) {
	var group sync.WaitGroup
	for range calls {
		ctx, own := withStake(w.h.ctx)
		group.Go(func() {
			lease, err := m.limiter.Acquire(ctx, entity, resource, amounts)
			if err != nil {
				w.h.checkError(m, err)
				return
			}
			w.h.recordGrant(&grant{Lease: lease, owner: m, stake: own, entity: entity}, amounts)
		})
		Elapse(pause)
	}
	group.Wait()
}
