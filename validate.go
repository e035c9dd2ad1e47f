package dynalimit

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	// maxTokens bounds every amount, in whole tokens.
	maxTokens = schema.MaxTokens
	// milli is the number of millitokens in a token.
	milli = 1000
)

// given refuses a nil context, which would end in a panic far from its cause.
func given(ctx context.Context) error { return problem.NoContext(ctx, "dynalimit") }

// checkNow refuses a clock with times that cannot be stored.
func checkNow(now func() time.Time) error {
	if reason := ddb.CheckSource(now); reason != "" {
		return invalid("options.Now", "%s", reason)
	}
	return nil
}

func checkEntityID(field, id string) error {
	if reason := schema.CheckEntity(id); reason != "" {
		return invalid(field, "%s", reason)
	}
	return nil
}

func checkResource(resource string) error {
	if reason := schema.CheckResource(resource); reason != "" {
		return invalid("resource", "%s", reason)
	}
	return nil
}

func checkPolicy(field string, p UnavailablePolicy) error {
	if p != "" && p != Refuse && p != Allow && p != Local {
		return invalid(field, "is %q; give dynalimit.Refuse, dynalimit.Allow or dynalimit.Local", p)
	}
	return nil
}

func checkChargeMode(field string, m ChargeMode) error {
	if m != "" && m != ChargeParallel && m != ChargeTransaction {
		return invalid(field, "is %q; give dynalimit.ChargeParallel or dynalimit.ChargeTransaction", m)
	}
	return nil
}

// checkLimits checks a list of limits, fills in the defaults and sorts it by name. It fails with a
// *ValidationError that names the field. An empty list is an error too: it would admit everything or
// nothing.
func checkLimits(field string, limits []Limit) ([]Limit, error) {
	checked, at, reason := schema.CheckLimits(storedLimits(limits))
	if reason != "" {
		return nil, invalid(field+at, "%s", reason)
	}
	return userLimits(checked), nil
}

// checkAmounts refuses an amount that no limit can hold, and negative amounts unless signed is set, as
// for Adjust.
func checkAmounts(amounts Amounts, signed bool) error {
	if len(amounts) == 0 {
		return invalid("amounts", "is empty; name at least one limit, for example dynalimit.Amounts{\"rpm\": 1}")
	}
	for name, n := range amounts {
		if reason := schema.CheckLimitName(name); reason != "" {
			return invalid("amounts", "limit name %s", reason)
		}
		if n < 0 && !signed {
			return invalid("amounts["+name+"]", "is %d; give 0 or more (only Lease.Adjust takes negative amounts, and gives them back)", n)
		}
		if n > maxTokens || n < -maxTokens {
			return invalid("amounts["+name+"]", "is %d; at most %d tokens are allowed", n, int64(maxTokens))
		}
	}
	return nil
}
