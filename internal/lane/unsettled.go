package lane

import "sync"

// unsettled is what quotas are charged for calls of this process that have not been settled: a
// call is charged an estimate, and what it does not use comes back. The zero value is ready. It
// decides nothing, but what a denial says of when to try again.
type unsettled struct {
	mu      sync.Mutex
	charged map[quotaKey]inWindow
}

type quotaKey struct{ entity, resource, limit string }

// inWindow is an amount in a window of a quota.
type inWindow struct{ amount, window int64 }

// NoteUnsettled notes that a call was charged an amount in a window of a quota, or, below 0, that
// it has ended. What was charged in a window that has ended is forgotten.
func (l *Lane) NoteUnsettled(limit string, amount, window int64) {
	u, key := &l.owner.unsettled, quotaKey{l.Entity, l.Resource, limit}
	u.mu.Lock()
	defer u.mu.Unlock()
	was := u.charged[key]
	switch {
	case window < was.window:
		return
	case window > was.window:
		was = inWindow{0, window}
	}
	if was.amount += amount; was.amount <= 0 {
		delete(u.charged, key)
		return
	}
	if u.charged == nil {
		u.charged = map[quotaKey]inWindow{}
	}
	u.charged[key] = was
}

// Unsettled is what a quota is charged in a window for calls of this process that have not been
// settled, in millitokens.
func (l *Lane) Unsettled(limit string, window int64) int64 {
	u := &l.owner.unsettled
	u.mu.Lock()
	defer u.mu.Unlock()
	if c := u.charged[quotaKey{l.Entity, l.Resource, limit}]; c.window == window {
		return c.amount
	}
	return 0
}
