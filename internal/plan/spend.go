package plan

import (
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// planSpend decides a spend. It returns false if a spend is impossible, for example because the expiry is too
// near. later makes a charge commute with claims.
//
//nolint:cyclop // one guard for each amount that few writes carry
func (v View) planSpend(rows Rows, others Crowding, later bool) (Write, bool) {
	s := schema.Spend{Seen: v.Image, Limits: make([]schema.Change, 0, len(rows)), LaterRefill: later}
	crowded := others.Slack > 0 || others.Refused > 0
	for i := range rows {
		r := &rows[i]
		if !r.stored || r.isZero() {
			continue
		}
		var way bucket.Way
		if crowded && r.moves == nil {
			way = others.spendWay(r.state.Rate, r.Take, v.Now)
		}
		c := r.decideChange(way)
		if c.back > 0 || r.Take > 0 || c.Full || r.moves != nil {
			s.LaterRefill = false // only a plain charge below full commutes with claims
		}
		ttl, ok := v.spendExpiry(r, &c, later)
		if !ok || c.HasLow && !c.Full && c.Low > c.High { // no number of tokens is within the bounds
			return Write{}, false
		}
		if r.state.Tokens < c.out-MaxDebt/2 {
			c.boundDebt()
		}
		s.TTL = max(s.TTL, ttl)
		s.Backs = s.Backs || c.back > 0 || r.moves != nil && r.moves.IsOwn() || r.Late+c.back < r.Back // some come off the counter alone
		s.Limits = append(s.Limits, c.Change)
	}
	if len(s.Limits) == 0 {
		return Write{Kind: Nothing}, true
	}
	p := Write{Kind: Spend, Spend: s}
	if crowded {
		p.Guess = others.guess(v.Now)
	}
	return p, true
}
