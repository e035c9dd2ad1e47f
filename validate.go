package dynalimit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/internal/calendar"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	// maxTokens bounds every amount, in whole tokens.
	maxTokens = schema.MaxTokens
	// maxPeriod bounds a refill period: longer than any billing cycle.
	maxPeriod = 366 * 24 * time.Hour
	// milli is the number of millitokens in a token.
	milli = 1000
)

// given refuses a nil context, which would end in a panic far from its cause.
func given(ctx context.Context) error { return problem.NoContext(ctx, "dynalimit") }

// checkNow refuses a clock whose times cannot be stored.
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
	if p != "" && p != Block && p != Allow && p != Local {
		return invalid(field, "is %q; give dynalimit.Block, dynalimit.Allow or dynalimit.Local", p)
	}
	return nil
}

func checkChargeMode(field string, m ChargeMode) error {
	if m != "" && m != ChargeParallel && m != ChargeTransaction {
		return invalid(field, "is %q; give dynalimit.ChargeParallel or dynalimit.ChargeTransaction", m)
	}
	return nil
}

// CheckLimits checks a list of limits, fills in the defaults and sorts it by name. It fails
// with a *ValidationError that names the field; an empty list is one: it would admit
// everything or nothing.
func CheckLimits(field string, limits []Limit) ([]Limit, error) {
	if len(limits) == 0 {
		return nil, invalid(field, "is empty; give at least one limit, for example dynalimit.PerMinute(\"rpm\", 100)")
	}
	if len(limits) > schema.MaxLimits {
		return nil, invalid(field, "has %d limits; a bucket holds at most %d", len(limits), schema.MaxLimits)
	}
	out := make([]Limit, len(limits))
	for i, l := range limits {
		l = l.withDefaults()
		if err := checkLimit(fmt.Sprintf("%s[%d]", field, i), l); err != nil {
			return nil, err
		}
		out[i] = l
	}
	slices.SortFunc(out, func(a, b Limit) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(out); i++ {
		if out[i].Name == out[i-1].Name {
			return nil, invalid(field, "names %q twice; give each limit once", out[i].Name)
		}
	}
	return out, nil
}

func checkLimit(field string, l Limit) error {
	if reason := schema.CheckLimitName(l.Name); reason != "" {
		return invalid(field+".Name", "%s", reason)
	}
	for _, n := range []struct {
		name  string
		value int64
	}{{"Capacity", l.Capacity}, {"Burst", l.Burst}, {"RefillAmount", l.RefillAmount}} {
		if n.value < 1 || n.value > maxTokens {
			return invalid(field+"."+n.name, "is %d for %q; give 1 to %d tokens", n.value, l.Name, int64(maxTokens))
		}
	}
	if l.MaxDebt < 0 || l.MaxDebt > maxTokens {
		return invalid(field+".MaxDebt", "is %d for %q; give 1 to %d tokens, or 0 for any debt", l.MaxDebt, l.Name, int64(maxTokens))
	}
	if l.Unit != "" && l.Unit != USD {
		return invalid(field+".Unit", "is %q for %q; give dynalimit.USD for money, or nothing", l.Unit, l.Name)
	}
	if l.PerModel && l.Unit == "" {
		return invalid(field+".PerModel", "is set for %q, which is no money; leave it out", l.Name)
	}
	if l.IsQuota() {
		return checkQuota(field, l)
	}
	if l.Unit != "" {
		return invalid(field+".Unit", "is money for %q, which is a token bucket; give money in a quota, for example with dynalimit.DailyMoney", l.Name)
	}
	if l.Zone != "" {
		return invalid(field+".Zone", "is %q for %q, which has no window; set Window, or leave the zone out", l.Zone, l.Name)
	}
	if l.RefillPeriod < time.Millisecond || l.RefillPeriod > maxPeriod || l.RefillPeriod%time.Millisecond != 0 {
		return invalid(field+".RefillPeriod", "is %v for %q; give whole milliseconds up to %v", l.RefillPeriod, l.Name, maxPeriod)
	}
	return nil
}

// checkQuota refuses what a calendar quota cannot have.
func checkQuota(field string, l Limit) error {
	switch {
	case l.RefillPeriod != 0:
		return invalid(field+".RefillPeriod", "is %v for %q, which is a quota of each %s; leave it out", l.RefillPeriod, l.Name, l.Window)
	case l.Burst != l.Capacity:
		return invalid(field+".Burst", "is %d for %q; a quota has no burst but its capacity (%d)", l.Burst, l.Name, l.Capacity)
	case l.RefillAmount != l.Capacity:
		return invalid(field+".RefillAmount", "is %d for %q; a quota regains its capacity (%d)", l.RefillAmount, l.Name, l.Capacity)
	}
	if _, err := calendar.WindowsOf(l.Window, l.Zone); err != nil {
		return invalid(field+".Window", "of %q: %v", l.Name, err)
	}
	return nil
}

// checkAmounts refuses an amount that no limit can hold, and negative ones
// where only Adjust may be signed.
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
