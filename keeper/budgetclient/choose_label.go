package budgetclient

import (
	"context"

	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/prices"
)

// ChooseLabel returns the label that an app may use now, and its model, as budget.Keeper.ChooseLabel
// does. Errors: as of Recommend, and a *fault.ValidationError for a label outside the app's ordering.
func (c *Client) ChooseLabel(ctx context.Context, org, app, label string) (chosen, model string, err error) {
	if err := c.usable(ctx); err != nil {
		return "", "", err
	}
	rec, err := c.Recommend(ctx, org, app)
	return rec.Choose(label, err, c.opts.Now())
}

// CountCalls counts what 1 to 100 calls cost, as SubmitBatch does. It returns an error for each, nil
// if it is counted. err is for all of them.
func (c *Client) CountCalls(ctx context.Context, org, app string, calls []prices.Usage) (errs []error, err error) {
	results, err := c.SubmitBatch(ctx, org, app, calls)
	return budget.ErrorsOf(results), err
}
