package lane

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/prefetch"
)

// ahead is what a lane debits of its bucket ahead of calls, and serves them from.
// The lane's mutex guards it. docs/design/prefetch.md says what that costs and what
// becomes of the laws.
type ahead struct {
	horizon time.Duration
	stock   *prefetch.Stock
	// cfg is the configuration, incarnation the bucket, that what is held was
	// debited under and from.
	cfg         *plan.Config
	incarnation []byte
	// fetching means that an op that debits ahead is queued or under way.
	fetching bool
	// timer lets what is held lapse; it is nil while nothing is.
	timer *time.Timer
	// lapsedAt is since when something is to be taken off the counter, by a clock
	// that never goes back; 0 for nothing.
	lapsedAt int64
}

func newAhead(horizon time.Duration) *ahead {
	if horizon <= 0 {
		return nil
	}
	return &ahead{horizon: horizon, stock: prefetch.New(horizon.Milliseconds())}
}

// elapsed is a clock in ms that never goes back.
func (s *Registry) elapsed() int64 { return s.passed() / 1000 }

// Serve takes amounts from what was debited ahead, all or nothing; r shows the
// bucket as last seen, and sent is how old they are, to put them back with. Nobody
// is served so while others wait in line, or under limits of a call's own. ctx is the call's, for
// its values.
func (l *Lane) Serve(ctx context.Context, asked []plan.Signed, cfg *plan.Config) (r Result, sent int64, ok bool) {
	if l.ahead == nil || cfg.Override {
		return r, 0, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a, now := l.ahead, l.owner.elapsed()
	if a.cfg == nil || len(l.line) > 0 || !l.holdsFor(cfg) {
		return r, 0, false
	}
	sent, ok = a.stock.Serve(asked, now)
	if ok {
		a.stock.Admitted(asked, now)
		l.tellServed(ctx, asked, a.incarnation, sent, false)
	}
	if a.stock.Low(now) {
		l.fetch(cfg, now)
	}
	if !ok {
		return r, 0, false
	}
	return Result{Image: l.sight.image, Now: l.owner.NowMS(), Config: cfg}, sent, true
}

// holdsFor reports whether what is held is of the bucket as it is and under a
// configuration; else it lapses. l.mu must be held.
func (l *Lane) holdsFor(cfg *plan.Config) bool {
	a := l.ahead
	if !l.sight.known {
		return false // until the bucket was read again
	}
	if l.sight.image == nil || !bytes.Equal(l.sight.image.Of(), a.incarnation) {
		a.stock.Lose()
		return false
	}
	if !sameConfig(cfg, a.cfg) {
		a.stock.LapseAll()
		l.lapseLater()
		return false
	}
	return true
}

// PutBack returns what a call was served, as r shows, that another level denied. It
// keeps its age.
func (l *Lane) PutBack(asked []plan.Signed, r plan.Reading, sent int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.ahead
	a.stock.Withdrawn(asked, l.owner.elapsed())
	l.tellServed(context.Background(), asked, r.Image.Of(), sent, true)
	if !bytes.Equal(r.Image.Of(), a.incarnation) {
		return // the bucket is gone, and its counter
	}
	if sameConfig(r.Config, a.cfg) {
		a.stock.Add(asked, sent)
	} else {
		a.stock.Lapse(asked)
	}
	l.lapseLater()
}

// fetch debits more in the background; l.mu must be held.
func (l *Lane) fetch(cfg *plan.Config, now int64) {
	o := l.fetchOp(cfg, now)
	if o == nil {
		return
	}
	l.queue = append(l.queue, o)
	if !l.running {
		l.running = true
		l.owner.Started()
		go l.Run()
	}
}

// fetchOp is a take of what is to be debited ahead, nil for nothing: it is never
// waited for, and forgone when tokens are scarce. l.mu must be held.
func (l *Lane) fetchOp(cfg *plan.Config, now int64) *Op {
	a := l.ahead
	if a.fetching || cfg.Override || len(l.line) > 0 || l.tripped.Load() || l.owner.lapsing.Load() || !l.sight.current(cfg) {
		return nil
	}
	if nowMS := l.owner.NowMS(); nowMS-l.sight.seenAt > max(a.horizon.Milliseconds(), plan.MemoryMS) {
		return nil // too old to tell whether tokens are scarce
	}
	image, nowMS := l.sight.image, l.owner.NowMS()
	want := a.stock.Want(func(name string) (prefetch.Level, bool) {
		if !image.Holds(name) {
			return prefetch.Level{}, false
		}
		state := image.State(image.Set.Index(name))
		return prefetch.Level{Level: state.Level(nowMS), Burst: state.Burst}, true
	}, now)
	if len(want) == 0 {
		return nil
	}
	a.fetching = true
	o := NewTake(context.Background(), want, cfg)
	o.ahead, o.abandoned, o.debited = true, true, now
	o.onOutcome = func(r Result) { l.fetched(o, r) }
	return o
}

// fetched holds what was debited ahead.
func (l *Lane) fetched(o *Op, r Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.ahead
	a.fetching = false
	switch {
	case r.Unconfirmed:
		l.owner.tally.doubt(o.Amounts)
		return
	case r.Err != nil || r.Denied:
		return
	}
	switch {
	case a.cfg == nil: // the first
	case !bytes.Equal(r.Image.Of(), a.incarnation):
		a.stock.Lose()
	case !sameConfig(a.cfg, r.Config):
		a.stock.LapseAll()
	}
	a.cfg, a.incarnation = r.Config, r.Image.Of()
	a.stock.Add(o.Amounts, o.debited)
	l.lapseLater()
}

// addPrefetch lets a write that is made anyway debit ahead, and take off the counter
// what lapsed; l.mu must be held.
func (l *Lane) addPrefetch(b *batch) {
	if l.ahead == nil || len(b.takes) == 0 {
		return
	}
	now := l.owner.elapsed()
	if o := l.lapsedOp(); o != nil {
		l.queue = append(l.queue, o)
		b.adjusts = append(b.adjusts, o)
	}
	if o := l.fetchOp(b.takes[0].cfg, now); o != nil {
		l.queue = append(l.queue, o)
		b.takes = append(slices.Clone(b.takes), o)
	}
}

// dropPrefetches drops the ops that debit ahead, of a write that was refused or whose tokens
// are scarce, and returns the others.
func (l *Lane) dropPrefetches(ops []*Op, unconfirmed bool) []*Op {
	i := slices.IndexFunc(ops, func(o *Op) bool { return o.ahead })
	if i < 0 {
		return ops
	}
	kept := make([]*Op, 0, len(ops))
	for _, o := range ops {
		if !o.ahead {
			kept = append(kept, o)
			continue
		}
		l.finish([]*Op{o}, Result{Denied: true, Unconfirmed: unconfirmed})
	}
	return kept
}

// stampPrefetches notes when what debits ahead is sent: its age counts from then.
func (l *Lane) stampPrefetches(admitted []*Op) {
	for _, o := range admitted {
		if o.ahead {
			o.debited = l.owner.elapsed()
		}
	}
}

// countTraffic learns from a write that landed what calls need, and what part of
// the bucket's traffic is this process's.
func (l *Lane) countTraffic(carried []*Op, v plan.View, a Answer) {
	if l.ahead == nil || !a.Seen || a.Image == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now, stock := l.owner.elapsed(), l.ahead.stock
	var own plan.Sums
	for _, o := range carried {
		o.addTo(&own)
		if o.take && !o.ahead {
			stock.Admitted(o.Amounts, now)
		}
	}
	if v.Image == nil || !bytes.Equal(v.Image.Of(), a.Image.Of()) {
		return
	}
	for i, name := range a.Image.Set.Names {
		if j := v.Image.Set.Index(name); j >= 0 {
			stock.Moved(name, own.Of(name).Consumed(), a.Image.Limits[i].Consumed-v.Image.Limits[j].Consumed, now)
		}
	}
}
