package budget

import (
	"slices"
	"time"
)

// planned is an app's recommendation for as long as its inputs stay the same: configuration,
// spend, day, override and prices. It is immutable.
type planned struct {
	tenant *tenant
	out    *outlook
	until  time.Time      // the first instant at which it may differ
	rec    Recommendation // with the maximal CacheFor
}

// newPlanned returns the recommendation that follows from out, with the first instant at which it may change
// without any spend. Without room in any label its rec is empty. It changes and reads nothing stored.
func newPlanned(t *tenant, out *outlook) *planned {
	p := &planned{tenant: t, out: out, until: nextPlanChange(t, out)}
	if out.index < 0 {
		return p
	}
	policy, chosen := t.policy(), out.labels[out.index]
	price, _, _ := t.lookupPrice(policy, chosen.label, out.at)
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

// nextPlanChange returns the first instant after out.at at which a price starts or ends, the override ends, or
// the day ends. Until then only spend or configuration can change the choice.
func nextPlanChange(t *tenant, out *outlook) time.Time {
	first := out.resetAt
	earlier := func(at time.Time) {
		if at.After(out.at) && at.Before(first) {
			first = at
		}
	}
	earlier(t.override.until)
	for _, l := range out.labels {
		earlier(t.prices.nextChange(l.model, out.at))
	}
	return first
}

// recommendAt returns a copy of the recommendation, with CacheFor cut at the end of the day and of an override.
// If no label has room, it returns a *prices.QuotaExceededError decided at now.
func (p *planned) recommendAt(now time.Time) (Recommendation, error) {
	if p.out.index < 0 {
		err := p.out.quotaError()
		err.DecidedAt = now
		return Recommendation{}, err
	}
	rec := p.rec
	rec.Labels = slices.Clone(rec.Labels) // a copy for the caller
	rec.CacheFor = min(rec.CacheFor, rec.ResetAt.Sub(now))
	if p.out.override {
		rec.CacheFor = min(rec.CacheFor, p.tenant.override.until.Sub(now))
	}
	rec.CacheFor = max(rec.CacheFor, 0)
	return rec, nil
}

// isValid reports whether p was made from this very tenant and may be used at now: no price, override or day
// has changed since. Spend is not checked.
func (p *planned) isValid(t *tenant, now time.Time) bool {
	return p.tenant == t && !now.Before(p.out.at) && now.Before(p.until)
}
