package llm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/budget"
)

// choose picks the call's label, which has room in its quota as far as the keeper knows.
func (g *Guard) choose(ctx context.Context, c *Call) error {
	r := &c.request
	rec, err := g.opts.Keeper.Recommend(ctx, r.Org, r.App)
	switch {
	case errors.Is(err, budget.ErrUnavailable) && r.Label != "" && r.Resource != "":
		c.Label = r.Label // of a call for which nothing needs to be asked
		return nil
	case r.Label != "" && (err == nil || errors.Is(err, budget.ErrQuotaExceeded)):
		err = c.named(rec, err, g.opts.Now())
	case err == nil:
		c.Label, c.Model = rec.Label, rec.Model
	}
	if err != nil {
		return err
	}
	c.priced = c.Model
	if r.Resource == "" {
		r.Resource = c.Model
	}
	return nil
}

// named takes the label that the request names, if it has room.
func (c *Call) named(rec budget.Recommendation, denial error, now time.Time) error {
	label, labels := c.request.Label, rec.Labels
	var exceeded *budget.QuotaExceededError
	if errors.As(denial, &exceeded) {
		labels = exceeded.Labels
	}
	i := slices.IndexFunc(labels, func(l budget.LabelStatus) bool { return l.Label == label })
	if i < 0 {
		return &ValidationError{
			Package: "llm", Field: "request.Label", Code: budget.CodeInvalidModelLabel,
			Reason: fmt.Sprintf("%q is not in the app's ordering", label),
		}
	}
	c.Label, c.Model = label, labels[i].Model
	switch {
	case rec.Label == label: // forced, perhaps, whatever was spent
		return nil
	case denial == nil && labels[i].Status == budget.StatusExceeded:
		return (&budget.QuotaExceededError{Labels: labels, RetryAt: rec.ResetAt}).DecidedAt(now)
	case denial == nil && labels[i].Status == budget.StatusUnpriced:
		return (&budget.QuotaExceededError{Labels: labels}).DecidedAt(now)
	}
	return denial
}

// need is what a call takes of the limits: its estimate, and of that the prompt.
type need struct{ estimate, prompt dynalimit.Amounts }

func (r Request) need() (n need, err error) {
	if n.estimate, err = measured(r.Limits, r.Estimate.likely()); err != nil {
		return n, err
	}
	n.prompt, err = measured(r.Limits, r.Estimate.prompt())
	return n, err
}

// acquire takes the estimate of every limit that the entity has. One that exceeds a
// burst is lowered to it, but not below what the prompt takes.
func (g *Guard) acquire(ctx context.Context, r Request, n need) (*dynalimit.Lease, error) {
	opts := append([]dynalimit.AcquireOption{dynalimit.WithIgnoreUnknown()}, r.AcquireOptions...)
	for {
		lease, err := g.opts.Limiter.Acquire(ctx, r.Entity, r.Resource, n.estimate, opts...)
		if err == nil || !capped(n.estimate, n.prompt, err) {
			return lease, err
		}
	}
}

// capped lowers the amounts that err says exceed a burst. It reports false when
// there is none, or when even the least is more than the burst.
func capped(amounts, least dynalimit.Amounts, err error) bool {
	var exceeded *dynalimit.LimitExceededError
	if !errors.As(err, &exceeded) || exceeded.RetryAfter != dynalimit.Never || errors.Is(err, dynalimit.ErrUnconfirmed) {
		return false
	}
	lowered := false
	for _, s := range exceeded.Statuses {
		burst := s.Limit.Burst
		if amounts[s.Limit.Name] <= burst {
			continue
		}
		if least[s.Limit.Name] > burst {
			return false
		}
		amounts[s.Limit.Name], lowered = burst, true
	}
	return lowered
}
