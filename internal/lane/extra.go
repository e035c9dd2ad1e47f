package lane

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// extra holds the parts of a lane that few buckets need. The lane makes it at the first use of one of them, and
// keeps it. Its methods pass the events of the lane on to the parts in use. Lane.extra is nil for most buckets,
// so a lane's straight way asks that one question at each event.
type extra struct {
	// line holds the interactive waiters of the bucket, and batches the batch waiters; nil before the first one.
	line    Line
	batches atomic.Pointer[Line]
	// ahead prefetches tokens of the bucket; nil if its resource has no prefetch. It never changes.
	ahead *Ahead
	// pacer spaces the lane's writes; nil while the bucket's partition does not throttle. Only the goroutine
	// that runs the lane replaces it.
	pacer atomic.Pointer[pacer]
	// gather waits after a write for callers that come back at once. The lane's mutex guards it.
	gather gather
	// slots are those of the process's open calls; nil without a limit of calls in flight.
	slots atomic.Pointer[Slots]
}

// extras is the place of the extra parts in a lane.
type extras struct{ atomic.Pointer[extra] }

// loadOrMake returns the extra parts, and makes them at their first use.
func (e *extras) loadOrMake() *extra {
	if x := e.Load(); x != nil {
		return x
	}
	e.CompareAndSwap(nil, &extra{})
	return e.Load()
}

// lineOf returns the line of batch waiters, or without batch that of interactive waiters. It makes the line of
// batch waiters at its first use.
func (x *extra) lineOf(batch bool) *Line {
	if !batch {
		return &x.line
	}
	if x.batches.Load() == nil {
		x.batches.CompareAndSwap(nil, &Line{first: &x.line})
	}
	return x.batches.Load()
}

// pacer returns the pacer of the lane; nil if it is not paced.
func (e *extras) pacer() *pacer {
	if x := e.Load(); x != nil {
		return x.pacer.Load()
	}
	return nil
}

// noteArrival is called with each op before it is queued, and counts it in gather. It lets the waiters that fit
// next to a waiter's op try at once, so that its write carries them too. known is the lane's sight of the
// bucket; the lane's mutex must be held.
func (x *extra) noteArrival(o *Op, known *sight, access *Access) {
	if o.Waiter != nil && known.isCurrent(o.cfg) {
		now := plan.DecidedAt(known.image, o.cfg, access.SureMS, access.NowMS())
		x.lineOf(o.Batch).callAlong(o.Waiter, plan.View{Image: known.image, Config: o.cfg, Now: now})
	}
	x.gather.noteArrival(o)
}

// joinBatch is called with the batch of the next write, which starts at now. It records the start in gather,
// adds the ops of the prefetch to the batch, and returns these; nil without a prefetch. The lane's mutex must
// be held.
func (x *extra) joinBatch(b *batch, now time.Time) (added []*Op) {
	x.gather.noteStart(len(b.takes), now)
	if x.ahead == nil {
		return nil
	}
	return x.ahead.addToBatch(b)
}

// noteStart is called before a write of ops is sent. It records the start in the pacer of a paced lane, and
// stores elapsed in each prefetch as the time of its debit. elapsed is in ms since Registry.Began.
func (x *extra) noteStart(carried []*Op, elapsed int64) {
	if p := x.pacer.Load(); p != nil {
		p.recordStart()
	}
	for _, o := range carried {
		if o.Prefetch {
			o.debited = elapsed
		}
	}
}

// noteLanded updates the pacer and the prefetch estimates after a landed write of the ops carried, with the
// answer a. v is the view from which the write was decided, and rows its effect on the limits. Without a pacer
// or a prefetch that part is skipped.
func (x *extra) noteLanded(carried []*Op, v plan.View, rows plan.Rows, a Answer) {
	if p := x.pacer.Load(); p != nil {
		p.recordWrite(rows)
	}
	if x.ahead != nil {
		x.ahead.learnLanded(carried, v, a)
	}
}

