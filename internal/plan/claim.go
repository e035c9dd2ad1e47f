package plan

import (
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// planClaim decides a claim: it credits every limit of the item up to now, moves the
// refill instant, and writes a newer configuration if there is one.
func (v View) planClaim(s Sums, others Crowding) Write {
	m := v.Image
	c := schema.Claim{Seen: m, Refilled: max(m.Refilled, v.Now), Fingerprint: m.Fingerprint, ConfigRead: m.ConfigRead, Backs: s.HasBack()}
	if v.Adopt {
		c.Fingerprint, c.ConfigRead = v.Config.Fingerprint, max(m.ConfigRead, v.Config.ReadAt-configMarginMS)
	}
	b := claimBuilder{view: v, claim: &c, others: others}
	for i, name := range m.Set.Names {
		b.addStored(i, name, v.Of(s, name))
	}
	if v.Adopt {
		for j := range v.Config.Limits {
			b.addConfigured(&v.Config.Limits[j], s)
		}
	}
	b.setExpiry()
	return Write{Kind: Claim, Claim: &c, Guess: others.guess(v.Now)}
}

// claimBuilder collects the limits of a claim and what each of them leaves, until the
// expiry that covers all of them is known.
type claimBuilder struct {
	view  View
	claim *schema.Claim
	// others is what is known of other processes that write to the bucket.
	others Crowding
	// kept are the outcomes of the limits that are credited, by their index in the
	// claim.
	kept    map[int]outcome
	longest int64 // the longest time to fill, in ms
}

// coverFill makes the expiry cover a limit that the claim leaves at level or above.
func (b *claimBuilder) coverFill(rate bucket.Rate, level int64) {
	b.longest = max(b.longest, rate.FillTime(-level))
}

// addStored decides limit i of the image.
func (b *claimBuilder) addStored(i int, name string, a Named) {
	v, l := b.view, &b.view.Image.Limits[i]
	configuredAs := v.changed(i)
	unconfigured := configuredAs == nil && v.Adopt
	if l.Ghost {
		switch {
		case configuredAs != nil:
			b.adoptGhost(l, configuredAs, a)
		case unconfigured:
			b.claim.Limits = append(b.claim.Limits, schema.ClaimLimit{Name: name, Kind: schema.ClaimRemoveGhost, Seen: *l})
		}
		return
	}
	if v.replaced(i) {
		b.replace(i, configuredAs, a)
		return
	}
	state := v.state(i)
	if unconfigured && a.isZero() && state.Level(v.Now) >= l.Burst && (l.Life == 0 || len(v.Image.Set.Names)+len(v.Config.Limits) > schema.MaxStored) { // one that has begun anew stays, full, so that its lives are not counted from 0 again
		credit, _ := state.Credit(v.Now)
		low := l.Burst - credit
		b.claim.Limits = append(b.claim.Limits, schema.ClaimLimit{
			Name: name, Kind: schema.ClaimRemove, Update: bucket.Update{Low: low, HasLow: true}, Seen: *l,
		})
		return
	}
	o := v.decide(i, a.Amounts, v.wayOf(b.others, i, a.Take, true))
	o.boundDebt(l.Tokens, a.Back)
	out := schema.ClaimLimit{Name: name, Kind: schema.ClaimKeep, Consumed: a.Consumed(), Passed: a.Passed(), Seen: *l, Backs: a.Back > 0}
	if v.ofQuota(i) {
		_, out.Window = v.quota(i).opening()
	}
	if begins(l, configuredAs) {
		out.Life = lifeAfter(l, configuredAs)
	}
	rate := l.Rate
	if configuredAs != nil && (configuredAs.Rate != l.Rate || configuredAs.Capacity != l.Capacity) {
		out.Params, out.Capacity, out.Rate = true, configuredAs.Capacity, configuredAs.Rate
		rate = configuredAs.Rate
	}
	b.coverFill(rate, o.levelAfter(l.Tokens))
	if b.kept == nil {
		b.kept = make(map[int]outcome, len(v.Image.Limits))
	}
	b.kept[len(b.claim.Limits)] = o
	b.claim.Limits = append(b.claim.Limits, out)
}

// replace puts a limit of the other kind in the place of limit i.
func (b *claimBuilder) replace(i int, c *Limit, a Named) {
	l := &b.view.Image.Limits[i]
	level := replacement(b.view.Image.State(i), c.Rate, b.view.Now) - a.Take - a.Adjust
	b.coverFill(c.Rate, level)
	b.claim.Limits = append(b.claim.Limits,
		schema.ClaimLimit{Name: c.Name, Kind: schema.ClaimReplace, Seen: *l},
		schema.ClaimLimit{
			Name: c.Name, Kind: schema.ClaimAdd, Tokens: level, Consumed: bucket.SaturatingAdd(l.Consumed, a.Consumed()), Passed: l.Passed + a.Passed(),
			Capacity: c.Capacity, Rate: c.Rate, Window: windowOf(c.Rate, b.view.Now), Life: lifeAfter(l, c),
		})
}

// adoptGhost gives a ghost its parameters. Its tokens are its burst, less what it was
// charged, but with no more given back than that.
func (b *claimBuilder) adoptGhost(l *schema.Stored, c *Limit, a Named) {
	if c.Rate.IsQuota() || l.IsQuota() { // of whatever kind it is half of: it is made anew
		level := c.Rate.Burst + min(0, l.Tokens) - a.Take - a.Adjust
		b.coverFill(c.Rate, level)
		b.claim.Limits = append(b.claim.Limits, schema.ClaimLimit{Name: c.Name, Kind: schema.ClaimRemoveGhost, Seen: *l},
			schema.ClaimLimit{Name: c.Name, Kind: schema.ClaimAdd, Tokens: level, Consumed: a.Consumed(), Passed: a.Passed(), Capacity: c.Capacity, Rate: c.Rate, Window: windowOf(c.Rate, b.view.Now)})
		return
	}
	level := min(c.Rate.Burst, c.Rate.Burst+l.Tokens+a.Back) - a.Take - a.Adjust
	b.coverFill(c.Rate, level)
	b.claim.Limits = append(b.claim.Limits, schema.ClaimLimit{
		Name: c.Name, Kind: schema.ClaimAdopt, Seen: *l, Tokens: level, Consumed: a.Consumed(), Passed: a.Passed(),
		Capacity: c.Capacity, Rate: c.Rate,
	})
}

// addConfigured adds a configured limit that the image does not have, full.
func (b *claimBuilder) addConfigured(c *Limit, s Sums) {
	if b.view.Image.Set.Index(c.Name) >= 0 {
		return
	}
	a := s.Of(c.Name)
	out := a.Take + a.Adjust
	b.coverFill(c.Rate, c.Rate.Burst-out)
	b.claim.Limits = append(b.claim.Limits, schema.ClaimLimit{
		Name: c.Name, Kind: schema.ClaimAdd, Tokens: c.Rate.Burst - out, Consumed: out + max(0, a.Late), Passed: a.PassedOn, Capacity: c.Capacity, Rate: c.Rate,
		Window: windowOf(c.Rate, b.view.Now),
	})
}

// setExpiry sets the expiry, and bounds every credited limit by the deepest debt that
// the expiry covers: a limit in deeper debt than the image shows must not be forgotten.
func (b *claimBuilder) setExpiry() {
	v, c := b.view, b.claim
	permanent := v.Image.TTL == 0
	if v.Adopt {
		permanent = v.Config.Permanent
	}
	if !permanent {
		c.TTL = expiry(v.Now, b.longest)
	}
	for index, o := range b.kept {
		l := &c.Limits[index]
		if c.TTL > 0 && !o.update.Full {
			rate := l.Rate
			if !l.Params {
				rate = v.Image.Limits[v.Image.Set.Index(l.Name)].Rate
			}
			o.raiseLow(o.lowestFor(min(MaxDebt, rate.DebtCovered(c.TTL*1000-v.Now))))
		}
		l.Update = o.update
	}
}
