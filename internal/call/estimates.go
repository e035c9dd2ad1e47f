package call

import (
	"sync"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// A quota may be full of estimates: calls are charged the most that they can cost, and their settlement
// gives back the rest. A denial by such a quota has ByEstimates set. Nobody knows the open calls of other processes, so
// a quota that one of them used a moment ago counts as full of estimates, too.

// estimatesRetry is the wait before the next try after such a denial, in ms: the true time is not known.
const estimatesRetry = 1000

// estimates are the amounts charged to quotas for a call when it began.
type estimates struct {
	unsettled *lane.Unsettled
	of        []estimate
	once      sync.Once
}

type estimate struct {
	quota  lane.QuotaKey
	amount int64
	window bucket.WindowID
}

// addSigned adds the estimates, times sign, to those of the process's open calls: sign is 1 to add them and -1
// to take them off.
func (e *estimates) addSigned(sign int64) {
	for _, one := range e.of {
		e.unsettled.AddEstimate(one.quota, sign*one.amount, one.window)
	}
}

// removeAll removes the estimates once, when the call has ended.
func (e *estimates) removeAll() { e.once.Do(func() { e.addSigned(-1) }) }

// finishDenial gives balances that may fit without open calls' estimates ByEstimates and a wait of a second,
// and marks denials in buckets with alerts. Of an Acquire (at is nil) it leaves a place in the line of waiters
// that have part in the denial. It does nothing if RetryAfter is Never.
func finishDenial(lanes *lane.Registry, at *Position, e *Denied) {
	if e.RetryAfter == Never {
		return
	}
	marked, behind := false, false
	for i := range e.Balances {
		b := &e.Balances[i]
		behind = behind || b.Behind
		if b.mayAlertDenial() {
			beside := lane.BesideOf(b.Lane)
			beside.MarkDenial(b.Limit, b.Rate.WindowAt(lanes.SureMS()), false)
		}
		if !b.Exceeded || !b.Rate.IsQuota() || b.Wait <= estimatesRetry {
			continue
		}
		open := lanes.Unsettled.SumEstimates(lane.QuotaKey{Entity: b.Lane.Entity, Resource: b.Lane.Resource, Limit: b.Limit}, b.Rate.Windows().At(lanes.SureMS()))
		if b.Asked <= b.Level+open || b.Lane.Memory.WatchOthers(lanes.NowMS()) {
			b.ByEstimates, b.Wait, marked = true, estimatesRetry, true
		}
	}
	if marked {
		e.RetryAfter = Duration(e.longest().Wait)
	}
	if behind && at == nil {
		e.leavePlace(lanes)
	}
}

// mayAlertDenial reports whether the bucket itself denies by a quota that may have an alert for denials. It is
// false if waiters or the process's share are the reason.
func (b *Balance) mayAlertDenial() bool {
	return b.Config.Origin != nil && b.Config.Origin.Alerts != nil && b.Exceeded && !b.Behind && !b.Degraded && b.Rate.IsQuota()
}

// leavePlace leaves a place with the requested amounts for a denied Acquire, behind all waiters in the line of
// the bucket with the longest wait. It does nothing if no waiter stands there.
func (e *Denied) leavePlace(lanes *lane.Registry) {
	longest := e.longest()
	if longest == nil {
		return
	}
	line := longest.Lane.Waiters(e.batch)
	if line == nil {
		return
	}
	var amounts []plan.Signed
	for i := range e.Balances {
		if b := &e.Balances[i]; b.Lane == longest.Lane && b.Asked > 0 {
			amounts = append(amounts, plan.Signed{Name: b.Limit, Amount: b.Asked})
		}
	}
	line.LeavePlace(lanes.Ranks.Add(1), amounts)
}