// noteRefused records a refused write in the pacer, so that its ops may be written again at once. It does
// nothing if the lane is not paced.
func (x *extra) noteRefused() {
	if p := x.pacer.Load(); p != nil {
		p.recordRefusal()
	}
}

// noteDenial records a denied take in the pacer, so that the lane need not keep to its fair part for two
// seconds. It does nothing if the lane is not paced.
func (x *extra) noteDenial() {
	if p := x.pacer.Load(); p != nil {
		p.recordDenial()
	}
}

// noteMaintenance records in the pacer the effect of a write of pending updates on the limits, which does not
// count as traffic. It does nothing if the lane is not paced.
func (x *extra) noteMaintenance(rows plan.Rows) {
	if p := x.pacer.Load(); p != nil {
		p.recordMaintenance(rows)
	}
}

// noteImage is called with each new image of the bucket, at an instant in Unix ms; image is nil if the bucket
// does not exist. It records the image in the pacer of a paced lane, and its notes in the contests. It wakes
// the heads, because they may have to wait less now.
func (x *extra) noteImage(image *schema.Image, now int64) {
	if p := x.pacer.Load(); p != nil {
		p.recordImage(image)
	}
	if image != nil && image.Notes != nil {
		x.seeNotes(image.Notes, float64(now))
	}
	x.wakeHeads()
}

// wakeHeads wakes the heads of both lines, those of interactive and of batch waiters.
func (x *extra) wakeHeads() {
	if x.line.Waited() {
		x.line.WakeHeads()
	}
	if b := x.batches.Load(); b != nil && b.Waited() {
		b.WakeHeads()
	}
}

// seeNotes records the notes of an image in the contests of both lines.
func (x *extra) seeNotes(n *schema.Notes, now float64) {
	x.line.seeNote(n.Interactive, now)
	if n.Batch != nil {
		x.lineOf(true).seeNote(n.Batch, now)
	}
}

// recordLook records in each line with waiters that the bucket was read at now, in Unix ms.
func (x *extra) recordLook(now float64) {
	if x.line.Waited() {
		x.line.recordLook(now)
	}
	if b := x.batches.Load(); b != nil && b.Waited() {
		b.recordLook(now)
	}
}

// staleFor returns the age of an image in ms from which a write of takes reads the bucket first, by the line of the
// waiters among them. It is 0 if no line says so.
func (x *extra) staleFor(takes []*Op, image *schema.Image, now int64) int64 {
	stale := x.line.staleFor(takes, image, now)
	if b := x.batches.Load(); b != nil && stale == 0 {
		stale = b.staleFor(takes, image, now)
	}
	return stale
}

// noteLosses records that the tries of waiters came too late, in the line of the head among them. image is the
// bucket then; nil changes nothing.
func (x *extra) noteLosses(tried []*Waiter, image *schema.Image, now float64) {
	x.line.recordLoss(tried, image, now)
	if b := x.batches.Load(); b != nil {
		b.recordLoss(tried, image, now)
	}
}

// muteNotes records in both lines that the process's role must not write notes, so that they leave none for ten
// minutes.
func (x *extra) muteNotes(now float64) {
	x.line.muteNotes(now)
	if b := x.batches.Load(); b != nil {
		b.muteNotes(now)
	}
}

// claims returns the amounts that the waiters of both lines need, those of batch waiters apart in batches. A line
// without a waiter has none, but may have left a reservation, which is not another process's.
func (x *extra) claims() claims {
	c := x.line.claims()
	if b := x.batches.Load(); b != nil {
		own := b.claims()
		c.batches, c.waits = &own, c.waits || b.Waited()
	}
	return c
}

// leftTo returns the amounts that a take from the bucket must leave to the waiters with a lower rank, and to a
// reservation of another process; nil if it must leave nothing. r is the state of the bucket. x may be nil.
func (x *extra) leftTo(rank uint64, r plan.Reading) plan.Promises {
	var c claims
	if x != nil {
		c = x.claims()
	}
	if !c.leaves(r) {
		return nil
	}
	return c.leftTo(rank, nil, r, nil)
}

