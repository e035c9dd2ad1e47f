package budgetclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/prices"
)

// Submit counts what a call cost, once, under its request id, as budget.Keeper.Submit does:
// what got no answer may be sent again. A record without a Time gets that of this call: one
// that is to be sent again needs its own, or it is another record then.
//
// Errors: *fault.ValidationError, budget.ErrConflict, budget.ErrNotFound,
// *fault.UnavailableError, *StatusError.
func (c *Client) Submit(ctx context.Context, org, app string, usage prices.Usage) (budget.Receipt, error) {
	path, err := c.admitted(ctx, org, app)
	if err != nil {
		return budget.Receipt{}, err
	}
	if err := usage.Validate(); err != nil {
		return budget.Receipt{}, err
	}
	usage = timed(usage, c.opts.Now())
	var r receipt
	_, err = c.do(ctx, &call{
		op: "Submit", method: http.MethodPost, path: path + "/usage", body: usage, writes: true, into: &r,
		check: func() error {
			if r.RequestID != usage.RequestID || r.Status == "" {
				return errors.New("it is of no record, or another's")
			}
			return nil
		},
	})
	if err != nil {
		return budget.Receipt{}, err
	}
	c.learn(path, r.RecommendedLabel, r.Status)
	return r.budget(), nil
}

// timed is a record with the time that it is of.
func timed(usage prices.Usage, now time.Time) prices.Usage {
	if usage.Time.IsZero() {
		usage.Time = now.UTC()
	}
	return usage
}

// learn asks anew for what to use, if a receipt says that it is another label than the
// one that is known.
func (c *core) learn(app, label, status string) {
	known := c.choices.of(app)
	if rec, ok := known.fresh(c.opts.Now()); ok && rec.Label != label && status != "spooled" && rec.Reason != budget.ReasonManualOverride {
		known.outdate()
	}
}

const maxBatch = 100

// SubmitBatch submits 1 to 100 records, as budget.Keeper.SubmitBatch does: each has a
// result or an error of its own, in their order.
//
// Errors as of Submit; then what became of the records is not known, and they may be sent
// again.
func (c *Client) SubmitBatch(ctx context.Context, org, app string, usages []prices.Usage) ([]budget.BatchResult, error) {
	path, err := c.admitted(ctx, org, app)
	if err != nil {
		return nil, err
	}
	if len(usages) == 0 || len(usages) > maxBatch {
		return nil, invalid("records", "%d are not 1 to %d", len(usages), maxBatch)
	}
	results := make([]budget.BatchResult, len(usages))
	var good []prices.Usage
	var places []int
	now := c.opts.Now() // of all, so that the same record twice is the same
	for i, u := range usages {
		if results[i].Err = u.Validate(); results[i].Err == nil {
			good, places = append(good, timed(u, now)), append(places, i)
		}
	}
	if len(good) == 0 {
		return results, nil
	}
	counted, err := c.records(ctx, path, good)
	if err != nil {
		return nil, err
	}
	for k, r := range counted {
		results[places[k]] = r
	}
	return results, nil
}

func (c *core) records(ctx context.Context, app string, usages []prices.Usage) ([]budget.BatchResult, error) {
	var answer batchReceipt
	_, err := c.do(ctx, &call{
		op: "SubmitBatch", method: http.MethodPost, path: app + "/usage/batch", writes: true, into: &answer,
		body:  map[string]any{"records": usages},
		check: func() error { return answer.check(usages) },
	})
	if err != nil {
		return nil, err
	}
	out := make([]budget.BatchResult, len(usages))
	for i, r := range answer.Results {
		if r.Receipt != nil {
			out[i].Receipt = r.Receipt.budget()
			c.learn(app, r.Receipt.RecommendedLabel, r.Receipt.Status)
			continue
		}
		out[i].Err = r.Error.ofRecord(c.opts.Now())
	}
	return out, nil
}

func (b batchReceipt) check(usages []prices.Usage) error {
	if len(b.Results) != len(usages) {
		return fmt.Errorf("it has %d results for %d records", len(b.Results), len(usages))
	}
	for i, r := range b.Results {
		switch {
		case r.Index != i, r.Receipt == nil && r.Error == nil:
			return errors.New("its results are not in their order, or say nothing")
		case r.Receipt != nil && r.Receipt.RequestID != usages[i].RequestID:
			return errors.New("a result is of another record")
		}
	}
	return nil
}
