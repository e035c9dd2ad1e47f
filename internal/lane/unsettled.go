package lane

import (
	"sync"

	"github.com/dynalimit/dynalimit/internal/bucket"
)

// Unsettled is what quotas are charged for calls of this process that have not been settled: a
// call is charged an estimate, and what it does not use comes back. The zero value is ready. It
// decides nothing, but what a denial says of when to try again.
type Unsettled struct {
	mu      sync.Mutex
	charged map[QuotaKey]inWindow
}

// QuotaKey names a quota of a bucket.
type QuotaKey struct{ Entity, Resource, Limit string }

// inWindow is an amount in a window of a quota.
type inWindow struct {
	amount int64
	window bucket.WindowID
}

// Note notes that a call was charged an amount in a window of a quota, or, below 0, that it has
// ended. What was charged in a window that has ended is forgotten.
func (u *Unsettled) Note(key QuotaKey, amount int64, window bucket.WindowID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	was := u.charged[key]
	switch {
	case window < was.window:
		return
	case window > was.window:
		was = inWindow{window: window}
	}
	if was.amount += amount; was.amount <= 0 {
		delete(u.charged, key)
		return
	}
	if u.charged == nil {
		u.charged = map[QuotaKey]inWindow{}
	}
	u.charged[key] = was
}

// Of is what a quota is charged for calls that have not been settled, in millitokens, in the window
// of an ordinal: of its latest life.
func (u *Unsettled) Of(key QuotaKey, ordinal int64) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c := u.charged[key]; c.window.Ordinal() == ordinal {
		return c.amount
	}
	return 0
}
