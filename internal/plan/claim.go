package plan

import (
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// planClaim returns the claim that carries the sums of rows. It credits every limit of the item up to the
// view's time and moves the refill instant and the expiry. If v.Adopt is set, it brings the view's
// configuration with the limits that the item lacks.
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
				out := r.Take + r.Adjust
				b.addLimit(r, r.level-out, out+max(0, r.Late), r.PassedOn) // full
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

// coverFill raises b.longest, from which setExpiry computes the expiry, to the time in ms in which a limit
// fills from a level in millitokens.
func (b *claimBuilder) coverFill(rate bucket.Rate, level int64) {
	b.longest = max(b.longest, rate.FillTime(-level))
}

// addStored adds the change of a limit of the image to the claim: kept, removed, replaced by another kind, or
// adopted as a ghost. A ghost stays unless the claim brings a configuration. An unconfigured limit goes once it
// is full and the write leaves it alone; one in a later life stays while there is room.
func (b *claimBuilder) addStored(l *schema.Stored, r *Row) {
	unconfigured := r.to == nil && b.view.Adopt
	switch {
	case l.Ghost && r.to != nil:
		b.adoptGhost(l, r)
	case l.Ghost && unconfigured:
		b.removeLimit(schema.RemoveGhost, l, r)
	case l.Ghost:
	case r.replaced: // one of the other kind takes its place
		b.removeLimit(schema.ReplaceLimit, l, r)
		b.addLimit(r, r.level-r.Take-r.Adjust, bucket.SaturatingAdd(l.Consumed, r.Consumed()), l.Passed+r.Passed)
	case unconfigured && r.isZero() && r.room() >= l.Burst && (r.moves == nil || l.Tokens >= l.Burst) && (l.Life == 0 || len(b.view.Image.Set.Names)+len(b.view.Config.Limits) > schema.MaxStored): // a limit in a later life stays, full, so that its lives are not counted from 0 again
		b.removeLimit(schema.RemoveLimit, l, r)
	default:
		b.keepStored(l, r)
	}
}

// removeLimit adds the removal of a stored limit to the claim; kind is the reason. For RemoveLimit the write
// requires the limit to be full still, otherwise to be unchanged.
func (b *claimBuilder) removeLimit(kind schema.ChangeKind, l *schema.Stored, r *Row) {
	c := schema.Change{Name: r.Name, Quota: l.IsQuota(), Kind: kind, Place: r.place, Window: bucket.InLife(l.Life, 0)}
	if l.IsSlots() {
		c.Slots = &bucket.Moves{}
	}
	if kind == schema.RemoveLimit {
		c.Low, c.HasLow = l.Burst-r.opening.Credit, true
	}
	b.claim.Limits = append(b.claim.Limits, c)
}

// addLimit adds a configured limit to the claim, with a level, a counter and the passed part of that, in
// millitokens; slots have no counter. The image does not have the limit, or a removal precedes. The limit goes
// on in the life r.life.
func (b *claimBuilder) addLimit(r *Row, level, consumed, passed int64) {
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

// keepStored adds to the claim the change of a stored limit that stays: its credit, the row's sums, and its new
// parameters if they change. It covers the limit's fill time, and lists a limit other than slots in b.kept, for
// setExpiry.
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

// adoptGhost adds to the claim the change that gives a ghost its parameters. Its tokens are its burst less its
// charges; a give-back adds no more than those charges. For a quota, slots, or a ghost of another kind it
// removes the ghost and adds the limit anew.
func (b *claimBuilder) adoptGhost(l *schema.Stored, r *Row) {
	if r.to.Rate.Period <= 0 || l.Period < 0 || l.IsSlots() { // half a quota, half a token bucket: make it again
		b.removeLimit(schema.RemoveGhost, l, r)
		b.addLimit(r, min(r.most, r.level)-r.Take-r.Adjust, r.Consumed(), r.Passed)
		return
	}
	level := r.room() - r.Take - r.Adjust
	b.coverFill(r.to.Rate, level)
	c := schema.NewLimit(r.to, level, r.Consumed())
	c.Kind, c.Place, c.Passed, c.Window = schema.AdoptGhost, r.place, r.Passed, bucket.InLife(l.Life, 0)
	b.claim.Limits = append(b.claim.Limits, c)
}

// setExpiry sets the claim's expiry, in Unix seconds, by the slowest fill; 0 for a permanent bucket. It bounds
// every credited limit by the deepest debt that the expiry covers. A bucket in deeper debt than the image shows
// must not be deleted.
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
