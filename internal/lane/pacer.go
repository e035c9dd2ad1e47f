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

// newPacer returns a pacer that does not space writes yet. passed returns the time in µs of the lanes' pacing.
func newPacer(passed func() int64) *pacer {
	return &pacer{passed: passed, pauseEnded: make(chan struct{}, 1)}
}

// timeLeft returns the time until the next write may start; 0 for at once.
func (p *pacer) timeLeft() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return microseconds(max(0, p.pacing.Left(p.passed())))
}

// isOver reports whether the lane need not be paced any more.
func (p *pacer) isOver() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pacing.IsOver(p.passed())
}

// pause waits for a time, or until endPause is called.
func (p *pacer) pause(wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.pauseEnded:
	}
}

// endPause ends the lane's pause, because nothing is queued any more. Without one it ends the next.
func (p *pacer) endPause() {
	select {
	case p.pauseEnded <- struct{}{}:
	default:
	}
}

// change replaces the pacing by the result of decide, which gets the current instant in µs.
func (p *pacer) change(decide func(of plan.Pacing, now int64) plan.Pacing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pacing = decide(p.pacing, p.passed())
}

// recordThrottling lengthens the interval because a write that took trip was throttled, or pauses the lane for
// a throttled read. It keeps the cause.
func (p *pacer) recordThrottling(read bool, trip time.Duration, cause error) {
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

// recordStart records the start of a write now: the interval to the next write counts from it, and a pause
// ends.
func (p *pacer) recordStart() { p.change(plan.Pacing.RecordStart) }

// recordRefusal records a refused write: the next write may start at once.
func (p *pacer) recordRefusal() { p.change(plan.Pacing.RecordRefusal) }

// recordDenial records a take that the lane denied: for two seconds the lane need not keep to its fair part of
// the partition.
func (p *pacer) recordDenial() { p.change(plan.Pacing.RecordDenial) }

// recordWrite adds the sums s of the lane's own landed write to this lane's consumption, from which its fair
// part is computed.
func (p *pacer) recordWrite(s plan.Rows) {
	p.change(func(of plan.Pacing, _ int64) plan.Pacing { return of.RecordWrite(s) })
}

// recordMaintenance records the sums s of a write outside the lane's own work, so that they do not count as
// traffic now.
func (p *pacer) recordMaintenance(s plan.Rows) {
	p.change(func(of plan.Pacing, _ int64) plan.Pacing { return of.RecordMaintenance(s) })
}

// recordImage updates the averages of consumption by an answer's image, nil if the bucket does not exist. It
// ends the row of throttled requests.
func (p *pacer) recordImage(image *schema.Image) {
	p.change(func(of plan.Pacing, now int64) plan.Pacing { return of.RecordImage(image, now) })
}

// describe returns the pacing of the lane for operators. began is the origin of its instants.
func (p *pacer) describe(began time.Time) Paced {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Paced{
		Entity: p.entity, Resource: p.resource, Reads: p.pacing.Reads, Cause: p.cause,
		Interval: microseconds(p.pacing.Interval(p.passed())), Throttled: began.Add(microseconds(p.pacing.Throttled)),
	}
}

// microseconds converts a number of µs to a time.Duration.
func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
