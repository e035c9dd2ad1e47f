package budgetclient

import (
	"context"

	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/prices"
)

// ChooseLabel returns the label that an app may use now, and its model, as budget.Keeper.ChooseLabel does; with "" the
// recommended label. It asks as Recommend does, from the cache if possible.
//
// Errors: as Recommend, and a *fault.ValidationError for a label outside the app's ordering.
func (c *Client) ChooseLabel(ctx context.Context, org, app, label string) (chosen, model string, err error) {
	if err := c.checkUsable(ctx); err != nil {
		return "", "", err
	}
	rec, err := c.Recommend(ctx, org, app)
	return rec.Choose(label, err, c.opts.Now())
}

// CountCalls counts the costs of 1 to 100 calls, as SubmitBatch does. errs has one error for
// each call, nil for a counted one. err concerns all of them.
func (c *Client) CountCalls(ctx context.Context, org, app string, calls []prices.Usage) (errs []error, err error) {
	results, err := c.SubmitBatch(ctx, org, app, calls)
	return budget.ErrorsOf(results), err
}
