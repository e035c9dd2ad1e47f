package plan

import (
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// planClaim decides a claim: it credits every limit of the item up to now, moves the
// refill instant, and writes a newer configuration if there is one.
func (v View) planClaim(rows Rows, others Crowding) Write {
	m := v.Image
	c := schema.Claim{Seen: m, Refilled: max(m.Refilled, v.Now), Fingerprint: m.Fingerprint, ConfigRead: m.ConfigRead, Backs: rows.HasBack() || v.InFlight != nil && rows.MovesSlots()}
	if v.Adopt {
		c.Fingerprint, c.ConfigRead = v.Config.Fingerprint, max(m.ConfigRead, v.Config.ReadAt-configMarginMS)
	}
	b := claimBuilder{view: v, claim: &c, others: others}
	for i, name := range m.Set.Names {
		b.addStored(&m.Limits[i], v.rowOf(rows, name))
	}
	if v.Adopt {
		for j := range v.Config.Limits {
			if r := v.rowOf(rows, v.Config.Limits[j].Name); r.place < 0 {
				b.add(r, r.level-r.out(), r.out()+max(0, r.Late), r.PassedOn) // full
			}
		}
	}
	b.setExpiry()
	return Write{Kind: Claim, Claim: &c, Guess: others.guessForm(v.Now)}
}

// claimBuilder collects the limits of a claim and their levels, until it knows the expiry that covers all of
// them.
type claimBuilder struct {
	view  View
	claim *schema.Claim
	// others is the estimate of other processes that write to the bucket.
	others Crowding
	// kept are the changes of the limits that are credited.
	kept    []keptLimit
	longest int64 // the longest time to fill, in ms
}

// keptLimit is a limit that is credited: its rate after the claim, and its place in the claim.
type keptLimit struct {
	change
	rate bucket.Rate
	at   int
}

// coverFill makes the expiry at least as late as the time in which a limit fills from a level.
func (b *claimBuilder) coverFill(rate bucket.Rate, level int64) {
	b.longest = max(b.longest, rate.FillTime(-level))
}

// addStored decides the change of a limit of the image, and adds it to the claim. The limit is kept, removed,
// replaced by one of another kind, or adopted as a ghost.
func (b *claimBuilder) addStored(l *schema.Stored, r *Row) {
	unconfigured := r.to == nil && b.view.Adopt
	switch {
	case l.Ghost && r.to != nil:
		b.adoptGhost(l, r)
	case l.Ghost && unconfigured:
		b.remove(schema.RemoveGhost, l, r)
	case l.Ghost:
	case r.replaced: // one of the other kind takes its place
		b.remove(schema.ReplaceLimit, l, r)
		b.add(r, r.level-r.out(), bucket.SaturatingAdd(l.Consumed, r.Consumed()), l.Passed+r.Passed())
	case unconfigured && r.isZero() && r.room() >= l.Burst && (r.moves == nil || l.Tokens >= l.Burst) && (l.Life == 0 || len(b.view.Image.Set.Names)+len(b.view.Config.Limits) > schema.MaxStored): // a limit in a later life stays, full, so that its lives are not counted from 0 again
		b.remove(schema.RemoveLimit, l, r)
	default:
		b.keepStored(l, r)
	}
}

// remove adds the removal of a stored limit to the claim. The write requires a full limit without configuration
// to be full still, and any other limit to be unchanged.
func (b *claimBuilder) remove(kind schema.ChangeKind, l *schema.Stored, r *Row) {
	c := schema.Change{Name: r.Name, Quota: l.IsQuota(), Kind: kind, Place: r.place, Window: bucket.InLife(l.Life, 0)}
	if l.IsSlots() {
		c.Slots = &bucket.Moves{}
	}
	if kind == schema.RemoveLimit {
		c.Low, c.HasLow = l.Burst-r.opening.Credit, true
	}
	b.claim.Limits = append(b.claim.Limits, c)
}

// add adds a configured limit at a level to the claim. The image does not have the limit, or a removal
// precedes. The limit goes on in the life that follows the one before.
func (b *claimBuilder) add(r *Row, level, consumed, passed int64) {
	b.coverFill(r.to.Rate, level)
	if r.moves != nil {
		c := r.newSlots(level)
		c.Window, c.Begins = bucket.InLife(r.life, r.window), r.life > 0
		b.claim.Limits = append(b.claim.Limits, c)
		return
	}
	c := schema.NewLimit(r.to, level, consumed)
	c.Passed, c.Window, c.Begins = passed, bucket.InLife(r.life, r.window), r.life > 0
	b.claim.Limits = append(b.claim.Limits, c)
}

// keepStored adds the credit of a stored limit to the claim, with its sums, and its new parameters if they
// change.
func (b *claimBuilder) keepStored(l *schema.Stored, r *Row) {
	way := bucket.Way{Move: true}
	if r.moves == nil {
		way = b.others.spendWay(r.state.Rate, r.Take+r.Keep, b.view.Now)
		way.Move = true
	}
	c, rate := r.decideChange(way), l.Rate
	if r.state.Tokens < c.out-MaxDebt/2 {
		c.boundDebt()
	}
	c.Window, c.Begins = bucket.InLife(r.life, r.window), r.begins
	if r.to != nil && (r.to.Rate != l.Rate && r.moves == nil || r.to.Capacity != l.Capacity) {
		c.To, rate = r.to, r.to.Rate
	}
	if r.moves != nil {
		b.coverFill(r.state.Rate, 0)
		b.coverFill(bucket.Slots(rate.Burst, b.view.Config.holdOf(r.Name)), 0)
		b.claim.Limits = append(b.claim.Limits, c.Change)
		return
	}
	b.coverFill(rate, c.levelAfter(l.Tokens))
	b.kept = append(b.kept, keptLimit{c, rate, len(b.claim.Limits)})
	b.claim.Limits = append(b.claim.Limits, c.Change)
}

// adoptGhost gives a ghost its parameters. Its tokens are its burst less its charges; a give-back adds no
// more than those charges.
func (b *claimBuilder) adoptGhost(l *schema.Stored, r *Row) {
	if r.to.Rate.Period <= 0 || l.Period < 0 || l.IsSlots() { // half a quota, half a token bucket: make it again
		b.remove(schema.RemoveGhost, l, r)
		b.add(r, min(r.most, r.level)-r.out(), r.Consumed(), r.Passed())
		return
	}
	level := r.room() - r.out()
	b.coverFill(r.to.Rate, level)
	c := schema.NewLimit(r.to, level, r.Consumed())
	c.Kind, c.Place, c.Passed, c.Window = schema.AdoptGhost, r.place, r.Passed(), bucket.InLife(l.Life, 0)
	b.claim.Limits = append(b.claim.Limits, c)
}

// setExpiry sets the expiry. It bounds every credited limit by the deepest debt that the expiry covers,
// because a bucket in deeper debt than the image shows must not be deleted.
func (b *claimBuilder) setExpiry() {
	v, c := b.view, b.claim
	permanent := v.Image.TTL == 0
	if v.Adopt {
		permanent = v.Config.Permanent
	}
	if !permanent {
		c.TTL = expiry(v.Now, b.longest)
	}
	for _, k := range b.kept {
		if c.TTL > 0 && !k.Full {
			k.raiseLow(k.lowestFor(min(MaxDebt, k.rate.DebtCovered(c.TTL*1000-v.Now))))
		}
		c.Limits[k.at].Update = k.Update
	}
}
