package laws

import (
	"context"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/call"
	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// Inside shows the inner state of what a history plays on. Only the tests of package dynalimit can.
type Inside struct {
	// Desk returns the desk of a limiter, and Held the state of a lease at each of its buckets.
	Desk func(*dynalimit.RateLimiter) *call.Desk
	Held func(*dynalimit.Lease) []call.Held
	// Config returns the configuration in force and its limits. With anew, it reads them from the table.
	Config func(ctx context.Context, r *dynalimit.Repository, key config.Key, anew bool) (config.Found, []dynalimit.Limit, error)
}

// chargedAt returns the amounts, in millitokens, of the limits that a bucket charges. amounts are in whole
// tokens; those of 0 or less are left out.
func chargedAt(held *call.Held, amounts dynalimit.Amounts) (charged []plan.Signed) {
	for name, n := range amounts {
		if n > 0 && held.Config.Charges(name) {
			charged = append(charged, plan.Signed{Name: name, Amount: n * 1000})
		}
	}
	return charged
}
