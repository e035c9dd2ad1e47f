package plan

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// What a calendar quota does differently from a token bucket: a write within its window adds
// under that window, and the first write of a later one is a claim that opens it.

// ofQuota reports whether limit i of the image is a quota that holds tokens.
func (v View) ofQuota(i int) bool { return v.tracked(i) && v.Image.Limits[i].IsQuota() }

// opening is how a write goes about the window of quota i, and which one it is in then. A
// changed unit begins in the window of now without more credit; a changed zone keeps the
// window until it has passed.
func (v View) opening(i int) (o bucket.Opening, window int64) {
	s := v.Image.State(i)
	c, from := v.changed(i), s
	if c != nil && c.Rate.IsQuota() {
		o.Change = c.Rate.Burst - s.Burst
		if c.Rate.Windows().Unit() == s.Windows().Unit() {
			from.Period = c.Rate.Period
		}
	}
	o.Credit, _ = from.Credit(v.Now)
	window = max(s.Refilled, from.Windows().At(v.Now))
	if c != nil && c.Rate.IsQuota() && c.Rate.Windows().Unit() != s.Windows().Unit() {
		window = c.Rate.Windows().At(v.Now)
	}
	return o, window
}

// quotaRoom is what quota i holds for a take, after back has been given back.
func (v View) quotaRoom(i int, back int64) int64 {
	o, _ := v.opening(i)
	l := &v.Image.Limits[i]
	level := l.Tokens
	if o.Credit > 0 {
		level = min(l.Burst, level+o.Credit)
	}
	return level + o.Change + back
}

// decideQuota returns the update of quota i.
func (v View) decideQuota(i int, a bucket.Amounts) outcome {
	o, _ := v.opening(i)
	s := v.Image.State(i)
	u, _ := s.DecideQuota(a, o)
	return outcome{update: u, base: o.Credit + o.Change + a.Back, burst: s.Burst + o.Change, taken: a.Take + a.Adjust}
}

// opens reports whether the next write of limit i has to open a window.
func (v View) opens(i int) bool { return v.ofQuota(i) && v.Image.State(i).Opens(v.Now) }

// Of is what sums do to a limit of the view. What was taken from a quota in another window than
// the one that the write is in is not given back to its tokens: that window has ended. The same
// goes for what was taken from a limit of another kind.
func (v View) Of(s Sums, name string) Named { return v.windowed(s.Of(name)) }

func (v View) windowed(n Named) Named {
	if n.Back == 0 && n.Window == 0 || v.Image == nil {
		return n
	}
	i := v.Image.Set.Index(n.Name)
	if !v.tracked(i) {
		return n
	}
	window := int64(0)
	if v.ofQuota(i) {
		_, window = v.opening(i)
	}
	if n.Window != window || v.Image.Limits[i].Window != window || v.replaced(i) {
		n.Late -= n.Back
		n.Back = 0
	}
	return n
}

// replaced reports whether the write makes limit i one of the other kind.
func (v View) replaced(i int) bool {
	c := v.changed(i)
	return c != nil && v.tracked(i) && c.Rate.IsQuota() != v.Image.Limits[i].IsQuota()
}

// replacement is what a limit of the other kind, of a rate, begins with in place of limit i:
// what is used of the old one stays used, so that no change of kind fills anything.
func (v View) replacement(i int, to bucket.Rate) int64 {
	old := v.Image.State(i)
	return min(to.Burst, bucket.SaturatingAdd(to.Burst, old.Level(v.Now)-old.Burst))
}

// windowOf is the window of a rate at now; 0 of a token bucket.
func windowOf(r bucket.Rate, now int64) int64 {
	if !r.IsQuota() {
		return 0
	}
	return r.Windows().At(now)
}

