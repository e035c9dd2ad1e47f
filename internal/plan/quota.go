package plan

import (
	"math"
	"slices"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// A calendar quota differs from a token bucket. A write within the stored window adds on the condition of
// that window. The first write of a later window is a claim that opens it.

// unbounded is the level bound of a quota: a grant lifts it above its burst until the next window.
const unbounded = math.MaxInt64

// setQuotaFacts sets the facts of a stored quota that stays one: its level, the window of the write, and the
// credit that opens it. A later window needs a claim. A changed unit begins in the present window without more
// credit; a changed zone keeps the window until it has passed.
func (v View) setQuotaFacts(r *Row) {
	from := r.state
	if r.to != nil {
		r.opening.Change = r.to.Rate.Burst - from.Burst
		if !r.begins {
			from.Period = r.to.Rate.Period
		}
	}
	r.opening.Credit, _ = from.Credit(v.Now)
	if r.window = max(from.Refilled, from.Windows().At(v.Now)); r.begins {
		r.window = r.to.Rate.Windows().At(v.Now)
	}
	r.level, r.most = r.state.Tokens, unbounded
	if r.opening.Credit > 0 {
		r.level = min(r.state.Burst, r.level+r.opening.Credit)
	}
	r.level += r.opening.Change
	if r.window != r.state.Refilled {
		r.mustClaim, r.ended = true, true
	}
}

// levelAfterKindChange returns the first level, in millitokens, of a limit that replaces a stored one of the
// other kind. Used tokens stay used, so that a change of kind fills nothing.
func levelAfterKindChange(old bucket.State, to bucket.Rate, now int64) int64 {
	return min(to.Burst, bucket.SaturatingAdd(to.Burst, old.Level(now)-old.Burst))
}

// InWindows returns the amounts, each with the window that the function of returns for its limit, so that they
// can be given back there. It copies the list if a window changes, else it returns the list itself.
func InWindows(amounts []Signed, of func(limit string) bucket.WindowID) []Signed {
	copied := false
	for i, a := range amounts {
		window := of(a.Name)
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

// WindowOf returns the window of a limit in an image; 0 for a token bucket, for a missing limit, and for a nil
// image.
func WindowOf(m *schema.Image, name string) bucket.WindowID {
	if m == nil {
		return 0
	}
	if i := m.Set.Index(name); i >= 0 {
		return m.Limits[i].WindowID()
	}
	return 0
}

// SameLives reports whether two images of a bucket show the limits that both have in the same lives.
func SameLives(a, b *schema.Image) bool {
	if a == b {
		return true
	}
	for i, name := range a.Set.Names {
		if j := b.Set.Index(name); j >= 0 && b.Limits[j].Life != a.Limits[i].Life {
			return false
		}
	}
	return true
}

// SameWindows reports whether no limit of both lists has different windows in them.
func SameWindows(a, b []Signed) bool {
	return !slices.ContainsFunc(a, func(one Signed) bool {
		return slices.ContainsFunc(b, func(other Signed) bool { return one.Name == other.Name && one.Window != other.Window })
	})
}

// Quotas are the quotas of a bucket: from an image or, without one, from the configuration.
type Quotas struct {
	Image  *schema.Image
	Config *Config
	// Now is an instant that has certainly passed.
	Now int64
}

// AddCharges returns the pending charges of quotas with newly counted amounts added, each in its present
// window. Amounts of other limits, and of limits in shadow, are left out. It does not change the list charged.
func (q Quotas) AddCharges(charged, counted []Signed) []Signed {
	for _, a := range q.Config.Enforced(counted) {
		if a.Window = configuredWindow(q.Config.rateOf(a.Name), q.Now); a.Window != 0 {
			charged = AddCharge(charged, a)
		}
	}
	return charged
}

// configuredWindow returns the id of a configured quota's window at now, in Unix ms; 0 for another kind. A
// configuration has no lives. The unit takes the place of the life, so that windows of different calendars
// differ.
func configuredWindow(r bucket.Rate, now int64) bucket.WindowID {
	if !r.IsQuota() {
		return 0
	}
	return bucket.InLife(uint16(r.Windows().Unit()), r.WindowAt(now))
}

// AddCharge returns a copy of the pending charges of quotas with a signed amount added; no charge falls below
// 0. Each limit has one window there: the later one or, of different calendars, the amount's. Charges of an
// earlier window are dropped.
func AddCharge(charged []Signed, a Signed) []Signed {
	charged = slices.Clone(charged)
	i := slices.IndexFunc(charged, func(c Signed) bool { return c.Name == a.Name })
	switch {
	case i < 0:
		charged = append(charged, Signed{Name: a.Name, Amount: max(0, a.Amount), Window: a.Window})
	case a.Window.Life() != charged[i].Window.Life() || a.Window > charged[i].Window:
		charged[i] = Signed{Name: a.Name, Amount: max(0, a.Amount), Window: a.Window}
	case a.Window == charged[i].Window:
		charged[i].Amount = max(0, charged[i].Amount+a.Amount)
	}
	return charged
}

// UpdateChange returns the change of limit n by its pending update and its give-back, which goes to its own
// window. It charges a quota its amount in charged, as far as the window covers it, and opens that window if
// needed. Beside a give-back, or in another window, the update goes to the counter alone.
func (q Quotas) UpdateChange(n *Row, charged []Signed) schema.Change {
	c := schema.Change{
		Name: n.Name, Quota: n.Window.IsQuota(), SameLife: n.Back > 0, Update: bucket.Update{Add: n.Back}, Consumed: n.Late - n.Back, Passed: n.Passed, Window: n.Window,
	}
	i := slices.IndexFunc(charged, func(c Signed) bool { return c.Name == n.Name })
	most := int64(0)
	if i >= 0 {
		most = max(0, min(charged[i].Amount, n.Late)) // less the corrections of the counter meanwhile
	}
	if q.Image == nil {
		if c.Quota = c.Quota || q.Config.rateOf(n.Name).IsQuota(); i >= 0 && n.Back == 0 {
			c.Window = charged[i].Window
			c.Update = takeIfAvailable(most)
		}
		return c
	}
	c.Place = q.Image.Set.Index(n.Name)
	if c.Quota = c.Place >= 0 && q.Image.Limits[c.Place].IsQuota(); !c.Quota || i < 0 || n.Back > 0 {
		return c
	}
	seen, is := q.Image.State(c.Place), q.Image.State(c.Place).At(q.Now)
	switch c.Window = charged[i].Window; {
	case c.Window.Life() != uint16(seen.Windows().Unit()): // of another calendar
	case c.Window.Ordinal() == seen.Refilled:
		c.Update = takeIfAvailable(max(0, min(most, seen.Tokens)))
	case c.Window.Ordinal() == is.Refilled:
		if ttl := q.Image.TTL; ttl > 0 && ttl*1000 < q.Now+seen.FillTime(0) {
			break // it could be deleted, and come back full, before the window ends
		}
		c.Update = bucket.Update{Full: true, Put: is.Tokens - max(0, min(most, is.Tokens))}
	}
	return c
}

// takeIfAvailable returns the update that takes an amount, in millitokens, and lands only if the limit has that
// many tokens. An amount of 0 has no condition.
func takeIfAvailable(amount int64) bucket.Update {
	return bucket.Update{Add: -amount, Low: amount, HasLow: amount > 0}
}

// chargedLate returns the part of a's pending update that a new quota is charged, in millitokens, at most what
// a's other charges leave. It is 0 if the update is of another window than that of now, and for a token bucket.
func chargedLate(r bucket.Rate, a *Row, now int64) int64 {
	if !r.IsQuota() || a.Window != configuredWindow(r, now) {
		return 0
	}
	return max(0, min(a.Late, r.Burst-a.Take-a.Adjust))
}
