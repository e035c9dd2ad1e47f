package lane

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Asked is the time of a request, in Unix ms of this process's clock, and its order among requests. The
// clock may step, so it does not order answers.
type Asked struct{ At, Order int64 }

// sight is a process's knowledge of a bucket. Its methods take no lock and read no clock: their caller
// holds the lock and passes the time.
type sight struct {
	// known means that the store held image at seenAt. A nil image means that the bucket
	// did not exist.
	known bool
	// scarce means that the last write was refused or throttled, or that the last take
	// was denied.
	scarce bool
	// refilled means that the bucket was filled by hand while a goroutine worked on the queue, so that
	// its next image may be older.
	refilled bool
	// since are the low bits of seenTick's time, in Unix ms. They take no room of their own here.
	since uint32
	image *schema.Image
	// seenAt is the time of the request that showed the image, in Unix ms of this process's clock. It
	// is 0 for an image from which a write may be decided, but not a denial.
	seenAt int64
	// order is the order of the request that showed the image.
	order int64
	// seenTick is the tick of the first image with the current configuration.
	seenTick int64
	// shared is the time of the last image that showed takes of other processes, in Unix ms.
	shared int64
	// crowding is the estimate of other processes that write to the bucket while it is full.
	crowding plan.Crowding
}

// replace installs the image of an answer at now. tick numbers the first image with a new
// configuration.
func (s *sight) replace(image *schema.Image, asked Asked, now int64, tick func() int64) {
	if !s.known || s.image == nil || image == nil || string(s.image.Fingerprint) != string(image.Fingerprint) {
		s.seenTick, s.since = tick(), uint32(now) //nolint:gosec // the low bits
	}
	s.known, s.image, s.seenAt, s.order = true, image, asked.At, asked.Order
	s.crowding.Heard = now
	if asked.At > 0 {
		s.crowding.Trip = now - asked.At
	}
}

// seed installs the image of a read for another purpose, if no image is known.
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

// fresh reports whether the image is recent enough to deny from. A slot may come back at any time, so an image
// with slots is recent for a shorter time.
func (s *sight) fresh(now int64) bool {
	most := int64(plan.MemoryMS)
	if s.image != nil && s.image.Set.Slots {
		most = plan.SlotsMemoryMS
	}
	return now >= s.seenAt && now-s.seenAt <= most
}

// isWary reports whether to read the bucket before a write of takes: it is scarce, other processes use
// it, and the sight is old. The sight is also old from an age of stale in ms, unless that is 0.
func (s *sight) isWary(takes []*Op, stale, now int64) bool {
	return s.known && s.image != nil && plan.IsShared(s.shared, now) &&
		(!s.fresh(now) || stale > 0 && now-s.crowding.Heard >= stale) && (s.scarce || s.low(takes))
}

// low reports whether the image showed little of the ops' amounts.
func (s *sight) low(ops []*Op) bool {
	return slices.ContainsFunc(ops, func(o *Op) bool { return plan.Low(s.image, o.cfg.Enforced(o.Amounts), s.crowding.Heard) })
}

// seenFor returns the time since the first image with the current configuration, in ms.
func (s *sight) seenFor(now int64) uint32 { return uint32(now) - s.since } //nolint:gosec // the low bits

// current reports whether the bucket exists and was written with a configuration.
func (s *sight) current(cfg *plan.Config) bool {
	return s.known && s.image != nil && cfg != nil && cfg.Wrote(s.image)
}

// decides reports whether the image may deny calls under a configuration at now.
func (s *sight) decides(cfg *plan.Config, now int64) bool {
	return !s.refilled && s.known && s.image != nil && s.fresh(now) && cfg.Wrote(s.image)
}

// isOfLibrary reports whether the bucket exists and was written by a client of this library.
func (s *sight) isOfLibrary() bool {
	return s.image != nil && s.image.Fingerprint != nil && s.image.HasRefilled
}

// compare compares a newly read configuration with the bucket's. A nil configuration counts as older.
func (s *sight) compare(cfg *plan.Config) plan.Standing {
	if cfg == nil {
		return plan.Older
	}
	return plan.Compare(s.image, cfg, s.seenTick)
}

// learnCrowding updates the estimate of other writers from the answer to a write, which left the image
// or was refused by it.
func (s *sight) learnCrowding(w *plan.Write, landed bool, image *schema.Image, now int64) {
	s.scarce = !landed
	if landed && s.crowding.Slack == 0 {
		s.crowding.Refused = 0
		return
	}
	s.crowding = s.crowding.After(plan.EvidenceOf(w, landed, image, now), w.Guess, now)
}

// hint returns the set of limits that an answer will probably show.
func (s *sight) hint() *schema.LimitSet {
	if s.image == nil {
		return nil
	}
	return s.image.Set
}

// lessons are the conclusions from the answers to a lane's writes for the next one.
type lessons struct {
	// own is the id of this lane's last write, by its op slot.
	own lastOp
	// adjustsOnly means that the last batch, which carried adjusts, was refused. The
	// next write then carries the adjusts without takes, so that takes lose at most one
	// round trip to them.
	adjustsOnly bool
	// halvings is how often the share of one write has been halved, because other processes wrote
	// first.
	halvings int8
	// housekeepingRefused means that a claim made for housekeeping was refused. The next
	// write is then a spend.
	housekeepingRefused bool
}
