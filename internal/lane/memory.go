package lane

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Memory is a lane's memory of its bucket. It denies takes without a request, and others give it images
// of the bucket. The lane's mutex guards it; it knows only those parts of its lane that are
// fields here.
type Memory struct {
	*shared
	access *Access
	// sight is the process's knowledge of the bucket, and learnt the lessons of its answers. While the
	// lane runs, only its turn replaces the image; while it rests, others give it images.
	sight  sight
	learnt lessons
}

// Seed installs the image of a read made elsewhere in a resting lane without a known image, and wakes the heads
// of its lines. It updates the pause of any lane. image is nil if the bucket does not exist.
func (m *Memory) Seed(image *schema.Image, asked Asked) {
	if image != nil {
		m.Pause.learn(image.PausedUntil(), m.access.NowMS)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.queue.running || m.sight.known {
		return
	}
	m.sight.replace(image, asked, m.access.NowMS(), m.access.Tick)
	if x := m.extra.Load(); x != nil {
		x.wakeHeads()
	}
}

// Observe gives a resting lane the image of a transaction, or of a read outside its own work, and wakes the
// heads of its lines. It does nothing while the lane works, or has seen a later answer.
func (m *Memory) Observe(image *schema.Image, asked Asked) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.queue.running && asked.Order >= m.sight.order {
		m.replace(image, asked, m.access.NowMS())
	}
}

// ObserveLook gives a resting lane the image of a look for a waiter, as Observe does. It marks the bucket as
// shared if others used it meanwhile, and records the look in the contests.
func (m *Memory) ObserveLook(image *schema.Image, asked Asked) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.queue.running || asked.Order < m.sight.order {
		return
	}
	now := m.access.NowMS()
	if m.sight.known && plan.Shared(m.sight.image, image, nil) {
		m.sight.shared = now
	}
	if x := m.extra.Load(); x != nil {
		x.recordLook(float64(now))
	}
	m.replace(image, asked, now)
}

// LeftTo returns the amounts that a take must leave to the waiters with a lower rank, and to a reservation of another
// process; nil if it must leave nothing. r is the state of the bucket.
func (m *Memory) LeftTo(rank uint64, r plan.Reading) plan.Promises {
	return m.extra.Load().leftTo(rank, r)
}

// Contended reports whether other processes' waiters of a class compete for the bucket at now.
func (m *Memory) Contended(now time.Time, batch bool) bool {
	x := m.extra.Load()
	return x != nil && x.lineOf(batch).isContended(now)
}

// Assume gives a resting lane the image after, which a committed transaction must have left, if its last image
// is before or unknown. In any case a resting lane denies no takes until it gets another image.
func (m *Memory) Assume(before, after *schema.Image) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x := m.extra.Load(); !m.queue.running && m.sight.assume(before, after, m.access.NowMS(), m.access.Tick) && x != nil {
		x.wakeHeads()
	}
}

// IsOwn reports whether the bucket was last seen under a configuration, and no other process used it in the
// last hour.
func (m *Memory) IsOwn(cfg *plan.Config) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	const alone = int64(time.Hour / time.Millisecond)
	return m.sight.isCurrent(cfg) && (m.sight.shared == 0 || m.access.NowMS()-m.sight.shared > alone)
}

// Drop forgets the image of a resting lane, so that it reads the bucket before its next write. It does nothing
// while the lane works.
func (m *Memory) Drop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.queue.running {
		m.sight.drop()
	}
}

// MarkRefilled makes the lane read the bucket before it denies, because this process has filled it by hand. It
// wakes the heads of the line.
func (m *Memory) MarkRefilled() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.queue.running { // the goroutine reads the sight without the lock
		m.sight.refilled = true
		return
	}
	m.sight.markStale()
	m.sight.order = m.access.Tick() // a read that was sent before shows the bucket as it was
	if x := m.extra.Load(); x != nil {
		x.wakeHeads()
	}
}

