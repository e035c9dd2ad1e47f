package lane

import (
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/internal/plan"
)

const (
	// rideFor is the longest time for which a rider waits for a write that another op needs.
	rideFor = 20 * time.Millisecond
	// mostRiding bounds the riders of a lane. The next one starts a write.
	mostRiding = 32
)

// riders are the queued give-backs of all lanes of a limiter that wait for a write of their bucket, in the order of
// their ends, with one timer.
type riders struct {
	mu    sync.Mutex
	queue []rider
	timer *time.Timer
	// closed means that no op rides any more.
	closed bool
}

// rider is an op of a lane that rides until an instant. It may have been carried since.
type rider struct {
	lane  *Lane
	op    *Op
	until time.Time
}

// Ride queues a give-back that nobody waits for, to ride in the next write of its bucket, or to be written
// after 20 ms. It is written at once if it also charges, if somebody waits for its tokens or slots, if 32 ops
// ride, and after Close. If the bucket is silent, it ends as not written.
func (r *riders) Ride(l *Lane, o *Op) {
	if o.charges || !r.queueRider(l, o) {
		l.Submit(o)
	}
}

// queueRider queues a give-back in its lane without starting a write for it. It returns false, and does not
// queue it, if the op must be written at once.
func (r *riders) queueRider(l *Lane, o *Op) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Contact.silent() || l.queue.riding == mostRiding || l.Waiters(false) != nil || l.Waiters(true) != nil || l.Memory.sight.isWaitedFor(l.owner.NowMS()) || !r.scheduleRider(l, o) {
		return false
	}
	o.rides = true
	l.queue.ops = append(l.queue.ops, o)
	l.queue.riding++
	return true
}

// isWaitedFor reports whether callers of some process wait for tokens of the bucket at now, by their notes.
func (s *sight) isWaitedFor(now int64) bool {
	if s.image == nil || s.image.Notes == nil {
		return false
	}
	at := float64(now)
	return plan.Contest{}.SeeNote(s.image.Notes.Interactive, at).SeeNote(s.image.Notes.Batch, at).IsContended(at)
}

// scheduleRider adds a rider to the list, to be written after 20 ms, and starts the timer for the first one. It
// returns false, and does not add it, after Close.
func (r *riders) scheduleRider(l *Lane, o *Op) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.queue = append(r.queue, rider{l, o, time.Now().Add(rideFor)})
	if len(r.queue) == 1 {
		r.timer = time.AfterFunc(rideFor, r.writeDue)
	}
	return true
}

// writeDue starts the writes of the riders whose time has come, and sets the timer to the next.
func (r *riders) writeDue() {
	r.mu.Lock()
	now, n := time.Now(), 0
	for n < len(r.queue) && !r.queue[n].until.After(now) {
		n++
	}
	due := r.queue[:n]
	if r.queue = r.queue[n:]; len(r.queue) > 0 {
		r.timer.Reset(r.queue[0].until.Sub(now))
	} else {
		r.queue = nil
	}
	r.mu.Unlock()
	writeAll(due)
}

// Close starts the writes of all riders at once. From then on no op rides.
func (r *riders) Close() {
	r.mu.Lock()
	r.closed = true
	left := r.queue
	if r.queue = nil; len(left) > 0 {
		r.timer.Stop()
	}
	r.mu.Unlock()
	writeAll(left)
}

// writeAll starts writes of the lanes of riders that still ride; other riders of the same lane go with them.
func writeAll(all []rider) {
	for _, d := range all {
		l := d.lane
		l.mu.Lock()
		if d.op.rides {
			l.queue.stopRiding()
			if !l.queue.running {
				l.queue.running = true
				l.owner.Started()
				go l.run(nil)
			}
		}
		l.mu.Unlock()
	}
}
