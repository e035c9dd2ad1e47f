package refusal

import (
	"fmt"
	"strconv"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/problem"
)

// Caller is the entity whose limits an answer shows, and the requested resource.
type Caller struct{ Entity, Resource string }

// Owns reports whether a status is of a limit of the caller's own that may deny: neither a
// parent's, which other callers share, nor one in shadow.
func (c Caller) Owns(s *dynalimit.LimitStatus) bool {
	return s.EntityID == c.Entity && s.Requested > 0 && !s.Limit.Shadow
}

// Binding is the caller's own limit that denies the longest, or the one with the fewest such
// requests left; nil without one.
func (c Caller) Binding(statuses []dynalimit.LimitStatus) *dynalimit.LimitStatus {
	var tightest *dynalimit.LimitStatus
	left := func(s *dynalimit.LimitStatus) float64 { return float64(s.Remaining) / float64(s.Requested) }
	for i := range statuses {
		switch s := &statuses[i]; {
		case !c.Owns(s):
		case tightest == nil, s.RetryAfter > tightest.RetryAfter, s.RetryAfter == tightest.RetryAfter && left(s) < left(tightest):
			tightest = s
		}
	}
	return tightest
}

// Standing is the state of the caller's tightest own limit, as X-RateLimit-Limit, -Remaining and
// -Reset show it; ok is false without one. Calls in flight have no reset: it is empty.
func (c Caller) Standing(statuses []dynalimit.LimitStatus) (values [3]string, ok bool) {
	s := c.Binding(statuses)
	if s == nil {
		return values, false
	}
	values = [3]string{strconv.FormatInt(s.Limit.Burst, 10), strconv.FormatInt(max(s.Remaining, 0), 10), problem.Seconds(s.Reset)}
	if s.Limit.IsConcurrent() {
		values[2] = ""
	}
	return values, true
}

// DollarsLeft returns the value of X-RateLimit-Remaining-usd. It is the least rest of the caller's own limits on money,
// rounded down to cents. In debt it is "0.00". ok is false without such a limit.
func (c Caller) DollarsLeft(statuses []dynalimit.LimitStatus) (left string, ok bool) {
	var least int64
	for i := range statuses {
		if s := &statuses[i]; c.Owns(s) && s.Limit.Unit == dynalimit.USD {
			if !ok || s.Remaining < least {
				least = s.Remaining
			}
			ok = true
		}
	}
	if !ok {
		return "", false
	}
	cents := max(0, least) / microsPerCent
	return fmt.Sprintf("%d.%02d", cents/100, cents%100), true
}

// microsPerCent is the number of tokens of money in a cent.
const microsPerCent = 10_000

// Policy names a limit: a group's by the group too.
func (c Caller) Policy(s *dynalimit.LimitStatus) string {
	if s.Resource == c.Resource {
		return s.Limit.Name
	}
	return s.Resource + "/" + s.Limit.Name
}

// Describe compares a limit with the requested amount.
func (c Caller) Describe(s *dynalimit.LimitStatus) string {
	if s.RetryAfter == dynalimit.Never {
		return fmt.Sprintf("%s: %d asked, at most %d can ever be", c.Policy(s), s.Requested, s.Limit.Burst)
	}
	return fmt.Sprintf("%s: %d asked, %d left", c.Policy(s), s.Requested, max(s.Remaining, 0))
}