// NoteWriters updates the estimate of other writers from the answer to a write. A refused write marks the
// bucket as scarce, a landed one unmarks it, and others count for nothing.
func (m *Memory) NoteWriters(w *plan.Write, v ddb.Verdict, image *schema.Image) {
	if v != ddb.Landed && v != ddb.Refused {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sight.learnCrowding(w, v == ddb.Landed, image, m.access.NowMS())
}

// replace installs an image at now, in Unix ms, with its pause and others' slots, and wakes the heads of the
// lines. After a refill by hand the image is stale at once; mu must be held.
func (m *Memory) replace(image *schema.Image, asked Asked, now int64) {
	m.sight.replace(image, asked, now, m.access.Tick)
	if image != nil && (image.HasPause || m.Pause.known.Load() != nil) {
		m.Pause.learn(image.PausedUntil(), m.access.NowMS)
	}
	if m.sight.refilled {
		m.sight.refilled = false
		m.sight.markStale()
	}
	if x := m.extra.Load(); x != nil {
		if x.othersHold(image) {
			m.sight.shared = now
		}
		x.noteImage(image, now)
	}
}

// learn installs the image from an answer to one of the lane's own requests, decided at asked. Changes beside ours mark
// the bucket as shared. It returns true if another implementation wrote the bucket; mu must be held.
func (m *Memory) learn(image *schema.Image, asked, now int64, ours plan.Rows) (foreign bool) {
	if s := &m.sight; s.known {
		if plan.Shared(s.image, image, ours) {
			s.shared = now
		}
		foreign = image.ForeignSince(s.image)
	}
	m.replace(image, Asked{asked, m.access.Tick()}, now) // a request sent before this answer may not see the write
	return foreign
}

// learnRead installs the image of the lane's own read, nil without a bucket, and records the look. It returns a copy of
// the new sight, and whether another implementation wrote the bucket. It takes mu.
func (m *Memory) learnRead(image *schema.Image, asked Asked) (known sight, foreign bool) {
	now := m.access.NowMS()
	m.mu.Lock()
	defer m.mu.Unlock()
	if x := m.extra.Load(); x != nil {
		x.recordLook(float64(now))
	}
	foreign = m.learn(image, asked.At, now, nil)
	return m.sight, foreign
}

// noteDenial marks the bucket as scarce and tells the pacer, after the denial of a take. mu must be held.
func (m *Memory) noteDenial() {
	m.sight.scarce = true
	if x := m.extra.Load(); x != nil {
		x.noteDenial()
	}
}

// ForgetOwnWrite forgets the id of the last write of a lane at rest, as an evicted lane would. Its next
// give-back is then sent only once. Tests of whole limiters use it.
func (m *Memory) ForgetOwnWrite() {
	m.mu.Lock() // after the running goroutine has rested
	defer m.mu.Unlock()
	m.learnt.own = tryID{}
}

// Recall decides a take from the last image, which r has: r.Denied means a denial, which it records. A take
// that fits must still ask the bucket. ok is false if the image is too old, lacks a limit, or may miss a
// give-back of this process.
func (m *Memory) Recall(amounts []plan.Signed, cfg *plan.Config, by Caller, now int64) (r Result, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.sight.mayDeny(cfg, now) {
		return Result{}, false
	}
	if cfg.Quotas || m.sight.image.Set.Quotas {
		now = plan.Unopened(m.sight.image, cfg, m.access.SureMS(), now)
	}
	v := plan.View{Image: m.sight.image, Config: cfg, Now: now}
	r = Result{Image: m.sight.image, Now: now, Config: cfg}
	x := m.extra.Load()
	var reading plan.Reading
	if x != nil && (x.line.Waited() || by.Batch) || v.Image.Notes != nil {
		reading = v.Reading()
		reading.Batch = by.Batch
		r.Before.Left = x.leftTo(by.Rank, reading)
	}
	var room [4]plan.Row
	rows := v.Rows(room[:0], amounts)
	if r.Denied = !rows.Fit(amounts, r.Before.Left, by.Batch); r.Denied && r.Before.Left != nil && by.Rank == LastRank && x != nil {
		if left, placed := x.leftToPlace(amounts, reading); placed && rows.Fit(amounts, left, by.Batch) {
			r.Denied, r.Before.Left = false, left
		}
	}
	if r.Denied && (m.queue.hasAdjusts() || rows.Missing(amounts) != nil) {
		return Result{}, false
	}
	if r.Denied {
		m.noteDenial()
	}
	return r, true
}

// Denies decides as Recall does, for needs of token buckets only; it records a denial, and returns the denying
// image with the outlooks. The image is nil without a denial, and while callers wait or an adjust is queued.
// The lane's lock guards last, which must belong to cfg.
func (m *Memory) Denies(needs *plan.Needs, cfg *plan.Config, last *plan.Denial, now int64) (image *schema.Image, ahead [plan.MostNeeds]bucket.Outlook) {
	if x := m.extra.Load(); x != nil && x.line.Waited() {
		return nil, ahead
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.sight.mayDeny(cfg, now) || m.queue.hasAdjusts() || m.sight.image.Notes != nil && m.sight.image.Notes.Interactive != nil || !last.Denies(m.sight.image, cfg, needs, now) {
		return nil, ahead
	}
	m.noteDenial()
	return m.sight.image, last.Outlooks
}

// Caller is the caller of a take: its seniority among the waiters, LastRank if it does not wait, and its class.
type Caller struct {
	Rank uint64
	// Batch means that it is a batch call.
	Batch bool
}

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

// replace installs the image of an answer at now, in Unix ms; asked is the instant and order of its request.
// tick returns the next tick, which it stores for the first image with a new configuration.
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

// markStale makes the image too old to deny from: the store may hold more. The bucket is then read before a denial.
func (s *sight) markStale() { s.seenAt = 0 }

// assume installs after, the state that a committed transaction must have left, and returns true, if the image
// is still before or unknown. DynamoDB returns no images of a transaction. In any case no denial may be based
// on the image any more, because others may have written since.
func (s *sight) assume(before, after *schema.Image, now int64, tick func() int64) (replaced bool) {
	if replaced = !s.known || s.image == before; replaced {
		s.replace(after, Asked{Order: s.order}, now, tick)
	}
	s.markStale()
	return replaced
}

// drop forgets the image, so that the bucket is read before its next write.
func (s *sight) drop() { s.known, s.seenAt = false, 0 }

// fresh reports whether the image may deny at now: it is at most a second old, or 50 ms with slots, which may
// come back at any time. It is false for a stale image.
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
		(!s.fresh(now) || stale > 0 && now-s.crowding.Heard >= stale) && (s.scarce || s.isLow(takes))
}

// isLow reports whether a limit that one of the ops names was below a tenth of its burst when the image came.
// Quotas, and limits in shadow, do not count.
func (s *sight) isLow(ops []*Op) bool {
	return slices.ContainsFunc(ops, func(o *Op) bool { return plan.Low(s.image, o.cfg.Enforced(o.Amounts), s.crowding.Heard) })
}

// seenFor returns the time from the first image with the current configuration to now, in ms.
func (s *sight) seenFor(now int64) uint32 { return uint32(now) - s.since } //nolint:gosec // the low bits

// isCurrent reports whether the bucket exists and was written with a configuration, which may be nil.
func (s *sight) isCurrent(cfg *plan.Config) bool {
	return s.known && s.image != nil && cfg != nil && cfg.Wrote(s.image)
}

// mayDeny reports whether the image may deny calls under a configuration at now: it is recent, and of that
// configuration. It is false if the bucket was filled by hand since, and for a call that brings alerts to the
// bucket, which must ask it.
func (s *sight) mayDeny(cfg *plan.Config, now int64) bool {
	if s.refilled || !s.known || s.image == nil || !s.fresh(now) || !cfg.Wrote(s.image) {
		return false
	}
	return cfg.Origin == nil || cfg.Origin.Alerts == nil || !cfg.BringsAlerts(s.image)
}

// isOfLibrary reports whether the bucket exists and was written by a client of this library.
func (s *sight) isOfLibrary() bool {
	return s.image != nil && s.image.Fingerprint != nil && s.image.HasRefilled
}

// compare returns the relation of a new configuration to the bucket's. A nil configuration counts as older.
func (s *sight) compare(cfg *plan.Config) plan.Standing {
	if cfg == nil {
		return plan.Older
	}
	return plan.Compare(s.image, cfg, s.seenTick)
}

// learnCrowding updates the estimate of other writers from the answer to a write, which left the image or was
// refused by it. A refused write marks the bucket as scarce, and a landed one unmarks it.
func (s *sight) learnCrowding(w *plan.Write, landed bool, image *schema.Image, now int64) {
	s.scarce = !landed
	if landed && s.crowding.Slack == 0 {
		s.crowding.Refused = 0
		return
	}
	s.crowding = s.crowding.After(plan.EvidenceOf(w, landed, image, now), w.Guess, now)
}

// hint returns the last image's limits, which an answer will probably show again; nil without an image.
func (s *sight) hint() *schema.LimitSet {
	if s.image == nil {
		return nil
	}
	return s.image.Set
}

// lessons are the conclusions from the answers to a lane's writes for the next one.
type lessons struct {
	// own is the id of this lane's last write, by its op slot.
	own tryID
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

// shared are the parts of a lane that its memory uses too.
type shared struct {
	// Pause is the end of a pause of the bucket. The lane itself ignores it.
	Pause Pause
	// mu guards the queue and the memory.
	mu    sync.Mutex
	queue queue
	// extra are the parts that few buckets need; nil before the first use of one.
	extra extras
}

const (
	// MostPause bounds one pause.
	MostPause = 30 * time.Second
	// PauseMargin is the least difference to a known end for which a pause is written again. It is also
	// added to a pause where clocks are not corrected.
	PauseMargin = time.Second
)

// LatestPause returns the latest end of a pause that a process accepts at now, both in Unix ms: 31 s later. A
// wrong clock wrote a later one.
func LatestPause(now int64) int64 { return now + (MostPause + PauseMargin).Milliseconds() }

// Pause is the end of a bucket's pause, as far as this process knows. The zero value is not paused. It
// is atomic, so callers read it without a lock.
type Pause struct{ known atomic.Pointer[knownPause] }

// knownPause is a pause as this process knows it.
type knownPause struct {
	until int64
	// shown is the end in the last image. Each end is learnt, and bounded, once.
	shown int64
}

// Until returns the known end of the pause in Unix ms, perhaps past; 0 without one.
func (p *Pause) Until() int64 {
	if known := p.known.Load(); known != nil {
		return known.until
	}
	return 0
}

// change replaces the known pause with the result of next, and returns true. If next returns false, it changes
// nothing and returns false. It calls next again if the pause changed meanwhile.
func (p *Pause) change(next func(knownPause) (knownPause, bool)) bool {
	for {
		at, was := p.known.Load(), knownPause{}
		if at != nil {
			was = *at
		}
		now, changed := next(was)
		if !changed {
			return false
		}
		if p.known.CompareAndSwap(at, &now) {
			return true
		}
	}
}

// Raise sets the end to until, in Unix ms, and returns true. It does nothing, and returns false, if that is
// less than margin ms after the known end.
func (p *Pause) Raise(until, margin int64) bool {
	return p.change(func(k knownPause) (knownPause, bool) { return knownPause{until, k.shown}, k.until+margin < until })
}

// Lift ends the pause in this process. An image with another end may start it again.
func (p *Pause) Lift() {
	p.change(func(k knownPause) (knownPause, bool) { return knownPause{0, k.shown}, k.until != 0 })
}

// learn updates the pause by the end that an image of the bucket shows, at most LatestPause; 0 is no pause. A
// later end lengthens the pause, and a missing or earlier one means that a process lifted it.
func (p *Pause) learn(end int64, now func() int64) {
	if known := p.known.Load(); known == nil && end == 0 || known != nil && known.shown == end {
		return // the end is known, and its bound may differ by now
	}
	latest := LatestPause(now())
	p.change(func(k knownPause) (knownPause, bool) {
		bounded := min(end, latest)
		if end > k.shown {
			bounded = max(bounded, k.until)
		}
		return knownPause{bounded, end}, end != k.shown
	})
}
