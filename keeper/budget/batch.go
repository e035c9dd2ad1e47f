package budget

import (
	"context"

	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/prices"
)

const maxBatch = 100

// BatchResult is the outcome of one record of a batch.
type BatchResult struct {
	Receipt
	Err error // nil if the record was counted; otherwise as Submit's error
}

// submitBatch counts 1 to 100 records within Options.Timeout and returns one result for each, in order; invalid
// ones have their own error. It spools records that the store did not accept, if the policy says so. An error
// in place of results means that nothing is counted.
func (c *charges) submitBatch(ctx context.Context, org, app string, usages []prices.Usage) ([]BatchResult, error) {
	if err := validTarget(org, app); err != nil {
		return nil, err
	}
	if len(usages) == 0 || len(usages) > maxBatch {
		return nil, invalid("records", "%d are not 1 to %d", len(usages), maxBatch)
	}
	ctx, cancel := c.opts.withTimeout(ctx)
	defer cancel()
	received := c.now()
	results, entries := make([]BatchResult, len(usages)), make([]SpooledUsage, len(usages))
	for i, u := range usages {
		entries[i] = SpooledUsage{Org: org, App: app, Usage: u, Received: received}
	}
	t, err := c.tenants.get(ctx, org, app)
	if err == nil {
		err = c.tenants.registerApp(ctx, t)
	}
	if err != nil {
		if isRecordFault(err) {
			return nil, err
		}
		for i, u := range usages {
			if results[i].Err = u.Validate(); results[i].Err != nil {
				continue
			}
			if results[i].Err = err; t != nil { // with the last known configuration
				_, _ = c.prepareRecord(t, &entries[i])
			}
		}
	} else {
		c.submitAll(ctx, t, entries, results)
	}
	c.spoolAllIfUnavailable(results, entries)
	return results, nil
}

// submitAll counts all valid entries in common transactions and waits for them. It sets each entry's cost and
// its element of results: a receipt or an error. It does not spool.
func (c *charges) submitAll(ctx context.Context, t *tenant, entries []SpooledUsage, results []BatchResult) {
	ops := make([]*ledger.Operation, len(entries))
	for i := range entries {
		ops[i], results[i] = c.beginSubmission(ctx, t, &entries[i])
	}
	for i, err := range c.writeAll(ctx, ops) {
		switch o := ops[i]; {
		case o == nil:
		case err != nil:
			results[i].Err = asCallFailure("SubmitBatch", err)
		default:
			results[i].Receipt, results[i].Err = c.makeReceipt(ctx, t, entries[i].Usage.Label, o.Verdict)
		}
	}
}

// beginSubmission returns the operation that counts a record of a batch, unsent, and sets the record's cost in
// entry. For an invalid or refused record it returns nil and the final result; if that record was counted
// before, its first receipt.
func (c *charges) beginSubmission(ctx context.Context, t *tenant, entry *SpooledUsage) (*ledger.Operation, BatchResult) {
	var r BatchResult
	u := entry.Usage
	if r.Err = u.Validate(); r.Err != nil {
		return nil, r
	}
	o, refusal := c.prepareRecord(t, entry)
	if refusal != nil {
		r.Receipt, r.Err = c.countedBefore(ctx, t, u, refusal)
		return nil, r
	}
	return o, r
}
