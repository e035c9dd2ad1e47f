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

// Ride queues a give-back that nobody waits for. It rides in the next write of the bucket, or is written after
// rideFor. It is written at once if somebody waits for its tokens or slots, and after Close.
func (l *Lane) Ride(o *Op) {
	if o.charges || !l.addRider(o) {
		l.Submit(o)
	}
}

// addRider queues a rider. It returns false if the op must be written at once.
func (l *Lane) addRider(o *Op) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Contact.silent() || l.queue.riding == mostRiding || l.isWaitedFor() || !l.owner.Riders.add(l, o) {
		return false
	}
	o.rides = true
	l.queue.ops = append(l.queue.ops, o)
	l.queue.riding++
	return true
}

// isWaitedFor reports whether callers wait for tokens of the bucket, in this process or by the note of another
// one. l.mu must be held.
func (l *Lane) isWaitedFor() bool {
	if x := l.extra.Load(); x != nil && x.line.Waited() {
		return true
	}
	image, now := l.Memory.sight.image, float64(l.owner.NowMS())
	return image != nil && image.Note != nil && plan.Contest{}.SeeNote(image.Note, now).IsContended(now)
}

// writeRiders has the riders of the lane written, if o is still one of them.
func (l *Lane) writeRiders(o *Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !o.rides {
		return
	}
	l.queue.stopRiding()
	if !l.queue.running {
		l.queue.running = true
		l.owner.Started()
		go l.run(nil)
	}
}

// riders are the riders of all lanes of a limiter, in the order of their ends, with one timer.
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

// add adds a rider. It returns false after Close.
func (r *riders) add(l *Lane, o *Op) bool {
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

// writeDue has the riders written whose time has come, and sets the timer to the next.
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
	for _, d := range due {
		d.lane.writeRiders(d.op)
	}
}

// Close has all riders written at once. From then on no op rides.
func (r *riders) Close() {
	r.mu.Lock()
	r.closed = true
	left := r.queue
	if r.queue = nil; len(left) > 0 {
		r.timer.Stop()
	}
	r.mu.Unlock()
	for _, d := range left {
		d.lane.writeRiders(d.op)
	}
}
