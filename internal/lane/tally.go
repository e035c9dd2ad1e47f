package lane

import (
	"sync"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// tally counts the amounts that are not certain, by limit, in millitokens.
type tally struct {
	mu               sync.Mutex
	doubted, dropped []plan.Signed
}

// doubt counts amounts that were perhaps charged or given back.
func (t *tally) doubt(amounts []plan.Signed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.doubted = plan.Plus(t.doubted, plan.Absolute(amounts))
}

// drop counts amounts that will never be charged.
func (t *tally) drop(amounts []plan.Signed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropped = plan.Plus(t.dropped, plan.Absolute(amounts))
}

// amounts returns both counts.
func (t *tally) amounts() (doubted, dropped []plan.Signed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.doubted, t.dropped
}
