package dynalimit

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// planClaim decides a claim: every limit of the item is credited up to now and
// the refill instant moves; a newer configuration comes with it.
func (v view) planClaim(s sums, others crowding) plan {
	m := v.image
	c := schema.Claim{Seen: m, Refilled: max(m.Refilled, v.now), Fingerprint: m.Fingerprint, ConfigRead: m.ConfigRead, Backs: s.hasBack()}
	if v.adopt {
		c.Fingerprint, c.ConfigRead = v.cfg.fingerprint, max(m.ConfigRead, v.cfg.readAt-configMarginMS)
	}
	b := claimBuilder{view: v, claim: &c, others: others}
	for i, name := range m.Set.Names {
		b.stored(i, name, s.of(name))
	}
	if v.adopt {
		for j := range v.cfg.limits {
			b.added(&v.cfg.limits[j], s)
		}
	}
	b.expire()
	return plan{kind: planClaim, claim: &c, guess: others.guess(v.now)}
}

// claimBuilder collects the limits of a claim, and what each leaves, until the
// expiry that covers them all is known.
type claimBuilder struct {
	view  view
	claim *schema.Claim
	// others are those who write beside it.
	others crowding
	// kept are the outcomes of the limits credited, by their place in the
	// claim; rates are what all limits refill at afterwards.
	kept    map[int]outcome
	longest int64 // the longest time to fill, in ms
}

// fills notes a limit that the claim leaves at level, at least.
func (b *claimBuilder) fills(rate bucket.Rate, level int64) {
	b.longest = max(b.longest, rate.FillTime(-level))
}

// stored decides limit i of the image.
func (b *claimBuilder) stored(i int, name string, a named) {
	v, l := b.view, &b.view.image.Limits[i]
	configuredAs := v.changed(i)
	gone := configuredAs == nil && v.adopt
	if l.Ghost {
		switch {
		case configuredAs != nil:
			b.adopted(l, configuredAs, a)
		case gone:
			b.claim.Limits = append(b.claim.Limits, schema.ClaimLimit{Name: name, Kind: schema.ClaimRemoveGhost, Seen: *l})
		}
		return
	}
	state := v.state(i)
	if gone && a.nothing() && state.Level(v.now) >= l.Burst {
		credit, _ := state.Credit(v.now)
		low := l.Burst - credit
		b.claim.Limits = append(b.claim.Limits, schema.ClaimLimit{
			Name: name, Kind: schema.ClaimRemove, Update: bucket.Update{Low: low, HasLow: true},
		})
		return
	}
	o := v.decide(i, a.Amounts, v.among(b.others, i, a.Take, true))
	o.bound(l.Tokens, a.Back)
	out := schema.ClaimLimit{Name: name, Kind: schema.ClaimKeep, Consumed: a.consumed()}
	rate := l.Rate
	if configuredAs != nil && (configuredAs.rate != l.Rate || configuredAs.capacity != l.Capacity) {
		out.Params, out.Capacity, out.Rate = true, configuredAs.capacity, configuredAs.rate
		rate = configuredAs.rate
	}
	b.fills(rate, o.left(l.Tokens))
	if b.kept == nil {
		b.kept = make(map[int]outcome, len(v.image.Limits))
	}
	b.kept[len(b.claim.Limits)] = o
	b.claim.Limits = append(b.claim.Limits, out)
}

// adopted gives a ghost its parameters. Its tokens are what it was charged from
// full, less what it was given back beyond that.
func (b *claimBuilder) adopted(l *schema.Stored, c *configured, a named) {
	level := min(c.rate.Burst, c.rate.Burst+l.Tokens+a.Back) - a.Take - a.Adjust
	b.fills(c.rate, level)
	b.claim.Limits = append(b.claim.Limits, schema.ClaimLimit{
		Name: c.name, Kind: schema.ClaimAdopt, Seen: *l, Tokens: level, Consumed: a.consumed(),
		Capacity: c.capacity, Rate: c.rate,
	})
}

// added puts a configured limit that the image does not have, full.
func (b *claimBuilder) added(c *configured, s sums) {
	if b.view.image.Set.Index(c.name) >= 0 {
		return
	}
	a := s.of(c.name)
	out := a.Take + a.Adjust
	b.fills(c.rate, c.rate.Burst-out)
	b.claim.Limits = append(b.claim.Limits, schema.ClaimLimit{
		Name: c.name, Kind: schema.ClaimAdd, Tokens: c.rate.Burst - out, Consumed: out + a.Late, Capacity: c.capacity, Rate: c.rate,
	})
}

// expire sets the expiry and bounds every credited limit by the deepest debt it
// covers: a limit in deeper debt than the image shows must not be forgotten.
func (b *claimBuilder) expire() {
	v, c := b.view, b.claim
	permanent := v.image.TTL == 0
	if v.adopt {
		permanent = v.cfg.permanent
	}
	if !permanent {
		c.TTL = expiry(v.now, b.longest)
	}
	for place, o := range b.kept {
		l := &c.Limits[place]
		if c.TTL > 0 && !o.update.Full {
			rate := l.Rate
			if !l.Params {
				rate = v.image.Limits[v.image.Set.Index(l.Name)].Rate
			}
			o.raiseLow(o.floor(min(maxDebt, rate.DebtCovered(c.TTL*1000-v.now))))
		}
		l.Update = o.update
	}
}

// projected is the image as a claim of the view's configuration would leave it,
// worth the same at the view's time.
func (v view) projected() *schema.Image {
	if v.image == nil || !v.adopt {
		return v.image
	}
	after := *v.image
	after.Refilled, after.Limits = v.now, slices.Clone(after.Limits)
	for i := range after.Limits {
		l, c := &after.Limits[i], v.changed(i)
		switch {
		case l.Ghost && c != nil:
			l.Tokens, l.Ghost = min(c.rate.Burst, c.rate.Burst+l.Tokens), false
		case !l.Ghost:
			l.Tokens = v.state(i).Level(v.now)
		}
		if c != nil {
			l.Rate, l.Capacity = c.rate, c.capacity
		}
	}
	return &after
}
