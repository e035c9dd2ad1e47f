package budget

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/keeper/internal/background"
	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// charges writes the costs of calls: records and adjustments, directly or from the spool.
type charges struct {
	store    *store.Store
	ledger   *ledger.Ledger
	admin    *administration
	standing *standing // for receipts
	tenants  *tenants
	spool    *spool // nil without a spool
	opts     Options
	now      func() time.Time
	life     *background.Life
}

// writeOperation writes o and waits for its result, in o.Verdict. Even after an error it schedules a query of
// o's scope, which looks for events, because the write continues when ctx ends.
func (c *charges) writeOperation(ctx context.Context, o *ledger.Operation) error {
	defer c.standing.scheduleQuery(o)
	return c.ledger.Write(ctx, o)
}

// writeAll writes ops, waits for all, and returns one error per element, in order; nil operations get nil.
// Results are in each Verdict. It then schedules a query of each scope, which looks for events.
func (c *charges) writeAll(ctx context.Context, ops []*ledger.Operation) []error {
	errs := c.ledger.WriteAll(ctx, ops)
	for _, o := range ops {
		if o != nil {
			c.standing.scheduleQuery(o)
		}
	}
	return errs
}
