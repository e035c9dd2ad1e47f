package budget

import (
	"context"

	"github.com/dynalimit/dynalimit/internal/problem"
)

// usable refuses calls of a keeper that New did not make, and without a context.
func (k *Keeper) usable(ctx context.Context) error {
	if k == nil || k.core == nil {
		return invalid("keeper", "was not made by New; make one with budget.New(client, budget.Tables{}, nil)")
	}
	return problem.NoContext(ctx, pkg)
}
