package lane

import (
	"sync"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// tally sums the uncertain amounts, by limit, in millitokens.
type tally struct {
	mu                        sync.Mutex
	doubted, dropped, pending []plan.Signed
	// onDrop is called with dropped amounts; it may be nil.
	onDrop func(amounts []plan.Signed)
}

// doubt counts amounts that were perhaps charged or given back.
func (t *tally) doubt(amounts []plan.Signed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.doubted = plan.Plus(t.doubted, plan.Absolute(amounts))
}

// await counts amounts in flight; arrived takes them off again.
func (t *tally) await(amounts []plan.Signed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = plan.Plus(t.pending, amounts)
}

func (t *tally) arrived(amounts []plan.Signed) { t.await(plan.Negated(amounts)) }

// underWay returns the amounts in flight.
func (t *tally) underWay() []plan.Signed {
	t.mu.Lock()
	defer t.mu.Unlock()
	return withoutZeros(t.pending)
}

// drop counts amounts that will never be charged.
func (t *tally) drop(amounts []plan.Signed) {
	amounts = plan.Absolute(amounts)
	t.mu.Lock()
	t.dropped = plan.Plus(t.dropped, amounts)
	t.mu.Unlock()
	if t.onDrop != nil {
		t.onDrop(amounts)
	}
}

// amounts returns both counts.
func (t *tally) amounts() (doubted, dropped []plan.Signed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.doubted, t.dropped
}
