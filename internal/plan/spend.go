package plan

import (
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// planSpend decides a spend. It returns false if a spend is impossible, for example because the expiry is too
// near. later makes a charge commute with claims.
func (v View) planSpend(rows Rows, others Crowding, later bool) (Write, bool) {
	p := Write{Kind: Spend, Spend: schema.Spend{Seen: v.Image, Limits: make([]schema.SpendLimit, 0, len(rows))}}
	crowded := others.Slack > 0 || others.Refused > 0
	if crowded {
		p.Guess = others.guess(v.Now)
	}
	ttl, commutes := int64(0), later
	for i := range rows {
		r := &rows[i]
		if !r.stored || r.isZero() {
			continue
		}
		var way bucket.Way
		if crowded {
			way = others.spendWay(r.state.Rate, r.Take, v.Now)
		}
		c := r.decide(way)
		back := r.back()
		if back > 0 || r.Take > 0 || c.Full {
			commutes = false // only a plain charge below full commutes with claims
		}
		need, ok := v.spendExpiry(r, &c, later)
		if !ok || c.impossible() {
			return Write{}, false
		}
		if r.state.Tokens < r.out()-MaxDebt/2 {
			r.boundDebt(&c)
		}
		ttl = max(ttl, need)
		p.Spend.Backs = p.Spend.Backs || back > 0 || r.late() < 0
		p.Spend.Limits = append(p.Spend.Limits, schema.SpendLimit{
			Index: r.place, Update: c.Update, Consumed: r.Consumed(), Passed: r.Passed(), Backs: back > 0,
		})
	}
	if len(p.Spend.Limits) == 0 {
		return Write{Kind: Nothing}, true
	}
	p.Spend.TTL, p.Spend.LaterRefill = ttl, commutes
	return p, true
}
