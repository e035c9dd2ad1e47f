package lane

import (
	"context"
	"slices"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Asked says when a request was sent: at which time, in Unix ms of this process's clock, and
// after which others. The clock may step, so it does not order answers.
type Asked struct{ At, Order int64 }

// Ask is the Asked of a request that is sent now.
func (s *Registry) Ask() Asked { return Asked{At: s.NowMS(), Order: s.Tick()} }

// sight is what a process knows of a bucket. Its methods take no lock and read no clock:
// their caller holds the lock and passes the time.
type sight struct {
	// known means that the store held image at seenAt. A nil image means that the bucket
	// did not exist.
	known bool
	// scarce means that the last write was refused or throttled, or that the last take
	// was denied.
	scarce bool
	image  *schema.Image
	// seenAt is when the request was sent that showed the image, in Unix ms of this
	// process's clock. It is 0 for an image from which a write may be decided, but not a
	// denial.
	seenAt int64
	// order is that of the request that showed the image.
	order int64
	// seenTick is when the image's configuration was first seen in the bucket.
	seenTick int64
	// shared is when an image last showed that other processes had taken since the image
	// before it, in Unix ms.
	shared int64
	// crowding is what is known of other processes that write to the bucket while it is
	// full.
	crowding plan.Crowding
}

// replace installs the image that a request shows at now. tick numbers the first sight of a
// new configuration.
func (s *sight) replace(image *schema.Image, asked Asked, now int64, tick func() int64) {
	if !s.known || !sameFingerprint(s.image, image) {
		s.seenTick = tick()
	}
	s.known, s.image, s.seenAt, s.order = true, image, asked.At, asked.Order
	s.crowding.Heard = now
	if asked.At > 0 {
		s.crowding.Trip = now - asked.At
	}
}

// seed installs the image of a read that was made for another purpose, if no image is
// known.
func (s *sight) seed(image *schema.Image, asked Asked, now int64, tick func() int64) (replaced bool) {
	if !s.known {
		s.replace(image, asked, now, tick)
		return true
	}
	return false
}

// markStale makes the image too old to deny from: the store may hold more.
func (s *sight) markStale() { s.seenAt = 0 }

// assume installs after, the state that a committed transaction must have left,
// if the image is still before: DynamoDB returns no images of a transaction.
// Others may have written since, so a write may be based on it, which the store
// decides, but not a denial.
func (s *sight) assume(before, after *schema.Image, now int64, tick func() int64) (replaced bool) {
	if replaced = !s.known || s.image == before; replaced {
		s.replace(after, Asked{Order: s.order}, now, tick)
	}
	s.markStale()
	return replaced
}

// drop forgets the image, so that the bucket is read before its next write.
func (s *sight) drop() { s.known, s.seenAt = false, 0 }

// fresh reports whether the image is recent enough to deny from.
func (s *sight) fresh(now int64) bool { return plan.Fresh(s.seenAt, now) }

// wary reports whether the bucket has to be looked at before it is written for ops:
// it is scarce, others take from it, and what is known of it is old.
func (s *sight) wary(takes []*Op, now int64) bool {
	return s.known && s.image != nil && plan.IsShared(s.shared, now) && !s.fresh(now) && (s.scarce || s.low(takes))
}

// low reports whether the image showed little of what ops need.
func (s *sight) low(ops []*Op) bool {
	return slices.ContainsFunc(ops, func(o *Op) bool { return plan.Low(s.image, o.Amounts, s.crowding.Heard) })
}

// current reports whether the bucket exists and was written with a configuration.
func (s *sight) current(cfg *plan.Config) bool {
	return s.known && s.image != nil && cfg != nil && cfg.Wrote(s.image)
}

// whole reports whether the bucket exists and was written by a client of this library.
func (s *sight) whole() bool {
	return s.image != nil && s.image.Fingerprint != nil && s.image.HasRefilled
}

// compare says how a configuration that was read just now relates to the bucket's. No
// configuration at all counts as older.
func (s *sight) compare(cfg *plan.Config) plan.Standing {
	if cfg == nil {
		return plan.Older
	}
	return plan.Compare(s.image, cfg, s.seenTick)
}

// learnCrowding learns of other writers from the answer to a write, which left the image
// or was refused by it.
func (s *sight) learnCrowding(w *plan.Write, landed bool, image *schema.Image, now int64) {
	s.scarce = !landed
	if landed && s.crowding.Slack == 0 {
		s.crowding.Refused = 0
		return
	}
	s.crowding = s.crowding.After(plan.Meet(w, landed, image, now), w.Guess, now)
}

// hint is the set of limits that an answer will probably show.
func (s *sight) hint() *schema.LimitSet {
	if s.image == nil {
		return nil
	}
	return s.image.Set
}

func sameFingerprint(a, b *schema.Image) bool {
	return a != nil && b != nil && string(a.Fingerprint) == string(b.Fingerprint)
}

// snapshot is a copy of what the lane knows, for a decision made beside the lane's own
// work.
func (l *Lane) snapshot() sight {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sight
}

// learn installs the image that one of the lane's own requests has shown. Only the running
// goroutine may call it.
func (l *Lane) learn(image *schema.Image, asked Asked, ours plan.Sums) {
	l.mu.Lock()
	if l.sight.known && plan.Shared(l.sight.image, image, ours) {
		l.sight.shared = l.owner.NowMS()
	}
	foreign := l.sight.known && image.ForeignSince(l.sight.image)
	l.replace(image, asked)
	l.mu.Unlock()
	if foreign {
		l.noticeForeign()
	}
}

// replace installs an image and wakes the heads of the line, because they may have to
// wait less now. l.mu must be held.
func (l *Lane) replace(image *schema.Image, asked Asked) {
	l.sight.replace(image, asked, l.owner.NowMS(), l.owner.Tick)
	if l.refilled {
		l.refilled = false
		l.sight.markStale()
	}
	l.pacer.Load().see(image)
	l.Line.wakeHeads()
}

// Seed gives the image of a read made elsewhere to a lane that rests and has none.
func (l *Lane) Seed(image *schema.Image, asked Asked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running && l.sight.seed(image, asked, l.owner.NowMS(), l.owner.Tick) {
		l.Line.wakeHeads()
	}
}

// Observe gives an image that a transaction, or a read beside the lane's work, has seen
// to a lane that rests. It does nothing if the lane has seen the answer to a later request.
func (l *Lane) Observe(image *schema.Image, asked Asked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running && asked.Order >= l.sight.order {
		l.replace(image, asked)
	}
}

// Assume gives the image that a committed transaction must have left to a lane that
// rests.
func (l *Lane) Assume(before, after *schema.Image) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running {
		return
	}
	if l.sight.assume(before, after, l.owner.NowMS(), l.owner.Tick) {
		l.Line.wakeHeads()
	}
}

