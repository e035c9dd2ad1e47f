package lane

import "github.com/dynalimit/dynalimit/internal/plan"

// Recall decides a take from the last image, if that is recent. ok is false if the image
// cannot decide: it is too old, it lacks a limit, or the take does not fit although this
// process may just have given tokens back.
func (l *Lane) Recall(amounts []plan.Signed, cfg *plan.Config, rank uint64, now int64) (r Result, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refilled || !l.sight.known || l.sight.image == nil || !l.sight.fresh(now) || !cfg.Wrote(l.sight.image) {
		return Result{}, false
	}
	v := plan.NewView(l.sight.image, cfg, plan.Current, now)
	r = Result{Image: l.sight.image, Now: now, Config: cfg, Before: plan.Precedence{Left: l.Line.LeftTo(rank, v.Reading())}}
	r.Denied = !v.Fits(amounts, nil, r.Before.Left)
	if r.Denied && (l.queue.givesBack() || v.Lacks(amounts)) {
		return Result{}, false
	}
	if r.Denied {
		l.sight.scarce = true
		l.pacer.Load().denied()
	}
	return r, true
}
