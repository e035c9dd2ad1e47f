package lane

import (
	"bytes"
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/prefetch"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// stock holds the tokens that a lane prefetched from its bucket, and serves calls from them. They
// belong to the incarnation and the configuration of their debit. A token is served once, or lapses. A
// lapsed token is never given back to the bucket, only taken off its counter. The next write carries
// that; if none comes within a horizon, the lane makes one. The lane's mutex guards the stock;
// docs/design/prefetch.md has its costs and its effect on the laws. Instants are in ms, by a clock that
// never goes back.
type stock struct {
	horizon time.Duration
	parcels *prefetch.Stock
	// cfg is the configuration of the held tokens' debit, and debited the image after it.
	cfg     *plan.Config
	debited *schema.Image
	// fetching means that the op of a prefetch is queued or in flight.
	fetching bool
	// timer lets held tokens lapse. It is nil while nothing is held.
	timer *time.Timer
	// lapsedAt is the time since which lapsed tokens wait to be taken off the counter; 0 without lapsed
	// tokens.
	lapsedAt int64
}

// newStock returns an empty stock with a horizon.
func newStock(horizon time.Duration) stock {
	return stock{horizon: horizon, parcels: prefetch.New(horizon.Milliseconds())}
}

// serve takes amounts from the held tokens, all or nothing, and counts them as admitted. Tokens of another
// configuration lapse instead, and those of another bucket are lost. sent is the time of the debit, in ms since
// Registry.Began; low means that the stock is low enough for a new prefetch.
func (k *stock) serve(asked []plan.Signed, cfg *plan.Config, known *sight, now int64) (sent int64, ok, low bool) {
	if k.cfg == nil || !k.holdsFor(cfg, known) {
		return 0, false, false
	}
	sent, ok = k.parcels.Serve(asked, now)
	if ok {
		k.parcels.CountAdmitted(asked, now)
	}
	return sent, ok, k.parcels.IsLow(now)
}

// holdsFor reports whether the held tokens belong to the current bucket and to a configuration. Tokens of
// another configuration lapse, and those of a bucket that is gone are lost.
func (k *stock) holdsFor(cfg *plan.Config, known *sight) bool {
	if !known.known {
		return false // until the bucket was read again
	}
	if known.image == nil || !bytes.Equal(known.image.IncarnationID(), k.debited.IncarnationID()) {
		k.parcels.Lose()
		return false
	}
	if !sameConfig(cfg, k.cfg) || !plan.SameLives(k.debited, known.image) {
		k.parcels.LapseAll()
		return false
	}
	return true
}

// putBack returns served amounts to the stock; the tokens keep their age. They lapse if the stock has another
// configuration, and are lost if it has another bucket.
func (k *stock) putBack(asked []plan.Signed, r plan.Reading, sent, now int64) {
	k.parcels.UncountServed(asked, now)
	switch {
	case !bytes.Equal(r.Image.IncarnationID(), k.debited.IncarnationID()): // the bucket is gone, and its counter
	case sameConfig(r.Config, k.cfg) && plan.SameLives(r.Image, k.debited):
		k.parcels.Add(asked, sent)
	default:
		k.parcels.Lapse(asked)
	}
}

// fetchOp returns a new take of a prefetch, without quotas, and marks the stock as fetching. It is nil if none
// is due, if one is in flight, or if the image is too old or of another configuration. No caller waits for it;
// nowMS is the time by which the bucket refills.
func (k *stock) fetchOp(cfg *plan.Config, known *sight, nowMS, now int64) *Op {
	if k.fetching || cfg.Override || !known.isCurrent(cfg) {
		return nil
	}
	image := known.image
	if nowMS-known.seenAt > max(k.horizon.Milliseconds(), plan.MemoryMS) {
		return nil // too old to tell whether tokens are scarce
	}
	want := k.parcels.Want(func(name string) (prefetch.Level, bool) {
		if !image.HasLimit(name) {
			return prefetch.Level{}, false
		}
		state := image.State(image.Set.Index(name))
		if state.IsQuota() { // what lapsed could not be returned to its window
			return prefetch.Level{}, false
		}
		return prefetch.Level{Level: state.Level(nowMS), Burst: state.Burst}, true
	}, now)
	if len(want) == 0 {
		return nil
	}
	k.fetching = true
	o := NewTake(context.Background(), want, cfg)
	o.Prefetch, o.debited = true, now
	o.abandoned.Store(true)
	return o
}

// bookFetched puts prefetched tokens into the stock, and unmarks fetching. Held tokens of another configuration
// lapse. It returns the amounts in doubt, if the write is unconfirmed.
func (k *stock) bookFetched(o *Op, r Result) (doubt []plan.Signed) {
	k.fetching = false
	switch {
	case r.Unconfirmed:
		return o.Amounts
	case r.Err != nil || r.Denied:
		return nil
	}
	switch {
	case k.cfg == nil: // the first
	case !bytes.Equal(r.Image.IncarnationID(), k.debited.IncarnationID()):
		k.parcels.Lose()
	case !sameConfig(k.cfg, r.Config) || !plan.SameLives(k.debited, r.Image):
		k.parcels.LapseAll()
	}
	k.cfg, k.debited = r.Config, r.Image
	k.parcels.Add(o.Amounts, o.debited)
	return nil
}

// lapsedOp removes the lapsed tokens from the stock and returns the adjust that takes them off the counter. It
// returns nil if nothing has lapsed, or if the bucket is gone.
func (k *stock) lapsedOp(known *sight) *Op {
	lapsed := k.parcels.TakeLapsed()
	k.lapsedAt = 0
	if len(lapsed) == 0 || known.known && (known.image == nil || !bytes.Equal(known.image.IncarnationID(), k.debited.IncarnationID())) {
		return nil // with its bucket the counter is gone
	}
	o := NewAdjust(context.Background(), nil, k.debited.IncarnationID(), k.cfg)
	o.Late, o.lapses, o.GivesBack = plan.Negated(lapsed), true, true
	return o
}

// bookTakenOff books the outcome of an op that takes lapsed tokens off the counter. After a certain failure
// they wait for the next one. It returns the amounts in doubt: those of an unconfirmed write, and all that a
// closed limiter could not write.
func (k *stock) bookTakenOff(o *Op, r Result, closed bool) (doubt []plan.Signed) {
	lapsed := plan.Negated(o.Late)
	switch {
	case r.Err == nil:
	case r.Unconfirmed || closed:
		return lapsed
	case bytes.Equal(o.Incarnation, k.debited.IncarnationID()):
		k.parcels.Lapse(lapsed)
	}
	return nil
}

// bookOutcome books the outcome of a prefetch, or of an op that takes lapsed tokens off the counter. It returns
// the amounts in doubt; nil without any. closed means that the limiter is closed.
func (k *stock) bookOutcome(o *Op, r Result, closed bool) (doubt []plan.Signed) {
	if o.lapses {
		return k.bookTakenOff(o, r, closed)
	}
	return k.bookFetched(o, r)
}

// expire lets tokens older than the horizon lapse. due means that lapsed tokens have waited for a horizon to be
// taken off the counter. holds means that the stock has held or lapsed tokens.
func (k *stock) expire(now int64) (due, holds bool) {
	k.parcels.Expire(now)
	if !k.parcels.HasTokens() {
		k.lapsedAt = 0
		return false, false
	}
	if k.lapsedAt == 0 && k.parcels.HasLapsed() {
		k.lapsedAt = now
	} else if k.lapsedAt > 0 && now-k.lapsedAt >= k.horizon.Milliseconds() {
		due = true
	}
	return due, true
}

// wait returns the time until the oldest tokens lapse, from 1 ms to the horizon.
func (k *stock) wait(now int64) time.Duration {
	wait := k.horizon
	if at, held := k.parcels.LapseTime(); held {
		wait = min(wait, time.Duration(at-now+1)*time.Millisecond)
	}
	return max(wait, time.Millisecond)
}

// stop stops the timer, and lets all held tokens lapse.
func (k *stock) stop() {
	if k.timer != nil {
		k.timer.Stop()
		k.timer = nil
	}
	k.parcels.LapseAll()
}

// learnLanded updates the estimates of the tokens that calls need, and of the process's part of the bucket's
// traffic, from a landed write of carried. before, which may be nil, and after are the images around it.
func (k *stock) learnLanded(carried []*Op, before, after *schema.Image, now int64) {
	var own plan.Rows
	for _, o := range carried {
		own = own.With(&o.Ask)
		o.AddTo(own)
		if o.Take && !o.Prefetch {
			k.parcels.CountAdmitted(o.Amounts, now)
		}
	}
	if before == nil || !bytes.Equal(before.IncarnationID(), after.IncarnationID()) {
		return
	}
	for i, name := range after.Set.Names {
		if j := before.Set.Index(name); j >= 0 {
			k.parcels.RecordTraffic(name, own.Consumed(name), after.Limits[i].Consumed-before.Limits[j].Consumed, now)
		}
	}
}