// Drop makes a lane that rests read the bucket before its next write.
func (l *Lane) Drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running {
		l.sight.drop()
	}
}

// markStale keeps the lane from denying by its image.
func (l *Lane) markStale() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sight.markStale()
}

// Refilled makes the lane look at the bucket before it denies, because this process has
// filled it by hand, and wakes the heads of the line.
func (l *Lane) Refilled() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running { // the goroutine reads the sight without the lock
		l.refilled = true
		return
	}
	l.sight.markStale()
	l.Line.wakeHeads()
}

// Glance reads the bucket for a waiter that has waited for long: others may have filled
// it. A read that fails changes nothing.
func (l *Lane) Glance(ctx context.Context) {
	known := l.snapshot()
	_ = l.lookBeside(ctx, &known) // the waiter goes by what it knew
}

// Meet learns of other writers from the answer to a write that landed or was refused.
func (l *Lane) Meet(w *plan.Write, v ddb.Verdict, image *schema.Image) {
	if v != ddb.Landed && v != ddb.Refused {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sight.learnCrowding(w, v == ddb.Landed, image, l.owner.NowMS())
}

// wary reports whether the bucket has to be looked at before takes are written.
func (l *Lane) wary(takes []*Op) bool {
	if len(takes) == 0 || l.sight.shared == 0 { // a bucket that nobody else takes from costs no look at the clock
		return false
	}
	now := l.owner.NowMS()
	if l.sight.fresh(now) {
		return false
	}
	known := l.snapshot()
	return known.wary(takes, now)
}

// noteThrottled notes that a write for ops was throttled: where little was left of what
// they need, the bucket is looked at before the next, however young the image.
func (l *Lane) noteThrottled(ops []*Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sight.scarce = true
	if plan.IsShared(l.sight.shared, l.owner.NowMS()) && l.sight.low(ops) {
		l.sight.markStale()
	}
}

// Memory is the bucket as the lane last saw it, however long ago.
func (l *Lane) Memory(cfg *plan.Config) Result {
	now := l.owner.NowMS()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.sight.known || l.sight.image == nil {
		return Result{}
	}
	return Result{Image: l.sight.image, Config: cfg, Now: now, Degraded: true}
}

// Due is how long a waiter has to wait, in ms, until its amounts fit after the waiters
// before it have been served. known is false if the last image is too old to say, or was
// written under another configuration.
func (l *Lane) Due(w *Waiter, now int64) (wait int64, known bool) {
	s := l.snapshot()
	if !s.known || !s.fresh(now) {
		return 0, false
	}
	return l.Line.due(w, s.image, now)
}

// Disputed reports whether the bucket is again under limits of other callers that the
// waiter has already tried under.
func (l *Lane) Disputed(w *Waiter) bool {
	s := l.snapshot()
	return s.known && l.Line.disputed(w, s.image)
}
