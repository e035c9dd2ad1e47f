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

// Submit counts the cost of a call once under its request id, as budget.Keeper.Submit does. A
// call without a response may be repeated. A record without a Time gets the current time: to
// repeat such a record, set its Time first, or it is another record.
//
// Errors: *fault.ValidationError, budget.ErrConflict, budget.ErrNotFound,
// *fault.UnavailableError, *StatusError.
func (c *Client) Submit(ctx context.Context, org, app string, usage prices.Usage) (budget.Receipt, error) {
	path, err := c.appPath(ctx, org, app)
	if err != nil {
		return budget.Receipt{}, err
	}
	if err := usage.Validate(); err != nil {
		return budget.Receipt{}, err
	}
	usage = withTime(usage, c.opts.Now())
	var r receipt
	_, err = c.doCall(ctx, &call{
		op: "Submit", method: http.MethodPost, path: path + "/usage", body: usage, writes: true, into: &r,
		check: func() error {
			if r.RequestID != usage.RequestID || r.Status == "" {
				return errors.New("it holds no result, or another record's")
			}
			return nil
		},
	})
	if err != nil {
		return budget.Receipt{}, err
	}
	c.learnLabel(path, r.RecommendedLabel, r.Status)
	return r.asReceipt(), nil
}

// withTime returns a copy of the record; if it has no Time, that is set to now in UTC.
func withTime(usage prices.Usage, now time.Time) prices.Usage {
	if usage.Time.IsZero() {
		usage.Time = now.UTC()
	}
	return usage
}

// learnLabel expires the app's cached recommendation if the receipt of a record names another label, so that
// the next Recommend asks the keeper. app is the app's path, status the receipt's. Spooled receipts and manual
// overrides change nothing.
func (c *core) learnLabel(app, label, status string) {
	known := c.choices.choiceFor(app)
	if rec, ok := known.freshAnswer(c.opts.Now()); ok && rec.Label != label && status != "spooled" && rec.Reason != budget.ReasonManualOverride {
		known.expireAnswer()
	}
}

const maxBatch = 100

// SubmitBatch submits 1 to 100 records, as budget.Keeper.SubmitBatch does. It returns a result
// for each, in order.
//
// Errors: as Submit. After an error the outcome of the records is unknown; they may be sent
// again.
func (c *Client) SubmitBatch(ctx context.Context, org, app string, usages []prices.Usage) ([]budget.BatchResult, error) {
	path, err := c.appPath(ctx, org, app)
	if err != nil {
		return nil, err
	}
	if len(usages) == 0 || len(usages) > maxBatch {
		return nil, invalid("records", "%d are not 1 to %d", len(usages), maxBatch)
	}
	results := make([]budget.BatchResult, len(usages))
	var good []prices.Usage
	var places []int
	now := c.opts.Now() // one time for all, so that a repeated record in the batch is the same record
	for i, u := range usages {
		if results[i].Err = u.Validate(); results[i].Err == nil {
			good, places = append(good, withTime(u, now)), append(places, i)
		}
	}
	if len(good) == 0 {
		return results, nil
	}
	counted, err := c.sendRecords(ctx, path, good)
	if err != nil {
		return nil, err
	}
	for k, r := range counted {
		results[places[k]] = r
	}
	return results, nil
}

// sendRecords sends records in one request and returns a result for each, in order: a receipt or its own error.
// Receipts may expire the cached recommendation, see learnLabel. After an error it is unknown which records
// count.
func (c *core) sendRecords(ctx context.Context, app string, usages []prices.Usage) ([]budget.BatchResult, error) {
	var answer batchReceipt
	_, err := c.doCall(ctx, &call{
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
			out[i].Receipt = r.Receipt.asReceipt()
			c.learnLabel(app, r.Receipt.RecommendedLabel, r.Receipt.Status)
			continue
		}
		out[i].Err = r.Error.recordError(c.opts.Now())
	}
	return out, nil
}

// check returns nil if the answer has one receipt or error for each of usages, in order, with its request id.
// Else it returns an error without values.
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
