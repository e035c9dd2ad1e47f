package dynalimit

import (
	"errors"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/calendar"
	"github.com/dynalimit/dynalimit/internal/lane"
)

// A quota may be full of estimates: calls are charged the most that they can cost, and their settlement
// gives back the rest. A denial by such a quota has Held set.

// heldRetry is the wait before the next try after such a denial: the true time is not known.
const heldRetry = time.Second

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

// noteUnsettled records the amounts charged to quotas for a new call. It returns nil if the call
// charges no quota.
func (d *desk) noteUnsettled(levels []level) *estimates {
	var of []estimate
	for i := range levels {
		lv := &levels[i]
		for k := range lv.holdings {
			if h := &lv.holdings[k]; h.Window != 0 && h.Window.IsQuota() {
				of = append(of, estimate{lane.QuotaKey{Entity: lv.lane.Entity, Resource: lv.lane.Resource, Limit: h.Name}, h.Held, h.Window})
			}
		}
	}
	if of == nil {
		return nil
	}
	e := &estimates{unsettled: &d.lanes.Unsettled, of: of}
	e.note(1)
	return e
}

func (e *estimates) note(sign int64) {
	for _, one := range e.of {
		e.unsettled.Note(one.quota, sign*one.amount, one.window)
	}
}

// end removes the estimates once, when the call has ended.
func (e *estimates) end() { e.once.Do(func() { e.note(-1) }) }

// markHeld sets Held in the statuses of a denial where the request would fit without the estimates of
// this process's open calls.
func (d *desk) markHeld(err error) {
	e, denied := errors.AsType[*LimitExceededError](err)
	if !denied || e.RetryAfter == Never {
		return
	}
	marked := false
	for i := range e.Statuses {
		s := &e.Statuses[i]
		if !s.Exceeded || !s.Limit.IsQuota() || s.RetryAfter <= heldRetry {
			continue
		}
		windows, err := calendar.WindowsOf(s.Limit.Window, s.Limit.Zone)
		if err != nil {
			continue
		}
		open := d.lanes.Unsettled.Of(lane.QuotaKey{Entity: s.EntityID, Resource: s.Resource, Limit: s.Limit.Name}, windows.At(d.lanes.SureMS()))
		if s.Requested <= s.Remaining+open/milli {
			s.ByEstimates, s.RetryAfter, marked = true, heldRetry, true
		}
	}
	if marked {
		_ = e.concluded()
	}
}
