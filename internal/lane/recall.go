package lane

import (
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Memory decides takes from the last image of a lane's bucket, without a request.
type Memory struct{ Lane *Lane }

// Recall decides a take from the last image, if that is recent. ok is false if the image cannot decide:
// it is too old, it lacks a limit, or the take does not fit although this process may just have given
// tokens back.
func (m Memory) Recall(amounts []plan.Signed, cfg *plan.Config, rank uint64, now int64) (r Result, ok bool) {
	l := m.Lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if !m.decides(cfg, now) {
		return Result{}, false
	}
	now = plan.DecidedAt(l.sight.image, cfg, l.owner.SureMS, now)
	v := plan.View{Image: l.sight.image, Config: cfg, Now: now}
	r = Result{Image: l.sight.image, Now: now, Config: cfg}
	if l.Line.Waited() {
		r.Before.Left = l.Line.LeftTo(rank, v.Reading())
	}
	var room [4]plan.Row
	r.Denied = !v.Fits(amounts, r.Before.Left, room[:0])
	if r.Denied && (l.queue.givesBack() || v.Missing(amounts) != "") {
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
func (m Memory) Denies(needs *plan.Needs, cfg *plan.Config, last *plan.Denial, now int64) (image *schema.Image, ahead [plan.MostNeeds]bucket.Outlook) {
	l := m.Lane
	if l.Line.Waited() {
		return nil, ahead
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !m.decides(cfg, now) || l.queue.givesBack() || !last.Denies(l.sight.image, cfg, needs, now) {
		return nil, ahead
	}
	m.noteDenial()
	return l.sight.image, last.Outlooks
}

// decides reports whether the image may deny calls under a configuration at now. The lane's lock
// must be held.
func (m Memory) decides(cfg *plan.Config, now int64) bool {
	of := &m.Lane.sight
	return !of.refilled && of.known && of.image != nil && of.fresh(now) && cfg.Wrote(of.image)
}

// noteDenial records the denial of a take. The lane's lock must be held.
func (m Memory) noteDenial() {
	m.Lane.sight.scarce = true
	if p := m.Lane.pacer.Load(); p != nil {
		p.denied()
	}
}
