package dynalimit

import (
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// The decisions: what to write, given a bucket's last image, its configuration,
// the time and the sums of a batch. Everything here is pure; section 5 of
// docs/design/protocol.md says why each bound is what it is.

const (
	// ttlFills is how many times the longest fill an expiry lies ahead.
	ttlFills = 7
	// minTTLSeconds is the least an expiry lies ahead.
	minTTLSeconds = 3600
	// maxTTLSeconds is the most an expiry can cover; a slower bucket has none.
	maxTTLSeconds = 50 * 365 * 24 * 3600
	// housekeepingMS is the age of the refill instant at which a write moves it.
	housekeepingMS = 3_600_000
	// configMarginMS is what a stored instant of a config read lies back, and
	// how close two such instants are too close to tell.
	configMarginMS = 1000
)

// named is what a batch does to one limit.
type named struct {
	name string
	bucket.Amounts
	// Late is what the counter is charged and the tokens are not: it was used so
	// long ago that the bucket has refilled it.
	Late int64
}

// sums are the amounts of a batch, in name order.
type sums []named

// at returns the place for a limit, making one if need be.
func (s *sums) at(name string) *named {
	i, ok := slices.BinarySearchFunc(*s, name, func(n named, name string) int { return strings.Compare(n.name, name) })
	if !ok {
		*s = slices.Insert(*s, i, named{name: name})
	}
	return &(*s)[i]
}

// of returns the amounts of a limit.
func (s sums) of(name string) named {
	for i := range s {
		if s[i].name == name {
			return s[i]
		}
	}
	return named{name: name}
}

// consumed is the change of the limit's counter.
func (n named) consumed() int64 { return n.Take + n.Adjust + n.Late - n.Back }

// nothing says that nothing is done to the limit.
func (n named) nothing() bool { return n.Amounts == (bucket.Amounts{}) && n.Late == 0 }

// standing is how a configuration relates to the one a bucket was written with.
type standing uint8

const (
	current standing = iota // the same
	newer                   // to be claimed
	older                   // the bucket's own decides
	unsure                  // too close to tell: read the configuration again
)

// stand compares a configuration with the image's. seenTick is when this process
// first saw the image's fingerprint: a read begun after that is newer whatever
// the clocks say.
func stand(m *schema.Image, cfg *bucketConfig, seenTick int64) standing {
	switch {
	case m == nil || m.Fingerprint == nil || !m.HasRefilled:
		return newer
	case string(m.Fingerprint) == string(cfg.fingerprint):
		return current
	case cfg.override || cfg.tick > seenTick:
		return newer
	}
	stored := m.ConfigRead + configMarginMS // the instant itself
	switch {
	case cfg.readAt > stored+configMarginMS:
		return newer
	case cfg.readAt < stored-configMarginMS:
		return older
	}
	return unsure
}

// view is an image under the configuration that decides: what each limit is
// worth, and what a write of it must do.
type view struct {
	image *schema.Image
	cfg   *bucketConfig
	// adopt says that the write brings cfg: parameters change, limits appear.
	adopt bool
	now   int64
}

func newView(m *schema.Image, cfg *bucketConfig, s standing, now int64) view {
	return view{image: m, cfg: cfg, adopt: s == newer, now: now}
}

// state returns limit i of the image, with the smaller of both bursts where a
// claim changes it.
func (v view) state(i int) bucket.State {
	s := v.image.State(i)
	if c := v.changed(i); c != nil && c.rate.Burst < s.Burst {
		s.Burst = c.rate.Burst
	}
	return s
}

// changed returns the new parameters of limit i if the write brings any.
func (v view) changed(i int) *configured {
	if !v.adopt {
		return nil
	}
	if j := v.cfg.index(v.image.Set.Names[i]); j >= 0 {
		return &v.cfg.limits[j]
	}
	return nil
}

// room is what a take of a limit may use, with back given back first. known is
// false when neither the image nor an adopted configuration has the limit.
func (v view) room(name string, back int64) (room int64, known bool) {
	i := -1
	if v.image != nil {
		i = v.image.Set.Index(name)
	}
	if i >= 0 && !v.image.Limits[i].Ghost {
		s := v.state(i)
		credit, ok := s.Credit(v.now)
		if !ok {
			return s.Burst, true
		}
		return min(s.Burst, s.Tokens+credit+back), true
	}
	if v.image != nil && !v.adopt {
		return 0, false
	}
	j := v.cfg.index(name)
	if j < 0 {
		return 0, false
	}
	burst := v.cfg.limits[j].rate.Burst
	if i >= 0 { // a ghost: what it was charged, from full
		return min(burst, burst+v.image.Limits[i].Tokens+back), true
	}
	return burst, true
}

// lacks reports whether the image is without one of the limits, which only a
// claim can bring.
func (v view) lacks(amounts []signed) bool {
	return slices.ContainsFunc(amounts, func(a signed) bool {
		_, known := v.room(a.name, 0)
		return !known
	})
}

// planKind is the shape of a write.
type planKind uint8

const (
	planNothing planKind = iota // nothing to write
	planCreate
	planSpend
	planClaim
)

// plan is a write that has been decided; the op id is added when it is sent.
type plan struct {
	kind   planKind
	spend  schema.Spend
	create *schema.Create
	claim  *schema.Claim
	// housekeeping says that the claim could have been a spend.
	housekeeping bool
	// guess is the form that was chosen for full limits (see crowding).
	guess bucket.Form
}

// planRules are what a caller asks of a plan beside the amounts.
type planRules struct {
	// tidy allows a claim that nothing but age asks for.
	tidy bool
	// later makes an adjust commute with claims: for one that was refused
	// again and again.
	later bool
	// crowding says what is known of others who write at full.
	crowding crowding
}

// plan decides the write for the sums, whose takes must fit (see room). It
// returns planNothing when there is nothing to charge and nothing to give back
// to.
func (v view) plan(s sums, rules planRules) plan {
	if v.image == nil {
		return v.planCreate(s)
	}
	claim, housekeeping := v.mustClaim(s), false
	if !claim && rules.tidy && v.now-v.image.Refilled > housekeepingMS {
		claim, housekeeping = true, true
	}
	if !claim {
		if p, ok := v.planSpend(s, rules); ok {
			return p
		}
	}
	p := v.planClaim(s, rules.crowding)
	p.housekeeping = housekeeping
	return p
}

// planCreate puts every configured limit at its burst less what is taken. A
// bucket is made only to be charged: a refund to a missing one is dropped.
func (v view) planCreate(s sums) plan {
	charged := false
	c := schema.Create{
		Refilled: v.now, Fingerprint: v.cfg.fingerprint, ConfigRead: v.cfg.readAt - configMarginMS,
		Limits: make([]schema.CreateLimit, len(v.cfg.limits)),
	}
	for i, l := range v.cfg.limits {
		a := s.of(l.name)
		out := a.Take + a.Adjust
		charged = charged || out > 0 || a.Late > 0
		c.Limits[i] = schema.CreateLimit{Name: l.name, Tokens: l.rate.Burst - out, Consumed: out + a.Late, Capacity: l.capacity, Rate: l.rate}
	}
	if !charged {
		return plan{kind: planNothing}
	}
	if !v.cfg.permanent {
		longest := int64(0)
		for _, l := range c.Limits {
			longest = max(longest, l.Rate.FillTime(-l.Tokens))
		}
		c.TTL = expiry(v.now, longest)
	}
	return plan{kind: planCreate, create: &c}
}

// expiry is the ttl of a bucket whose slowest limit fills in fill ms: 0, none,
// when that is too far ahead.
func expiry(now, fill int64) int64 {
	seconds := fill/1000 + 1
	if seconds > maxTTLSeconds/ttlFills {
		return 0
	}
	return now/1000 + 1 + max(minTTLSeconds, ttlFills*seconds)
}

// mustClaim reports whether a spend cannot carry the sums.
func (v view) mustClaim(s sums) bool {
	if v.adopt || !v.image.HasRefilled || v.image.Fingerprint == nil {
		return true
	}
	for _, n := range s {
		i := v.image.Set.Index(n.name)
		if i < 0 || v.image.Limits[i].Ghost {
			continue // an adjust of what is not there is dropped
		}
		if _, ok := v.image.State(i).Credit(v.now); !ok {
			return true
		}
	}
	return false
}

// outcome is what a limit's update leaves, at the least that its bounds allow.
type outcome struct {
	update bucket.Update
	// base is tokens → level before takes: level = tokens + base. A full bucket
	// has its burst, less the slack of the update.
	base, burst int64
	// out is what is taken from that level.
	out int64
}

// decide returns the update of limit i.
func (v view) decide(i int, a bucket.Amounts, w bucket.Way) outcome {
	s := v.state(i)
	credit, _ := s.Credit(v.now)
	u, _ := s.Decide(v.now, a, w)
	return outcome{update: u, base: credit + a.Back, burst: s.Burst - w.Slack, out: a.Take + a.Adjust}
}

// among is how a write goes about limit i among others who write.
func (v view) among(c crowding, i int, take int64, move bool) bucket.Way {
	return c.way(v.state(i).Rate, take, v.now, move)
}

// raiseLow puts the lower bound at floor at least.
func (o *outcome) raiseLow(floor int64) {
	if !o.update.HasLow || floor > o.update.Low {
		o.update.Low, o.update.HasLow = floor, true
	}
}

// debt is the deepest debt the update can leave, given its lower bound.
func (o *outcome) debt() int64 { return max(0, -o.left(o.update.Low)) }

// left is the level that the update leaves of some tokens.
func (o *outcome) left(tokens int64) int64 {
	if o.update.Full {
		return o.burst - o.out
	}
	return tokens + o.base - o.out
}

// floor is the least tokens from which the update leaves a debt of at most d.
func (o *outcome) floor(d int64) int64 { return o.out - o.base - d }

// planSpend decides a spend; false when the expiry is too near for it.
func (v view) planSpend(s sums, rules planRules) (plan, bool) {
	p := plan{kind: planSpend, guess: rules.crowding.guess(v.now), spend: schema.Spend{Seen: v.image, Limits: make([]schema.SpendLimit, 0, len(s))}}
	ttl, later := int64(0), rules.later
	for _, n := range s {
		i := v.image.Set.Index(n.name)
		if i < 0 || v.image.Limits[i].Ghost || n.nothing() {
			continue
		}
		o := v.decide(i, n.Amounts, v.among(rules.crowding, i, n.Take, false))
		if n.Back > 0 || n.Take > 0 || o.update.Full {
			later = false // only a plain charge below full commutes with claims
		}
		need, ok := v.spendExpiry(i, &o, rules.later)
		if !ok || o.update.HasLow && !o.update.Full && o.update.Low > o.update.High {
			return plan{}, false
		}
		o.bound(v.image.Limits[i].Tokens, n.Back)
		ttl = max(ttl, need)
		p.spend.Backs = p.spend.Backs || n.Back > 0
		p.spend.Limits = append(p.spend.Limits, schema.SpendLimit{
			Index: i, Update: o.update, Consumed: n.consumed(),
		})
	}
	if len(p.spend.Limits) == 0 {
		return plan{kind: planNothing}, true
	}
	p.spend.TTL, p.spend.LaterRefill = ttl, later
	return p, true
}

// spendExpiry returns the earliest expiry, in seconds, that the update of limit
// i may leave: every limit must be full again before the item can be deleted.
// A charge without a lower bound gets one, the deepest debt the expiry covers;
// later says that part of the credit may be in the tokens already, so none is
// counted on. ok is false when the expiry must move.
func (v view) spendExpiry(i int, o *outcome, later bool) (seconds int64, ok bool) {
	if o.out == 0 {
		return 0, true // gives back: fuller sooner
	}
	rate := v.image.Limits[i].Rate
	ttl := v.image.TTL
	if !o.update.HasLow {
		if ttl == 0 {
			seconds = seconds1(v.now, rate.FillTime(-o.left(v.image.Limits[i].Tokens)))
			return seconds, true
		}
		covered := min(maxDebt, rate.DebtCovered(ttl*1000-v.now))
		floor := o.floor(covered)
		if later {
			floor = o.out - covered
		}
		if covered < 0 || v.image.Limits[i].Tokens < floor {
			return 0, false
		}
		o.raiseLow(floor)
		return ttl, true
	}
	seconds = seconds1(v.now, rate.FillTime(o.debt()))
	return seconds, ttl == 0 || ttl >= seconds
}

// seconds1 is the first whole second at or after now + ms.
func seconds1(now, ms int64) int64 {
	if ms > maxTTLSeconds*1000 {
		ms = maxTTLSeconds * 1000
	}
	return (now + ms + 999) / 1000
}
