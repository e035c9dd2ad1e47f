package dynalimit

import (
	"context"
	"time"
)

// patience is the time that a call waits for the store. It begins with the first request.
type patience struct {
	// most is a call's whole time for the store, Options.Timeout.
	most  time.Duration
	began time.Time
	// until is when the call's time for the store ends. reserve is earlier than the
	// caller's own deadline, so that the policy can still decide. Either may be zero.
	until, reserve time.Time
}

const (
	// mostReserve bounds the time before a caller's deadline that is left to the policy,
	// which is a tenth of the time otherwise.
	mostReserve = 50 * time.Millisecond
	// leastSilence is how long a bucket must be silent before a caller's own deadline
	// lets the policy admit. Otherwise a short deadline would be a way around a limit.
	leastSilence = 200 * time.Millisecond
)

// begin starts the time that a call has for the store, if it has not started.
func (p *patience) begin(ctx context.Context) {
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

// bound is when a call stops waiting for a request that no lane sends. That is before
// the caller's own deadline if the store has had time enough to be called silent by
// then.
func (p *patience) bound() time.Time {
	if p.reserve.Before(p.until) && p.reserve.Sub(p.began) >= leastSilence {
		return p.reserve
	}
	return p.until
}

// next is the instant at which a waiting call next has to decide something.
func (p *patience) next() time.Time {
	if !p.reserve.IsZero() && p.reserve.Before(p.until) {
		return p.reserve
	}
	return p.until
}
