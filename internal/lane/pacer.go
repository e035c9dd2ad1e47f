package lane

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// pacer decides when a lane's next write may start, from the lane's first throttling to the end of its
// pacing. Package plan decides; the pacer adds the time and the chance. A lane that is not throttled
// has no pacer. It is safe for concurrent use. No other lock is taken under its own.
type pacer struct {
	// entity and resource name the bucket.
	entity, resource string
	// passed returns the time in µs of the lanes' pacing.
	passed func() int64
	// pauseEnded receives a value when the queue of a pausing lane becomes empty.
	pauseEnded chan struct{}

	mu     sync.Mutex
	pacing plan.Pacing
	// cause is the error of the last throttled request.
	cause error
}

func newPacer(passed func() int64) *pacer {
	return &pacer{passed: passed, pauseEnded: make(chan struct{}, 1)}
}

// left returns the time until the next write may start; 0 for at once.
func (p *pacer) left() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return microseconds(max(0, p.pacing.Left(p.passed())))
}

// over reports whether the lane need not be paced any more.
func (p *pacer) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pacing.Over(p.passed())
}

// pause waits until the next write may start, or for endPause.
func (p *pacer) pause(wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.pauseEnded:
	}
}

// endPause ends a pause, because nothing is queued any more.
func (p *pacer) endPause() {
	select {
	case p.pauseEnded <- struct{}{}:
	default:
	}
}

// change applies an event to the pacing, at the current instant.
func (p *pacer) change(decide func(of plan.Pacing, now int64) plan.Pacing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pacing = decide(p.pacing, p.passed())
}

// throttled lengthens the interval, because a write that took trip was throttled, or pauses
// for a throttled read.
func (p *pacer) throttled(read bool, trip time.Duration, cause error) {
	p.mu.Lock()
	p.cause = cause
	p.mu.Unlock()
	p.change(func(of plan.Pacing, now int64) plan.Pacing {
		if read {
			return of.ThrottleRead(now, rand.Float64())
		}
		return of.ThrottleWrite(now, trip.Microseconds(), rand.Float64())
	})
}

// recordStart records the start of a write, recordRefusal a refused write, and recordDenial a take that the
// lane denied.
func (p *pacer) recordStart()   { p.change(plan.Pacing.Start) }
func (p *pacer) recordRefusal() { p.change(plan.Pacing.Again) }
func (p *pacer) recordDenial()  { p.change(plan.Pacing.Deny) }

// landed records the lane's own write, beside any other write, which does not count as traffic.
func (p *pacer) landed(s plan.Rows) {
	p.change(func(of plan.Pacing, _ int64) plan.Pacing { return of.Take(s) })
}

func (p *pacer) beside(s plan.Rows) {
	p.change(func(of plan.Pacing, _ int64) plan.Pacing { return of.Beside(s) })
}

// see records the image of an answer.
func (p *pacer) see(image *schema.Image) {
	p.change(func(of plan.Pacing, now int64) plan.Pacing { return of.See(image, now) })
}

// shown returns the pacing of the lane for operators. Instants count from began.
func (p *pacer) shown(began time.Time) Paced {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Paced{
		Entity: p.entity, Resource: p.resource, Reads: p.pacing.Reads, Cause: p.cause,
		Interval: microseconds(p.pacing.Interval(p.passed())), Throttled: began.Add(microseconds(p.pacing.Throttled)),
	}
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