// leftToPlace returns the amounts that a caller who does not wait must leave for the waiters before its place.
// Its place is the first in the line that holds its amounts; ok is false without such a place.
func (x *extra) leftToPlace(amounts []plan.Signed, r plan.Reading) (left plan.Promises, ok bool) {
	c := x.claims()
	p := c.ofClass(r.Batch).placeFor(amounts, nil, r.Now)
	if p == nil {
		return nil, false
	}
	return c.leftTo(LastRank, nil, r, p), true
}

// noteGrant is called with each op that a landed write carried, before it ends. It marks the op's waiter as
// served, removes the op's place from the line, and counts takes for gather. The lane's mutex must be held.
func (x *extra) noteGrant(o *Op) {
	if o.Waiter != nil {
		x.lineOf(o.Batch).markServed(o.Waiter)
	}
	if o.place != nil {
		x.lineOf(o.Batch).dropPlace(o.place)
	}
	if o.Take && o.state.Load() != opPending && o.onOutcome == nil { // its caller waits for the answer
		x.gather.noteGrant()
	}
}

// writeWait returns the time until the next write may start; 0 for at once.
func (x *extra) writeWait() time.Duration {
	if p := x.pacer.Load(); p != nil {
		return p.timeLeft()
	}
	return 0
}

// throttle records in the lane's pacer that a read, or a write that took trip, was throttled with the error
// cause. It makes the pacer if the lane has none, and returns it; started is true then. passed returns the time
// in µs of the lanes' pacing.
func (x *extra) throttle(at *Bucket, passed func() int64, read bool, trip time.Duration, cause error) (p *pacer, started bool) {
	p = x.pacer.Load()
	if started = p == nil; started {
		p = newPacer(passed)
		p.entity, p.resource = at.Entity, at.Resource
	}
	p.recordThrottling(read, trip, cause)
	x.pacer.Store(p)
	return p, started
}

// endPacing removes the pacer if the lane need not be paced any more, and returns it. It returns nil otherwise.
func (x *extra) endPacing() *pacer {
	p := x.pacer.Load()
	if p == nil || !p.isOver() {
		return nil
	}
	x.pacer.Store(nil)
	return p
}

// holdsSlots reports whether the process has open calls with slots of the bucket, or has not yet given back
// slots of ended ones.
func (e *extras) holdsSlots() bool {
	x := e.Load()
	return x != nil && x.slots.Load() != nil && x.slots.Load().inUse.Load()
}

// unbounded is a time longer than any wait.
const unbounded = time.Duration(math.MaxInt64)

// longestProbe returns the longest wait between two probes of the bucket; unbounded without slots of open calls.
func (e *extras) longestProbe() time.Duration {
	if !e.holdsSlots() {
		return unbounded
	}
	return e.Load().slots.Load().longestProbe()
}

// slotsWithout returns a copy of the slots of the process's open calls, as if the calls that adjusts end had
// ended; nil without slots. The lane's mutex must be held.
func (x *extra) slotsWithout(adjusts []*Op) *plan.InFlight {
	if s := x.slots.Load(); s != nil {
		return s.held.without(adjusts)
	}
	return nil
}

// othersHold reports whether other processes hold slots of the bucket in an image. The lane's mutex must be held.
func (x *extra) othersHold(image *schema.Image) bool {
	var own *plan.InFlight
	if s := x.slots.Load(); s != nil {
		own = &s.held.InFlight
	}
	return own.OthersHold(image)
}

// noteEnd is called with each op that ends, and its result. It takes the slots of calls that an adjust ended
// off those of the open calls, unless the adjust surely failed. The lane's mutex must be held.
func (x *extra) noteEnd(o *Op, r *Result) {
	if s := x.slots.Load(); s != nil {
		s.noteEnd(o, r)
	}
}

// armSlots sets the timer of the slots to their next write. The lane's mutex must be held.
func (x *extra) armSlots() {
	if s := x.slots.Load(); s != nil {
		s.arm()
	}
}
