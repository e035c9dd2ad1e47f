package plan

import "github.com/dynalimit/dynalimit/internal/schema"

// planSpend decides a spend beside other processes; false when the expiry is too near for
// it. later makes a charge commute with claims.
func (v View) planSpend(s Sums, others Crowding, later bool) (Write, bool) {
	p := Write{Kind: Spend, Guess: others.guess(v.Now), Spend: schema.Spend{Seen: v.Image, Limits: make([]schema.SpendLimit, 0, len(s))}}
	ttl, commutes := int64(0), later
	for _, n := range s {
		i := v.Image.Set.Index(n.Name)
		if !v.tracked(i) || n.isZero() {
			continue
		}
		n = v.windowed(n)
		o := v.decide(i, n.Amounts, v.wayOf(others, i, n.Take, false))
		if n.Back > 0 || n.Take > 0 || o.update.Full {
			commutes = false // only a plain charge below full commutes with claims
		}
		need, ok := v.spendExpiry(i, &o, later)
		if !ok || o.impossible() {
			return Write{}, false
		}
		o.boundDebt(v.Image.Limits[i].Tokens, n.Back)
		ttl = max(ttl, need)
		p.Spend.Backs = p.Spend.Backs || n.Back > 0 || n.Late < 0
		p.Spend.Limits = append(p.Spend.Limits, schema.SpendLimit{
			Index: i, Update: o.update, Consumed: n.Consumed(), Passed: n.Passed(), Backs: n.Back > 0,
		})
	}
	if len(p.Spend.Limits) == 0 {
		return Write{Kind: Nothing}, true
	}
	p.Spend.TTL, p.Spend.LaterRefill = ttl, commutes
	return p, true
}

// tracked reports whether limit i is one of the image that holds tokens.
func (v View) tracked(i int) bool { return i >= 0 && !v.Image.Limits[i].Ghost }
