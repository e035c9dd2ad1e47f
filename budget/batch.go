package budget

import (
	"context"
)

const maxBatch = 100

// BatchResult is the outcome of one record of a batch.
type BatchResult struct {
	Receipt
	Err error // nil when the record was counted; errors as of Submit
}

// SubmitBatch submits 1 to 100 records. Each has a result or an error of its
// own, in their order; a repeat within the batch is a duplicate. Records for
// one counter share transactions.
func (k *Keeper) SubmitBatch(ctx context.Context, org, app string, usages []Usage) ([]BatchResult, error) {
	if err := validTarget(org, app); err != nil {
		return nil, err
	}
	if len(usages) == 0 || len(usages) > maxBatch {
		return nil, invalid("records", "%d are not 1 to %d", len(usages), maxBatch)
	}
	ctx, cancel := k.patience(ctx)
	defer cancel()
	received := k.now()
	results := make([]BatchResult, len(usages))
	t, err := k.tenants.get(ctx, org, app)
	if err == nil {
		err = k.register(ctx, t)
	}
	if err != nil {
		if aboutRecord(err) {
			return nil, err
		}
		for i, u := range usages {
			if results[i].Err = u.Validate(); results[i].Err == nil {
				results[i].Err = err
			}
		}
	} else {
		k.submitAll(ctx, t, usages, results)
	}
	k.orSpoolAll(results, func(i int) SpooledUsage {
		return SpooledUsage{Org: org, App: app, Usage: usages[i], Received: received}
	})
	return results, nil
}

func (k *Keeper) submitAll(ctx context.Context, t *tenant, usages []Usage, results []BatchResult) {
	received := k.now()
	ops := make([]*op, len(usages))
	byLane := map[string][]*op{}
	for i, u := range usages {
		if results[i].Err = u.Validate(); results[i].Err != nil {
			continue
		}
		o, refusal := k.prepare(t, u, received)
		if refusal != nil {
			results[i].Receipt, results[i].Err = k.countedBefore(ctx, t, u, refusal)
			continue
		}
		if k.counterOnly(o) {
			if results[i].Err = k.submitUnkept(ctx, o); results[i].Err == nil {
				results[i].Receipt, results[i].Err = k.receipt(ctx, t, u.Label, o.verdict)
			}
			continue
		}
		ops[i] = o
		byLane[o.lane] = append(byLane[o.lane], o)
	}
	for lane, group := range byLane {
		if err := k.enqueue(lane, group...); err != nil {
			k.fail(group, err)
		}
	}
	for i, o := range ops {
		if o == nil {
			continue
		}
		if err := k.wait(ctx, o); err != nil {
			results[i].Err = asUnavailable("SubmitBatch", err)
			continue
		}
		results[i].Receipt, results[i].Err = k.receipt(ctx, t, o.record.label, o.verdict)
	}
}
