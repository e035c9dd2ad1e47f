package lane

import (
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

// Seed gives the image of a read made elsewhere to a resting lane without an image.
func (m *Memory) Seed(image *schema.Image, asked Asked) {
	if image != nil {
		m.Pause.learn(image.PausedUntil(), m.access.NowMS)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if x := m.extra.Load(); !m.queue.running && m.sight.seed(image, asked, m.access.NowMS(), m.access.Tick) && x != nil {
		x.wakeHeads()
	}
}

// Observe gives a resting lane the image of a transaction, or of a read outside the lane's own work. It
// does nothing if the lane has seen the answer to a later request.
func (m *Memory) Observe(image *schema.Image, asked Asked) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.queue.running && asked.Order >= m.sight.order {
		m.replace(image, asked, m.access.NowMS())
	}
}

// ObserveLook gives a resting lane the image of a look for a waiter, as Observe does, and notes whether other
// processes have used the bucket since its last image.
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
	if x := m.extra.Load(); x != nil && x.line.Waited() {
		x.line.look(float64(now))
	}
	m.replace(image, asked, now)
}

// LeftTo returns the amounts that a take must leave to the waiters with a lower rank, and to a reservation of another
// process; nil if it must leave nothing. r is the state of the bucket.
func (m *Memory) LeftTo(rank uint64, r plan.Reading) plan.Promises {
	return m.extra.Load().leftTo(rank, r)
}

// Contended reports whether waiters of other processes compete for the bucket at now.
func (m *Memory) Contended(now time.Time) bool {
	x := m.extra.Load()
	return x != nil && x.line.isContended(now)
}

// Assume gives a resting lane the image that a committed transaction must have left.
func (m *Memory) Assume(before, after *schema.Image) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x := m.extra.Load(); !m.queue.running && m.sight.assume(before, after, m.access.NowMS(), m.access.Tick) && x != nil {
		x.wakeHeads()
	}
}

// Drop makes a resting lane read the bucket before its next write.
func (m *Memory) Drop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.queue.running {
		m.sight.drop()
	}
}

// Refilled makes the lane read the bucket before it denies, because this process has filled it by hand,
// and wakes the heads of the line.
func (m *Memory) Refilled() {
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

// NoteWriters updates the estimate of other writers from the answer to a write that landed or was
// refused.
func (m *Memory) NoteWriters(w *plan.Write, v ddb.Verdict, image *schema.Image) {
	if v != ddb.Landed && v != ddb.Refused {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sight.learnCrowding(w, v == ddb.Landed, image, m.access.NowMS())
}

// replace installs an image at now. mu must be held.
func (m *Memory) replace(image *schema.Image, asked Asked, now int64) {
	m.sight.replace(image, asked, now, m.access.Tick)
	if image != nil && (image.PausedUntil() != 0 || m.Pause.known.Load() != nil) {
		m.Pause.learn(image.PausedUntil(), m.access.NowMS)
	}
	if m.sight.refilled {
		m.sight.refilled = false
		m.sight.markStale()
	}
	if x := m.extra.Load(); x != nil {
		x.noteImage(image)
	}
}

// learn installs the image from an answer to one of the lane's own requests, decided at asked. ours are
// the amounts that this write took. It returns true if another implementation wrote the bucket. mu must
// be held.
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

// learnRead installs the image of the lane's own read. It returns a copy of the new sight, and whether
// another implementation wrote the bucket.
func (m *Memory) learnRead(image *schema.Image, asked Asked) (known sight, foreign bool) {
	now := m.access.NowMS()
	m.mu.Lock()
	defer m.mu.Unlock()
	if x := m.extra.Load(); x != nil && x.line.Waited() {
		x.line.look(float64(now))
	}
	foreign = m.learn(image, asked.At, now, nil)
	return m.sight, foreign
}

// learnAnswer updates the memory by the answer to the lane's write, and takes its lessons over. It
// returns true if another implementation wrote the bucket. mu must be held.
func (m *Memory) learnAnswer(t *decision, a Answer, asked, now int64) (foreign bool) {
	switch {
	case a.Seen && a.Verdict == ddb.Landed:
		foreign = m.learn(a.Image, asked, now, t.rows)
	case a.Seen:
		foreign = m.learn(a.Image, asked, now, nil)
	case a.Verdict != ddb.Throttled:
		m.sight.markStale()
	default: // nothing landed, and the sight is as good as before; but little left is read before the next write
		m.sight.scarce = true
		if plan.IsShared(m.sight.shared, now) && m.sight.low(t.carried) {
			m.sight.markStale()
		}
	}
	if t.write.Kind != plan.GiveBack && (a.Verdict == ddb.Landed || a.Verdict == ddb.Refused) {
		m.sight.learnCrowding(&t.write, a.Verdict == ddb.Landed, a.Image, now)
	}
	m.learnt = t.learnt
	return foreign
}

// noteDenial records the denial of a take. mu must be held.
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
	m.learnt.own.set(nil)
}

// Recall decides a take from the last image, if that is recent. ok is false if the image cannot decide:
// it is too old, it lacks a limit, or the take does not fit although this process may just have given
// tokens back.
func (m *Memory) Recall(amounts []plan.Signed, cfg *plan.Config, rank uint64, now int64) (r Result, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.sight.decides(cfg, now) {
		return Result{}, false
	}
	now = plan.DecidedAt(m.sight.image, cfg, m.access.SureMS, now)
	v := plan.View{Image: m.sight.image, Config: cfg, Now: now}
	r = Result{Image: m.sight.image, Now: now, Config: cfg}
	x := m.extra.Load()
	if x != nil && x.line.Waited() || v.Image.Note != nil {
		r.Before.Left = x.leftTo(rank, v.Reading())
	}
	var room [4]plan.Row
	if r.Denied = !v.Fits(amounts, r.Before.Left, room[:0]); r.Denied && r.Before.Left != nil && rank == LastRank && x != nil {
		if left, placed := x.leftToPlace(amounts, v.Reading()); placed && v.Fits(amounts, left, room[:0]) {
			r.Denied, r.Before.Left = false, left
		}
	}
	if r.Denied && (m.queue.givesBack() || v.Missing(amounts) != "") {
		return Result{}, false
	}
	if r.Denied {
		m.noteDenial()
	}
	return r, true
}

// Denies decides as Recall does, but only for takes from token buckets without a line. It returns the
// denying image, nil if the image does not deny, and the outlooks of the needs. The lane's lock guards
// last, which must belong to cfg.
func (m *Memory) Denies(needs *plan.Needs, cfg *plan.Config, last *plan.Denial, now int64) (image *schema.Image, ahead [plan.MostNeeds]bucket.Outlook) {
	if x := m.extra.Load(); x != nil && x.line.Waited() {
		return nil, ahead
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.sight.decides(cfg, now) || m.queue.givesBack() || m.sight.image.Note != nil || !last.Denies(m.sight.image, cfg, needs, now) {
		return nil, ahead
	}
	m.noteDenial()
	return m.sight.image, last.Outlooks
}
