package lane

import (
	"sync"

	"github.com/dynalimit/dynalimit/internal/bucket"
)

// Unsettled sums the estimates that quotas are charged for open calls of this process: a call is
// charged an estimate, and its settlement gives back the rest. It only serves the retry time of
// denials. The zero value is ready.
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

// AddEstimate adds the estimate of a call, in millitokens, in a window of a quota. A negative amount removes it
// when the call has ended. A later window replaces the sum of an earlier one, and amounts of an earlier window
// are ignored.
func (u *Unsettled) AddEstimate(key QuotaKey, amount int64, window bucket.WindowID) {
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

// SumEstimates returns the estimates of open calls charged to a quota, in millitokens. It is 0 unless the last
// charged window has the given ordinal.
func (u *Unsettled) SumEstimates(key QuotaKey, ordinal int64) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c := u.charged[key]; c.window.Ordinal() == ordinal {
		return c.amount
	}
	return 0
}

// othersMayGiveBack is the time in ms after its use of a bucket for which another process may soon give tokens back.
const othersMayGiveBack = 30_000

// WatchOthers reports whether other processes have used the bucket within 30 s before now, in Unix ms. A process that
// has not written to the bucket counts its use from the first question on.
func (m *Memory) WatchOthers(now int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sight.shared == 0 && m.learnt.own == (tryID{}) {
		m.sight.shared = now
	}
	return m.sight.shared != 0 && now-m.sight.shared < othersMayGiveBack
}
