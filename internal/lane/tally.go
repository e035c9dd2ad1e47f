package lane

import (
	"sync"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// tally sums the uncertain amounts of a process, by limit, in millitokens. It is safe for concurrent use.
type tally struct {
	mu                        sync.Mutex
	doubted, dropped, pending []plan.Signed
	// onDrop is called with dropped amounts; it may be nil.
	onDrop func(amounts []plan.Signed)
}

// Doubt counts amounts with an unknown outcome, by their absolute values: they were perhaps charged or given
// back.
func (t *tally) Doubt(amounts []plan.Signed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.doubted = plan.Plus(t.doubted, plan.Absolute(amounts))
}

// AddPending counts amounts in flight, by their absolute values.
func (t *tally) AddPending(amounts []plan.Signed) { t.changePending(plan.Absolute(amounts)) }

// RemovePending takes amounts, by their absolute values, off the sum of the amounts in flight, because their
// outcome is known.
func (t *tally) RemovePending(amounts []plan.Signed) {
	t.changePending(plan.Negated(plan.Absolute(amounts)))
}

// changePending adds amounts, below 0 to take them off, to the sum of the amounts in flight.
func (t *tally) changePending(by []plan.Signed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = plan.Plus(t.pending, by)
}

// sumPending returns the absolute amounts in flight, in millitokens by limit.
func (t *tally) sumPending() []plan.Signed {
	t.mu.Lock()
	defer t.mu.Unlock()
	return withoutZeros(t.pending)
}

// Drop counts amounts that will never be written, by their absolute values, and reports them to onDrop.
func (t *tally) Drop(amounts []plan.Signed) {
	amounts = plan.Absolute(amounts)
	t.mu.Lock()
	t.dropped = plan.Plus(t.dropped, amounts)
	t.mu.Unlock()
	if t.onDrop != nil {
		t.onDrop(amounts)
	}
}

// Uncertain returns the sums of the amounts in doubt, and of the dropped ones, since the start of the process's
// limiter, in millitokens by limit. Callers must not change them.
func (t *tally) Uncertain() (doubted, dropped []plan.Signed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.doubted, t.dropped
}
