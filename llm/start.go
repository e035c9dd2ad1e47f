package llm

import (
	"context"
	"errors"
	"fmt"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/budget"
)

// reserve picks the call's label and sets its cost aside.
func (g *Guard) reserve(ctx context.Context, c *Call) error {
	r := &c.request
	if r.Label != "" {
		return g.reserveLabel(ctx, c, r.Label)
	}
	rec, err := g.opts.Keeper.Recommend(ctx, r.Org, r.App)
	if err != nil {
		return err
	}
	var soonest error
	for _, label := range candidates(rec) {
		c.Model = label.Model
		err := g.reserveLabel(ctx, c, label.Label)
		if !errors.Is(err, budget.ErrQuotaExceeded) {
			return err
		}
		soonest = sooner(soonest, err)
	}
	return soonest
}

// candidates are the recommended label and those after it that have room left:
// a label may have some, and not enough for this call. A manual override names
// the only one.
func candidates(rec budget.Recommendation) []budget.LabelStatus {
	chosen := budget.LabelStatus{Label: rec.Label, Model: rec.Model}
	out := []budget.LabelStatus{chosen}
	if rec.Reason == budget.ReasonManualOverride {
		return out
	}
	after := false
	for _, l := range rec.Labels {
		if after && l.Status != budget.StatusExceeded && l.Status != budget.StatusUnpriced {
			out = append(out, l)
		}
		after = after || l.Label == rec.Label
	}
	return out
}

// sooner is the denial that ends first; one that never ends, only beside none that
// does.
func sooner(a, b error) error {
	first, ends := budget.RetryAt(a)
	second, too := budget.RetryAt(b)
	if a == nil || too && (!ends || second.Before(first)) {
		return b
	}
	return a
}

func (g *Guard) reserveLabel(ctx context.Context, c *Call, label string) error {
	r := &c.request
	micros := r.Estimate.CostMicros
	if micros == 0 {
		var err error
		micros, err = g.opts.Keeper.Estimate(ctx, r.Org, r.App, label, r.Estimate.InputTokens, r.Estimate.MaxOutputTokens)
		if err != nil {
			return err
		}
	}
	hold, err := g.opts.Keeper.Reserve(ctx, r.Org, r.App, label, micros, g.opts.HoldFor)
	if err != nil {
		return err
	}
	c.hold, c.Label = hold, label
	if hold.Model != "" || r.Label != "" { // not one of the recommendation
		c.Model = hold.Model
	}
	if c.Model == "" {
		return errors.Join(unknownModel(label), c.release(ctx))
	}
	if r.Resource == "" {
		r.Resource = c.Model
	}
	return nil
}

// unknownModel is why a call cannot be made whose reservation was degraded
// before the configuration was ever read.
func unknownModel(label string) error {
	return &UnavailableError{Package: "budget", Op: "Reserve", Err: fmt.Errorf(
		"the model of label %q is not known; give it in budget.Options.Models to call it while the store does not answer", label)}
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
