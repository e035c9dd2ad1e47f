package dynalimit

import (
	"cmp"
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/sources"
)

// The path without a request: most calls charge one bucket, and always the same one for an entity on a
// resource. The lane caches the way there, so such a call costs one look-up, one read of the clock, and
// the work under the lane's lock.

// shortcut answers calls without options of one entity on one resource from memory. Only its denied
// changes.
type shortcut struct {
	desk *desk
	lane *lane.Lane
	cfg  *plan.Config
	// policy is the policy of calls without money. Calls with money are never served from memory.
	policy UnavailablePolicy
	// resolved is the configuration that cfg is made of.
	resolved config.Held
	// denied is the last denial; the lane's lock guards it.
	denied plan.Denial
}

// unnamed is the need of a limit that a call does not name.
const unnamed = -1

// knownCall is a call with a shortcut; the zero value is any other call.
type knownCall struct {
	by    *shortcut
	needs plan.Needs
	at    lane.Instant
}

// know finds the shortcut of a call. It returns false if the call has no fresh shortcut, the bucket is
// paused, or the amounts are not valid.
func (d *desk) know(call *knownCall, entity, resource string, amounts Amounts, opts []AcquireOption) bool {
	if len(opts) > 0 {
		return false
	}
	bucket := d.lanes.Known(entity, resource)
	if bucket == nil {
		return false
	}
	s := shortcutTo(bucket)
	if s == nil || d.table.Open() || d.routes.namespace != nil && d.routes.namespace.inactive() != nil {
		return false
	}
	source, at := d.read()
	if bucket.Pause.Until() > at.MS || !d.routes.configs.Still(&s.resolved, source) || !s.needs(amounts, &call.needs) {
		return false
	}
	call.by, call.at = s, at
	return true
}

// read reads the clock once, or twice if the limiter has a clock of its own. source is for the age of
// configurations.
func (d *desk) read() (source time.Time, at lane.Instant) {
	clock := d.routes.clock
	source = clock.Source()
	elapsed := source.Sub(d.lanes.Began)
	if !d.machine {
		elapsed = time.Since(d.lanes.Began)
	}
	if at.Elapsed = elapsed.Milliseconds(); d.ownClock {
		at.MS = d.nowMS()
	} else {
		at.MS = clock.Corrected(source).UnixMilli()
	}
	return source, at
}

// remember makes the shortcut of a call that memory has decided, if all calls like it charge that one
// bucket alone.
func (d *desk) remember(r *request, bucket *lane.Lane) {
	own := r.at(r.entity, false)
	held, ok := d.routes.configs.Hold(own.Key)
	of := held.Value
	if !ok || of.Blocked != "" || of.Unlimited || len(of.Groups) > 0 || r.nextPlace(own, of).Entity != "" || d.routes.lookups.refuse && !of.Recorded {
		return
	}
	cfg := d.routes.fallback.LimitsOf(of, false)
	if last := shortcutTo(bucket); cfg == nil || cfg.Shadow != 0 || len(cfg.Limits) > plan.MostNeeds || last != nil && last.resolved == held {
		return
	}
	s := &shortcut{desk: d, lane: bucket, cfg: cfg, policy: cmp.Or(UnavailablePolicy(of.OnUnavailable), d.routes.onUnavailable), resolved: held}
	bucket.Memo.Store(&lane.Memo{Of: s})
}

// shortcutTo returns the shortcut to a bucket; nil if it is not known.
func shortcutTo(bucket *lane.Lane) *shortcut {
	if memo := bucket.Memo.Load(); memo != nil {
		return memo.Of.(*shortcut)
	}
	return nil
}

// find resolves a request from the shortcut, as routes.find does.
func (s *shortcut) find(r *request, c cascade) (cascade, UnavailablePolicy) {
	return c.with(s.lane, s.cfg, r.amounts), cmp.Or(r.policyAt(s.resolved.Value, s.cfg), s.policy)
}

// needs converts amounts into the needs of. It returns false if they are not valid, or name other limits than the
// shortcut's.
func (s *shortcut) needs(amounts Amounts, of *plan.Needs) bool {
	named := 0
	for i := range s.cfg.Limits {
		n, is := amounts[s.cfg.Limits[i].Name]
		if !is {
			of[i] = unnamed
			continue
		}
		if n < 0 || n > maxTokens {
			return false
		}
		of[i] = n * milli
		named++
	}
	return named == len(amounts) && named > 0
}

// answer answers a call from memory: from the stock if that suffices, else with a denial if the
// bucket's last image denies it. It returns false if the store must be asked.
func (k *knownCall) answer(ctx context.Context) (*Lease, bool, error) {
	if k.by.desk.observer.AcquireStart != nil { // it may have taken its time
		_, k.at = k.by.desk.read()
	}
	if k.by.lane.Ahead != nil {
		if lease := k.by.serve(ctx, &k.needs, k.at); lease != nil {
			return lease, true, nil
		}
	}
	if image, ahead := k.by.lane.Memory.Denies(&k.needs, k.by.cfg, &k.by.denied, k.at.MS); image != nil {
		return nil, true, k.by.denial(&k.needs, image, &ahead)
	}
	return nil, false, nil
}

// serve takes the amounts from the stock. It returns nil if the stock is too small.
func (s *shortcut) serve(ctx context.Context, of *plan.Needs, at lane.Instant) *Lease {
	shown, ok := s.lane.Ahead.ServeNeeds(ctx, of, s.cfg, at)
	if !ok {
		return nil
	}
	lease := &servedLease{grant: grant{by: s, needs: *of, shown: shown, now: at.MS}}
	lease.served = &lease.grant
	return &lease.Lease
}

// denial returns the error of a call that an image denies.
func (s *shortcut) denial(of *plan.Needs, image *schema.Image, ahead *[plan.MostNeeds]bucket.Outlook) *LimitExceededError {
	e := emptyDenial(s.lane.Entity, s.lane.Resource)
	for i := range s.cfg.Limits {
		if of[i] <= 0 {
			continue
		}
		l := &s.cfg.Limits[i]
		stored := &image.Limits[s.cfg.PlaceIn(image, i)]
		status := e.next()
		status.EntityID, status.Resource, status.Source = e.EntityID, e.Resource, sources.Source(l.Source)
		status.Limit.setBucket(l.Name, stored.Capacity, &stored.Rate)
		status.Limit.MaxDebt = l.MaxDebt / milli
		status.ahead(of[i], ahead[i])
	}
	return e.concluded()
}

// servedLease is a lease served from memory, in one allocation.
type servedLease struct {
	Lease
	grant grant
}

// grant is the state of a lease served from memory until its first use. Then a charge is made from it.
type grant struct {
	by    *shortcut
	needs plan.Needs
	// shown is the last image of the bucket, as of now.
	shown *schema.Image
	now   int64
}

// charge makes the charge of a grant, like that of a lease whose levels were all served.
func (g *grant) charge() *charge {
	s, amounts := g.by, make(Amounts, plan.MostNeeds)
	for i := range s.cfg.Limits {
		if g.needs[i] != unnamed {
			amounts[s.cfg.Limits[i].Name] = g.needs[i] / milli
		}
	}
	c := cascade{}.with(s.lane, s.cfg, amounts)
	at := &c.rungs[0]
	at.served, at.shown, at.now = true, g.shown, g.now
	held := &charge{}
	r := &request{entity: s.lane.Entity, resource: s.lane.Resource, amounts: amounts, opts: acquireOptions{given: s.desk.routes.strangers}}
	held.open(s.desk, r, &c, s.policy)
	held.bookServed()
	return held
}
