package plan

import "github.com/dynalimit/dynalimit/internal/schema"

// planSpend decides a spend; false when the expiry is too near for it.
func (v View) planSpend(s Sums, rules Rules) (Write, bool) {
	p := Write{Kind: Spend, Guess: rules.Crowding.guess(v.Now), Spend: schema.Spend{Seen: v.Image, Limits: make([]schema.SpendLimit, 0, len(s))}}
	ttl, later := int64(0), rules.Later
	for _, n := range s {
		i := v.Image.Set.Index(n.Name)
		if !v.holds(i) || n.nothing() {
			continue
		}
		o := v.decide(i, n.Amounts, v.among(rules.Crowding, i, n.Take, false))
		if n.Back > 0 || n.Take > 0 || o.update.Full {
			later = false // only a plain charge below full commutes with claims
		}
		need, ok := v.spendExpiry(i, &o, rules.Later)
		if !ok || o.empty() {
			return Write{}, false
		}
		o.bound(v.Image.Limits[i].Tokens, n.Back)
		ttl = max(ttl, need)
		p.Spend.Backs = p.Spend.Backs || n.Back > 0 || n.Late < 0
		p.Spend.Limits = append(p.Spend.Limits, schema.SpendLimit{
			Index: i, Update: o.update, Consumed: n.Consumed(),
		})
	}
	if len(p.Spend.Limits) == 0 {
		return Write{Kind: Nothing}, true
	}
	p.Spend.TTL, p.Spend.LaterRefill = ttl, later
	return p, true
}

// spendExpiry returns the earliest expiry, in seconds, that the update of limit
// i may leave: every limit must be full again before the item can be deleted.
// A charge without a lower bound gets one, the deepest debt the expiry covers;
// later says that part of the credit may be in the tokens already, so none is
// counted on. ok is false when the expiry must move.
func (v View) spendExpiry(i int, o *outcome, later bool) (seconds int64, ok bool) {
	if o.out == 0 {
		return 0, true // gives back: fuller sooner
	}
	rate := v.Image.Limits[i].Rate
	ttl := v.Image.TTL
	if !o.update.HasLow {
		if ttl == 0 {
			seconds = seconds1(v.Now, rate.FillTime(-o.left(v.Image.Limits[i].Tokens)))
			return seconds, true
		}
		covered := min(MaxDebt, rate.DebtCovered(ttl*1000-v.Now))
		floor := o.floor(covered)
		if later {
			floor = o.out - covered
		}
		if covered < 0 || v.Image.Limits[i].Tokens < floor {
			return 0, false
		}
		o.raiseLow(floor)
		return ttl, true
	}
	seconds = seconds1(v.Now, rate.FillTime(o.debt()))
	return seconds, ttl == 0 || ttl >= seconds
}

// seconds1 is the first whole second at or after now + ms.
func seconds1(now, ms int64) int64 {
	if ms > maxTTLSeconds*1000 {
		ms = maxTTLSeconds * 1000
	}
	return (now + ms + 999) / 1000
}

// holds reports whether limit i is one of the image that holds tokens.
func (v View) holds(i int) bool { return i >= 0 && !v.Image.Limits[i].Ghost }
