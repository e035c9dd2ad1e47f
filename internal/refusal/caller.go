package refusal

import (
	"fmt"
	"strconv"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/problem"
)

// Caller is the entity whose limits an answer shows, and the requested resource.
type Caller struct{ Entity, Resource string }

// Owns reports whether a status is of a limit of the caller's own that the call requested and that may deny. It
// is false for a parent's limit, which other callers share, and for one in shadow.
func (c Caller) Owns(s *dynalimit.LimitStatus) bool {
	return s.EntityID == c.Entity && s.Requested > 0 && !s.Limit.Shadow
}

// TightestLimit returns the caller's own limit that denies the longest, or else the one with the fewest such
// requests left; nil without one.
func (c Caller) TightestLimit(statuses []dynalimit.LimitStatus) *dynalimit.LimitStatus {
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

// LimitHeaders returns the values of X-RateLimit-Limit, -Remaining (tokens) and -Reset (seconds) for the
// caller's tightest own limit; ok is false without one. The reset of a limit of calls in flight is "".
func (c Caller) LimitHeaders(statuses []dynalimit.LimitStatus) (values [3]string, ok bool) {
	s := c.TightestLimit(statuses)
	if s == nil {
		return values, false
	}
	values = [3]string{strconv.FormatInt(s.Limit.Burst, 10), strconv.FormatInt(max(s.Remaining, 0), 10), problem.RetryAfterText(s.Reset)}
	if s.Limit.IsConcurrent() {
		values[2] = ""
	}
	return values, true
}

// DollarsLeft returns the value of X-RateLimit-Remaining-usd: the least rest of the caller's own limits of
// money, in dollars rounded down to cents; "0.00" in debt. It returns false without such a limit.
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

// PolicyName returns the name of a limit in headers: GROUP/LIMIT if it is a group's, else the limit's name.
func (c Caller) PolicyName(s *dynalimit.LimitStatus) string {
	if s.Resource == c.Resource {
		return s.Limit.Name
	}
	return s.Resource + "/" + s.Limit.Name
}

// DescribeLimit describes a denying limit for people: the requested amount and the tokens left, or the burst if
// no wait helps.
func (c Caller) DescribeLimit(s *dynalimit.LimitStatus) string {
	if s.RetryAfter == dynalimit.Never {
		return fmt.Sprintf("%s: %d asked, at most %d can ever be", c.PolicyName(s), s.Requested, s.Limit.Burst)
	}
	return fmt.Sprintf("%s: %d asked, %d left", c.PolicyName(s), s.Requested, max(s.Remaining, 0))
}
