package plan

import "github.com/dynalimit/dynalimit/internal/schema"

// planSpend decides a spend beside other processes; false when the expiry is too near for
// it. later makes a charge commute with claims.
func (v View) planSpend(rows Rows, others Crowding, later bool) (Write, bool) {
	p := Write{Kind: Spend, Guess: others.guess(v.Now), Spend: schema.Spend{Seen: v.Image, Limits: make([]schema.SpendLimit, 0, len(rows))}}
	ttl, commutes := int64(0), later
	for i := range rows {
		r := &rows[i]
		if !r.stored || r.isZero() {
			continue
		}
		c := r.decide(others.spendWay(r.state.Rate, r.Take, v.Now, false))
		back := r.back()
		if back > 0 || r.Take > 0 || c.Full {
			commutes = false // only a plain charge below full commutes with claims
		}
		need, ok := v.spendExpiry(r, &c, later)
		if !ok || c.impossible() {
			return Write{}, false
		}
		r.boundDebt(&c)
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
