package budget

import (
	"context"
	"slices"
	"time"
)

// Recommendation is the label an app may use now.
type Recommendation struct {
	Label    string        // to use now
	Model    string        // the label's model id
	Mode     Mode          // how close the label is to its quota
	Reason   string        // WITHIN_QUOTA, MANUAL_OVERRIDE, QUOTA_EXCEEDED_premium, UNPRICED_premium
	Labels   []LabelStatus // the whole ordering
	CacheFor time.Duration // how long a client may keep it: at most until ResetAt or the override's end
	ResetAt  time.Time     // when the next day begins
	Day      string        // the day it is for, like 20260123
	Price    Rates         // of the label, now
	Stale    bool          // the store did not answer: the last plan known
}

func (s *standing) recommend(ctx context.Context, org, app string, fresh bool) (Recommendation, error) {
	if err := validTarget(org, app); err != nil {
		return Recommendation{}, err
	}
	if s.life.Closed() {
		return Recommendation{}, ErrClosed
	}
	ctx, cancel := s.opts.patience(ctx)
	defer cancel()
	t, configErr := s.tenants.get(ctx, org, app)
	if t == nil {
		return Recommendation{}, configErr
	}
	if fresh {
		s.ledger.Board(t.scope()).Outdate()
	}
	out, err := s.look(ctx, t, false)
	if err == nil {
		err = configErr
	}
	if err != nil {
		if out == nil || !unavailable(err) || s.opts.OnUnavailable.Recommend != Allow {
			return Recommendation{}, err
		}
		out.stale = true
	}
	if out.index < 0 {
		return Recommendation{}, out.exceeded()
	}
	return out.recommendation(t, s.now()), nil
}

// recommendation is the label chosen, and how long the choice is good for.
func (o *outlook) recommendation(t *tenant, now time.Time) Recommendation {
	p := t.policy()
	chosen := o.labels[o.index]
	price, _, _ := t.price(p, chosen.label, now)
	rec := Recommendation{
		Label: chosen.label, Model: chosen.model, Mode: o.mode(), Reason: o.reason(),
		Labels: o.statuses(), CacheFor: p.normal, ResetAt: o.resetAt, Day: o.day,
		Price: price.Rates, Stale: o.stale,
	}
	if rec.Mode == ModeTight {
		rec.CacheFor = p.tightFor
	}
	rec.CacheFor = min(rec.CacheFor, o.resetAt.Sub(now))
	if o.override {
		rec.CacheFor = min(rec.CacheFor, t.override.until.Sub(now))
	}
	rec.CacheFor = max(rec.CacheFor, 0)
	return rec
}

func (s *standing) estimate(ctx context.Context, org, app, label string, inputTokens, maxTokens int64) (int64, error) {
	if err := validTarget(org, app); err != nil {
		return 0, err
	}
	tokens := Tokens{Input: inputTokens, Output: maxTokens}
	if err := tokens.validate(); err != nil {
		return 0, err
	}
	t, err := s.tenants.get(ctx, org, app)
	if err != nil {
		if !unavailable(err) || s.opts.OnUnavailable.Recommend != Allow {
			return 0, err
		}
		if t == nil {
			return s.estimateByOptions(label, tokens, err)
		}
	}
	now := s.now()
	if !slices.Contains(t.policy().ordering, label) {
		return 0, invalidLabel(label)
	}
	cost, err := t.cost(label, tokens, now)
	return cost.MicrosUp(), err
}

// estimateByOptions prices a label by the keeper's options, before any configuration
// could be read. If the options have no price for it, it fails with the error of the
// read.
func (s *standing) estimateByOptions(label string, tokens Tokens, err error) (int64, error) {
	price, _, ok := s.admin.prices.own.lookup(s.opts.Models[label], s.now())
	if !ok {
		return 0, err
	}
	cost, _ := price.cost(tokens)
	return cost.MicrosUp(), nil
}