// replace puts a limit of the other kind in the place of limit i.
func (b *claimBuilder) replace(i int, c *Limit, a Named) {
	l := &b.view.Image.Limits[i]
	level := b.view.replacement(i, c.Rate) - a.Take - a.Adjust
	b.coverFill(c.Rate, level)
	b.claim.Limits = append(b.claim.Limits,
		schema.ClaimLimit{Name: c.Name, Kind: schema.ClaimReplace, Seen: *l},
		schema.ClaimLimit{
			Name: c.Name, Kind: schema.ClaimAdd, Tokens: level, Consumed: bucket.SaturatingAdd(l.Consumed, a.Consumed()), Passed: l.Passed + a.Passed(),
			Capacity: c.Capacity, Rate: c.Rate, Window: windowOf(c.Rate, b.view.Now),
		})
}

// InWindows are amounts with the windows of the quotas of an image, so that what was taken in
// them can be given back.
func InWindows(m *schema.Image, amounts []Signed) []Signed {
	copied := false
	for i, a := range amounts {
		window := WindowOf(m, a.Name)
		if window == a.Window {
			continue
		}
		if !copied {
			amounts, copied = slices.Clone(amounts), true
		}
		amounts[i].Window = window
	}
	return amounts
}

// WindowOf is the window of a limit that an image shows; 0 of a token bucket and of none.
func WindowOf(m *schema.Image, name string) int64 {
	if m == nil {
		return 0
	}
	if i := m.Set.Index(name); i >= 0 {
		return m.Limits[i].Window
	}
	return 0
}

// Unopened is the instant by which a write is decided: now, or, if it is not sure that a
// window of a quota has begun, the instant that has surely passed. So no window is opened by a
// clock that is ahead.
func Unopened(m *schema.Image, cfg *Config, sure, now int64) int64 {
	if sure >= now {
		return now
	}
	begins := func(r bucket.Rate) bool { return windowOf(r, sure) != windowOf(r, now) }
	if m != nil && slices.ContainsFunc(m.Limits, func(l schema.Stored) bool { return begins(l.Rate) }) ||
		cfg != nil && slices.ContainsFunc(cfg.Limits, func(l Limit) bool { return begins(l.Rate) }) {
		return sure
	}
	return now
}

// GivenBack is what a write that only gives back does to a limit, and whether that is a quota,
// as far as is known.
func (v View) GivenBack(n Named) (given Named, quota bool) {
	if v.Image == nil {
		return n, n.Window != 0
	}
	return v.windowed(n), v.ofQuota(v.Image.Set.Index(n.Name))
}

// SameWindows reports whether two lists were taken in the same windows.
func SameWindows(a, b []Signed) bool {
	return !slices.ContainsFunc(a, func(one Signed) bool {
		return slices.ContainsFunc(b, func(other Signed) bool { return one.Name == other.Name && one.Window != other.Window })
	})
}

// Quotas are the quotas of a bucket as far as is known: as an image shows them or, without
// one, as they are configured.
type Quotas struct {
	Image  *schema.Image
	Config *Config
	Now    int64
}

// Charge says whether a limit is a quota, and what of what was counted without it is charged to
// its tokens, in which window: as much as it has. What is given back goes by its own window.
func (q Quotas) Charge(n Named) (quota bool, window, take int64) {
	if q.Image == nil {
		r := q.Config.rateOf(n.Name)
		if !r.IsQuota() {
			return n.Window != 0, n.Window, 0
		}
		window, take = windowOf(r, q.Now), max(0, n.Late)
	} else {
		i := q.Image.Set.Index(n.Name)
		if i < 0 || !q.Image.Limits[i].IsQuota() {
			return false, 0, 0
		}
		l := &q.Image.Limits[i]
		window, take = l.Window, max(0, min(n.Late, l.Tokens))
	}
	if n.Back > 0 && n.Window != window {
		return true, n.Window, 0
	}
	return true, window, take
}

// rateOf is the rate of a limit; a zero one if it is not configured.
func (c *Config) rateOf(name string) (r bucket.Rate) {
	if i := c.Index(name); i >= 0 {
		r = c.Limits[i].Rate
	}
	return r
}

// chargedLate is what a quota that is made is charged of what was counted without it.
func chargedLate(r bucket.Rate, a Named) int64 {
	if !r.IsQuota() {
		return 0
	}
	return max(0, min(a.Late, r.Burst-a.Take-a.Adjust))
}
