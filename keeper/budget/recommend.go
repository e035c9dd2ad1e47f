package budget

import (
	"context"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dynalimit/dynalimit/prices"
)

// Recommendation is a label that an app may use now.
type Recommendation struct {
	Label    string               // the label to use
	Model    string               // the label's model id
	Mode     Mode                 // how close the label is to its quota
	Reason   string               // WITHIN_QUOTA, MANUAL_OVERRIDE, QUOTA_EXCEEDED_premium, UNPRICED_premium
	Labels   []prices.LabelStatus // all labels of the ordering
	CacheFor time.Duration        // how long a client may use it: at most until ResetAt or the end of the override
	ResetAt  time.Time            // when the next day begins
	Day      string               // its day, like 20260123
	Price    prices.Rates         // the label's price now
	Stale    bool                 // the store did not answer: this is the last known plan
}

// recommender recommends labels. It caches the last plan of each app.
type recommender struct {
	*standing
	plans *lru.Cache[tenantKey, *planned]
}

// newRecommender returns a recommender that reads spend through s, with an empty cache of plans. It sends no
// request.
func newRecommender(s *standing) *recommender {
	plans, _ := lru.New[tenantKey, *planned](cacheEntries) // fails only for a size below 1
	return &recommender{s, plans}
}

// cachedPlan returns the app's cached plan if configuration, prices, day and spend are unchanged and fresh,
// else nil. It counts a hit of the spend. If sums are about to expire, it starts a background query.
func (s *recommender) cachedPlan(ctx context.Context, org, app string) *planned {
	p, ok := s.plans.Get(tenantKey{org, app})
	if !ok || !p.isValid(s.tenants.getCached(ctx, org, app), s.now()) {
		return nil
	}
	stand, fresh, ends := p.out.board.KnownStand()
	if ends {
		s.renewBoard(p.tenant, p.out.board)
	}
	if !fresh || p.out.stand != stand {
		return nil
	}
	return p
}

// recommendLabel returns the label that an app may use now, from the cached plan or from a read, whose plan it
// caches. With fresh it reads the spend again. Without room it returns a *prices.QuotaExceededError; during an
// outage under Allow the last known state, marked Stale.
func (s *recommender) recommendLabel(ctx context.Context, org, app string, fresh bool) (Recommendation, error) {
	if err := validTarget(org, app); err != nil {
		return Recommendation{}, err
	}
	if s.life.Closed() {
		return Recommendation{}, ErrClosed
	}
	if !fresh {
		if p := s.cachedPlan(ctx, org, app); p != nil {
			return p.recommendAt(s.now())
		}
	}
	ctx, cancel := s.opts.withTimeout(ctx)
	defer cancel()
	t, configErr := s.tenants.get(ctx, org, app)
	if t == nil {
		return Recommendation{}, configErr
	}
	if fresh {
		s.ledger.Board(t.scope()).MarkStale()
	}
	out, err := s.readOutlook(ctx, t, false)
	if err == nil {
		err = configErr
	}
	if err != nil {
		if out == nil || !isUnavailable(err) || s.opts.OnUnavailable.Recommend != Allow {
			return Recommendation{}, err
		}
		out.stale = true
	}
	plan := newPlanned(t, out)
	if err == nil {
		s.plans.Add(tenantKey{org, app}, plan)
	}
	return plan.recommendAt(s.now())
}

// estimateCost returns the cost of a call in micro-dollars, rounded up, at the label's price now, with
// maxTokens output tokens. During an outage under Allow it uses the last known configuration, else the keeper's
// own prices. Bad input or labels are a *fault.ValidationError.
func (s *standing) estimateCost(ctx context.Context, org, app, label string, inputTokens, maxTokens int64) (int64, error) {
	if err := validTarget(org, app); err != nil {
		return 0, err
	}
	tokens := prices.Tokens{Input: inputTokens, Output: maxTokens}
	if err := tokens.Validate(); err != nil {
		return 0, err
	}
	t, err := s.tenants.get(ctx, org, app)
	if err != nil {
		if !isUnavailable(err) || s.opts.OnUnavailable.Recommend != Allow {
			return 0, err
		}
		if t == nil {
			return s.estimateByOptions(label, tokens, err)
		}
	}
	now := s.now()
	if !slices.Contains(t.policy().ordering, label) {
		return 0, invalidLabelError(label)
	}
	cost, err := t.labelCost(label, tokens, now)
	return cost.MicrosUp(), err
}

// estimateByOptions returns the cost of tokens in micro-dollars, rounded up, by the model that Options.Models
// gives the label and the keeper's own prices. Without a price it returns err, the error of the failed read.
func (s *standing) estimateByOptions(label string, tokens prices.Tokens, err error) (int64, error) {
	price, _, ok := s.admin.prices.own.lookup(s.opts.Models[label], s.now())
	if !ok {
		return 0, err
	}
	cost, _ := costOf(price.Rates, tokens)
	return cost.MicrosUp(), nil
}
