package lane

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/prefetch"
)

// ahead is what a lane debits from its bucket before calls ask for it, and serves calls
// from. The lane's mutex guards it. docs/design/prefetch.md says what that costs and
// what becomes of the laws.
type ahead struct {
	horizon time.Duration
	stock   *prefetch.Stock
	// cfg is the configuration under which the held tokens were debited, and incarnation
	// the bucket they were debited from.
	cfg         *plan.Config
	incarnation []byte
	// fetching means that an op that debits ahead is in the queue or under way.
	fetching bool
	// timer lets held tokens lapse. It is nil while nothing is held.
	timer *time.Timer
	// lapsedAt is since when lapsed tokens wait to be taken off the counter, by a clock
	// that never goes back; 0 if there are none.
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

// Serve takes amounts from what was debited ahead, all or nothing. r shows the bucket as
// last seen; sent says when the tokens were debited, for PutBack. It serves nobody while
// others wait in line, nor a call with limits of its own. ctx is the call's context, for
// its values.
func (l *Lane) Serve(ctx context.Context, asked []plan.Signed, cfg *plan.Config) (r Result, sent int64, ok bool) {
	if l.ahead == nil || cfg.Override {
		return r, 0, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a, now := l.ahead, l.owner.elapsed()
	if a.cfg == nil || l.Line.Waited() || !l.holdsFor(cfg) {
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

// holdsFor reports whether the held tokens belong to the bucket as it is and to a
// configuration. If they do not, they lapse. l.mu must be held.
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

// PutBack returns what Serve gave to a call, because another level denied it. The tokens
// keep their age.
func (l *Lane) PutBack(ctx context.Context, asked []plan.Signed, r plan.Reading, sent int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.ahead
	a.stock.Withdrawn(asked, l.owner.elapsed())
	l.tellServed(ctx, asked, r.Image.Of(), sent, true)
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

// fetch debits more in the background. l.mu must be held.
func (l *Lane) fetch(cfg *plan.Config, now int64) {
	if o := l.fetchOp(cfg, now); o != nil {
		l.queue = append(l.queue, o)
		l.startIfResting()
	}
}

// fetchOp makes the take that debits ahead; nil if nothing is to be debited. No caller
// waits for it, and it is dropped if tokens are scarce. l.mu must be held.
func (l *Lane) fetchOp(cfg *plan.Config, now int64) *Op {
	a := l.ahead
	if a.fetching || cfg.Override || l.Line.Waited() || l.Contact.silent.Load() || l.owner.lapsing.Load() || !l.sight.current(cfg) {
		return nil
	}
	image, nowMS := l.sight.image, l.owner.NowMS()
	if nowMS-l.sight.seenAt > max(a.horizon.Milliseconds(), plan.MemoryMS) {
		return nil // too old to tell whether tokens are scarce
	}
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

// fetched puts what was debited ahead into the stock.
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

// addPrefetch lets a write that is made anyway also debit ahead and take lapsed tokens
// off the counter. l.mu must be held.
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

// dropPrefetches ends the ops that debit ahead, because their write was refused. It
// returns the others.
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

// stampPrefetches notes when a write that debits ahead is sent: the age of its tokens
// counts from then.
func (l *Lane) stampPrefetches(admitted []*Op) {
	for _, o := range admitted {
		if o.ahead {
			o.debited = l.owner.elapsed()
		}
	}
}

// countTraffic learns from a landed write how many tokens calls need, and which part of
// the bucket's traffic comes from this process.
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
