package call

import (
	"cmp"
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// denyFromMemory denies from memory, as of now, if the last image of any level does; it then returns served
// amounts to the stocks. denied is nil if no image denies, and if a lane must decide. memory is false if
// another level had to be read, because a denial's wait is the longest of all levels.
func (t *taking) denyFromMemory(ctx context.Context, now int64) (denied *Denied, memory bool) {
	by := t.by
	results, unknown := make([]lane.Result, 0, 3), make([]int, 0, 3) // room for most, on the stack
	denies := false
	for i := range t.levels {
		lv := &t.levels[i]
		results = append(results, lane.Result{})
		if len(lv.asked) == 0 || lv.served || t.at != nil && lv.lane == t.at.lane { // in its line the caller's turn has come
			continue
		}
		var recent bool
		if results[i], recent = lv.lane.Memory.Recall(lv.asked, lv.cfg, by, now); !recent {
			unknown = append(unknown, i)
		}
		denies = denies || results[i].Denied
	}
	if !denies {
		return nil, false
	}
	for _, i := range unknown {
		if lv := &t.levels[i]; !lv.lane.Contact.Away() {
			var ok bool
			if results[i], ok = inspectBucket(ctx, lv.lane, lv.cfg, lv.asked, by); !ok {
				return nil, false // the lanes will find the reason, and make its error
			}
		}
	}
	for i := range results {
		t.levels[i].answered = false // served amounts are put back
		t.levels[i].noteAnswer(results[i])
	}
	denied = t.levels.denial(t.request)
	if t.desk.Lanes.Horizon != nil {
		t.levels.putBackServed(ctx)
	}
	return denied, len(unknown) == 0
}

// inspectBucket reads a level's bucket for a denial and returns its answer, with the amounts left to waiters.
// ok is false if the lane must decide: the bucket could not be read, lacks a limit, or must get a newer
// configuration.
func inspectBucket(ctx context.Context, at *lane.Lane, cfg *plan.Config, asked []plan.Signed, by lane.Caller) (r lane.Result, ok bool) {
	beside := lane.BesideOf(at)
	v, err := beside.Inspect(ctx, cfg, nil)
	if err != nil || v.Missing(asked) != "" || v.Adopt && v.Image != nil {
		return r, false
	}
	reading := v.Reading()
	reading.Image, reading.Batch = v.Projected(), by.Batch
	r = lane.Result{Image: reading.Image, Now: v.Now, Config: v.Config}
	r.Before.Left = at.Memory.LeftTo(by.Rank, reading)
	return r, true
}

// The path of a call that memory decides: by prefetched tokens, or by a denial. Such calls charge one bucket,
// and always the same one for an entity on a resource. The lane caches the way there, so the next one costs
// one look-up, one read of the clock, and the work under the lane's lock. A call that its bucket grants makes
// no shortcut, but one that exists outlives it.

// shortcut answers calls without options of one entity on one resource from memory. Only its denied
// changes.
type shortcut struct {
	desk *Desk
	lane *lane.Lane
	// ahead prefetches tokens of the lane's bucket; nil if its resource has no prefetch.
	ahead *lane.Ahead
	cfg   *plan.Config
	// policy is the policy of calls without money. Calls with money are never served from memory.
	policy Policy
	// resolved is the configuration that cfg is made of.
	resolved config.Held
	// denied is the last denial; the lane's lock guards it.
	denied plan.Denial
}

// unnamed is the need of a limit that a call does not name.
const unnamed = -1

// Memory is the decision of Try: the grant or the denial.
type Memory struct {
	Grant  Grant
	Denial Denial
}

// Decision is the kind of a decision from memory.
type Decision uint8

const (
	// Undecided leaves a call to Take.
	Undecided Decision = iota
	// Served is a grant of prefetched tokens.
	Served
	// Refused is a denial by the last image of the bucket.
	Refused
)

// Try decides a call without options by the shortcut to its bucket, and fills in the grant or the denial. It
// returns Undecided without a fresh shortcut, for a paused bucket, for invalid amounts, and if memory cannot
// decide.
func (d *Desk) Try(ctx context.Context, entity, resource string, amounts map[string]int64, m *Memory) Decision {
	s, known := d.Lanes.Memo(entity, resource).(*shortcut)
	if !known || ctx.Err() != nil || d.Table.Open() || d.Routes.namespace != nil && d.Routes.namespace.inactive() != nil {
		return Undecided
	}
	bucket := s.lane
	source, at := d.readClock()
	needs := &m.Grant.needs
	if bucket.Pause.Until() > at.MS || !d.Routes.configs.Still(&s.resolved, source) || !s.fillNeeds(amounts, needs) {
		return Undecided
	}
	if s.ahead != nil {
		if shown, ok := s.ahead.ServeNeeds(ctx, needs, s.cfg, at); ok {
			m.Grant.by, m.Grant.shown, m.Grant.now = s, shown, at.MS
			return Served
		}
	}
	denied := &m.Denial
	if denied.Image, denied.Outlooks = bucket.Memory.Denies(needs, s.cfg, &s.denied, at.MS); denied.Image == nil {
		return Undecided
	}
	denied.Lane, denied.Config, denied.Needs = bucket, s.cfg, *needs
	return Refused
}

// readClock reads the clock once, or twice if the limiter has a clock of its own. source is for the age of
// configurations, and at for buckets and prefetched tokens.
func (d *Desk) readClock() (source time.Time, at lane.Instant) {
	clock := d.Routes.clock
	source = clock.Source()
	elapsed := source.Sub(d.Lanes.Began)
	if !d.machine {
		elapsed = time.Since(d.Lanes.Began)
	}
	if at.Elapsed = elapsed.Milliseconds(); d.ownClock {
		at.MS = d.NowMS()
	} else {
		at.MS = clock.Corrected(source).UnixMilli()
	}
	return source, at
}

// makeShortcut stores in a bucket's lane the shortcut of a call that memory has decided. It does nothing unless
// all calls like it charge that one bucket alone.
func (d *Desk) makeShortcut(r *Request, bucket *lane.Lane) {
	own := r.placeAt(r.Entity, false)
	held, ok := d.Routes.configs.Hold(own.Key)
	of := held.Value
	if !ok || of.Blocked != "" || of.Unlimited || len(of.Groups) > 0 || r.nextPlace(own, of).Entity != "" || d.Routes.lookups.refuse && !of.Recorded {
		return
	}
	cfg := d.Routes.fallback.LimitsOf(of, false)
	if memo := bucket.Memo.Load(); cfg == nil || cfg.Shadow != 0 || cfg.Slots || len(cfg.Limits) > plan.MostNeeds || memo != nil && memo.Of.(*shortcut).resolved == held {
		return
	}
	s := &shortcut{desk: d, lane: bucket, cfg: cfg, policy: cmp.Or(Policy(of.OnUnavailable), d.Routes.onUnavailable), resolved: held}
	if d.Lanes.Horizon != nil {
		s.ahead = lane.AheadOf(bucket)
	}
	bucket.Memo.Store(&lane.Memo{Of: s})
}

// fillNeeds converts amounts to millitokens in of, by the places of the shortcut's limits; a limit without an
// amount gets unnamed. It returns false if they are not valid, name other limits than the shortcut's, or name
// none.
func (s *shortcut) fillNeeds(amounts map[string]int64, of *plan.Needs) bool {
	named := 0
	for i := range s.cfg.Limits {
		n, is := amounts[s.cfg.Limits[i].Name]
		if !is {
			of[i] = unnamed
			continue
		}
		if n < 0 || n > schema.MaxTokens {
			return false
		}
		of[i] = n * milli
		named++
	}
	return named == len(amounts) && named > 0
}

// Denial is a denial by the last image of a bucket: the needs and outlooks of the configuration's limits.
type Denial struct {
	Lane     *lane.Lane
	Config   *plan.Config
	Image    *schema.Image
	Needs    plan.Needs
	Outlooks [plan.MostNeeds]bucket.Outlook
}

// Grant is the state of a lease served from memory until its first use. Then a call is made from it.
type Grant struct {
	by    *shortcut
	needs plan.Needs
	// shown is the last image of the bucket, as of now.
	shown *schema.Image
	now   int64
}

// Call makes the call of a grant, with one level that holds the served amounts, as if it had just been granted.
// It asks no bucket.
func (g *Grant) Call() *Call {
	s, amounts := g.by, make(map[string]int64, plan.MostNeeds)
	for i := range s.cfg.Limits {
		if g.needs[i] != unnamed {
			amounts[s.cfg.Limits[i].Name] = g.needs[i] / milli
		}
	}
	r := Request{Entity: s.lane.Entity, Resource: s.lane.Resource, Amounts: amounts, Options: Options{Given: s.desk.Routes.strangers}}
	c := &Call{desk: s.desk, request: r, charged: charged{policy: s.policy}}
	c.addLevel(s.lane, s.cfg, amounts)
	c.setConsumed()
	lv := &c.levels[0]
	lv.noteAnswer(lane.Result{Image: g.shown, Now: g.now, Config: s.cfg})
	lv.bookServed()
	return c
}
