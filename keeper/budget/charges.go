package budget

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/keeper/internal/background"
	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// charges writes what calls cost: records and adjustments, at once or from the spool.
type charges struct {
	store    *store.Store
	ledger   *ledger.Ledger
	admin    *administration
	standing *standing // the receipts
	tenants  *tenants
	spool    *spool // nil: none
	opts     Options
	now      func() time.Time
	life     *background.Life
}

// write gives an operation to the ledger, waits for it, and has the scope looked at
// later, whatever came of it here: it goes on when ctx ends.
func (c *charges) write(ctx context.Context, o *ledger.Operation) error {
	defer c.standing.follow(o)
	return c.ledger.Write(ctx, o)
}

// writeAll is write of several, nil ones left out, with an error for each.
func (c *charges) writeAll(ctx context.Context, ops []*ledger.Operation) []error {
	errs := c.ledger.WriteAll(ctx, ops)
	for _, o := range ops {
		if o != nil {
			c.standing.follow(o)
		}
	}
	return errs
}
