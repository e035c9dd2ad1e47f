package call

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/inside"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/store"
)

// Inside shows the buckets of a call to the suites.
func (c *Call) Inside() []inside.Level {
	var levels []inside.Level
	for i := range c.levels {
		lv := &c.levels[i]
		levels = append(levels, inside.Level{
			Lane: lv.lane, Degraded: lv.degraded, Holdings: lv.holdings, Config: lv.cfg, Incarnation: &lv.incarnation, Last: lv.last.Reading,
			Charges: func(further map[string]int64) []plan.Signed {
				if further != nil {
					return amountsAt(lv.cfg, further)
				}
				return amountsAt(lv.cfg, c.request.Amounts)
			},
		})
	}
	return levels
}

// WrapTransactions puts wrap around the sending of transactions, for the suites.
func (d *Desk) WrapTransactions(wrap func(next inside.Transact) inside.Transact) {
	next := d.Transact
	send := wrap(func(ctx context.Context, items []types.TransactWriteItem, token string, slot int) (ddb.Verdict, map[int]*schema.Image, error) {
		return next(ctx, &store.Transaction{Items: items, Token: token}, slot)
	})
	d.Transact = func(ctx context.Context, t *store.Transaction, slot int) (ddb.Verdict, map[int]*schema.Image, error) {
		return send(ctx, t.Items, t.Token, slot)
	}
}
