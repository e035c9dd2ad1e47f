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

// newPlanned returns the recommendation for an outlook, with the instant until which it holds. It
// has no label if none has room.
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

// nextPlanChange returns the first instant after an outlook at which a price, an override or a new day may
// change the choice, without any spend.
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

// recommendAt returns a copy of the recommendation, with CacheFor cut at the end of the day and of the
// override. It returns a *prices.QuotaExceededError if no label has room.
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

// isValid reports whether the plan was made for this tenant and no price, override or day has changed until
// now. Spend is not checked.
func (p *planned) isValid(t *tenant, now time.Time) bool {
	return p.tenant == t && !now.Before(p.out.at) && now.Before(p.until)
}
