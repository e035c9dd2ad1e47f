package main

import (
	"context"
	"errors"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/tables"
	"github.com/dynalimit/dynalimit/keeper/budget"
)

// budgetPlans returns the library's definitions (tables.Plan) of the two tables of budgets, without a request.
// The Make of either creates both tables. flags go into advised commands.
func (w whichTables) budgetPlans(flags tables.Flags) ([]tables.Plan, error) {
	names := budget.Tables{Control: w.Control, Usage: w.Usage}
	inputs, err := names.TableInputs()
	if err != nil {
		return nil, err
	}
	var plans []tables.Plan
	for _, in := range inputs {
		plans = append(plans, tables.Plan{Input: in, TTL: budget.TTLAttribute, Flags: flags, Make: func(ctx context.Context, client tables.Client) error {
			keeper, err := budget.New(client, names, nil)
			if err != nil {
				return err
			}
			err = keeper.Setup().CreateTables(ctx)
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closingTime)
			defer cancel()
			return errors.Join(err, keeper.Close(closing))
		}})
	}
	return plans, nil
}
