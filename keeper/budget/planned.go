package budget

import (
	"slices"
	"time"
)

// planned is what an app is recommended for as long as nothing changes that it comes from:
// configuration, spend, day, override and prices. Nobody changes it.
type planned struct {
	tenant *tenant
	out    *outlook
	until  time.Time      // the first instant at which it may be another
	rec    Recommendation // but for CacheFor, which is its most
}

// newPlanned is the plan of an outlook.
func newPlanned(t *tenant, out *outlook) *planned {
	p := &planned{tenant: t, out: out, until: planChanges(t, out)}
	if out.index < 0 {
		return p
	}
	policy, chosen := t.policy(), out.labels[out.index]
	price, _, _ := t.price(policy, chosen.label, out.at)
	p.rec = Recommendation{
		Label: chosen.label, Model: chosen.model, Mode: out.mode(), Reason: out.reason(),
		Labels: out.statuses(), CacheFor: policy.normal, ResetAt: out.resetAt, Day: out.day,
		Price: price.Rates, Stale: out.stale,
	}
	if p.rec.Mode == ModeTight {
		p.rec.CacheFor = policy.tightFor
	}
	return p
}

// planChanges is the first instant after an outlook at which time alone may lead to another.
func planChanges(t *tenant, out *outlook) time.Time {
	first := out.resetAt
	earlier := func(at time.Time) {
		if at.After(out.at) && at.Before(first) {
			first = at
		}
	}
	earlier(t.override.until)
	for _, l := range out.labels {
		earlier(t.prices.next(l.model, out.at))
	}
	return first
}

// answer is the label chosen, and how long the choice is good for; or that none has room.
func (p *planned) answer(now time.Time) (Recommendation, error) {
	if p.out.index < 0 {
		err := p.out.exceeded()
		err.DecidedAt = now
		return Recommendation{}, err
	}
	rec := p.rec
	rec.Labels = slices.Clone(rec.Labels) // they are the caller's
	rec.CacheFor = min(rec.CacheFor, rec.ResetAt.Sub(now))
	if p.out.override {
		rec.CacheFor = min(rec.CacheFor, p.tenant.override.until.Sub(now))
	}
	rec.CacheFor = max(rec.CacheFor, 0)
	return rec, nil
}

// holds reports whether the plan is still what a look would lead to now.
func (p *planned) holds(t *tenant, now time.Time) bool {
	return p.tenant == t && !now.Before(p.out.at) && now.Before(p.until)
}
