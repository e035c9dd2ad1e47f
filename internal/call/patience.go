package call

import (
	"context"
	"time"
)

// patience is the time that a call waits for the store. It begins with the first request.
type patience struct {
	// most is a call's whole time for the store, Options.Timeout.
	most  time.Duration
	began time.Time
	// until is the end of the call's time for the store. reserve is earlier than the caller's own
	// deadline, so that the policy can still decide. Either may be zero.
	until, reserve time.Time
}

const (
	// mostReserve bounds the time before a caller's deadline that is left to the policy. Below the
	// bound it is a tenth of the time.
	mostReserve = 50 * time.Millisecond
	// leastSilence is the least silence of a bucket before a caller's own deadline lets the policy
	// admit. Otherwise a short deadline would be a way around a limit.
	leastSilence = 200 * time.Millisecond
)

// startClock starts a call's time for the store, unless it has started.
func (p *patience) startClock(ctx context.Context) {
	if !p.began.IsZero() {
		return
	}
	p.began = time.Now()
	p.until = p.began.Add(p.most)
	if deadline, ok := ctx.Deadline(); ok {
		if left := deadline.Sub(p.began); left < p.most+mostReserve {
			p.reserve = deadline.Add(-min(left/10, mostReserve))
		}
	}
}

// bound returns the instant at which a call stops waiting for a request that no lane sends. It is
// before the caller's own deadline if the store has been silent long enough by then.
func (p *patience) bound() time.Time {
	if p.reserve.Before(p.until) && p.reserve.Sub(p.began) >= leastSilence {
		return p.reserve
	}
	return p.until
}

// next returns the next instant at which a waiting call must decide something.
func (p *patience) next() time.Time {
	if !p.reserve.IsZero() && p.reserve.Before(p.until) {
		return p.reserve
	}
	return p.until
}
