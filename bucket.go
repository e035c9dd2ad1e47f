// The lazy refill of buckets is in internal/bucket/bucket.go, which has no imports. This file converts
// images of buckets for users.

package dynalimit

import (
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// limitOf converts a stored limit to whole tokens.
func limitOf(name string, capacity int64, rate bucket.Rate) (l Limit) {
	if rate.IsQuota() {
		return quota(name, rate.Burst/milli, rate.Windows().Unit(), rate.Windows().Zone())
	}
	l.setBucket(name, capacity, &rate)
	return l
}

// setBucket fills in a zero limit as a token bucket.
func (l *Limit) setBucket(name string, capacity int64, rate *bucket.Rate) {
	l.Name, l.Capacity, l.Burst, l.RefillAmount = name, capacity/milli, rate.Burst/milli, rate.Amount/milli
	l.RefillPeriod = time.Duration(rate.Period) * time.Millisecond
}

// signedOf converts amounts from whole tokens to millitokens, in name order.
func signedOf(a Amounts) []plan.Signed {
	out := make([]plan.Signed, 0, len(a))
	for name, n := range a {
		out = append(out, plan.Signed{Name: name, Amount: n * milli})
	}
	slices.SortFunc(out, func(a, b plan.Signed) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// tokensOf converts amounts from millitokens to whole tokens.
func tokensOf(list []plan.Signed) Amounts { return plan.Tokens(list) }
