package httplimit

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/refusal"
)

// fields are those about a caller's limits.
type fields struct{ refusal.Caller }

// setFields sets X-RateLimit-Limit, -Remaining and -Reset by the caller's own tightest limit, -Remaining-Usd by
// its money, and with draft RateLimit and RateLimit-Policy. Without an own limit it sets nothing. wait, the
// answer's Retry-After or Never, bounds the draft's reset.
func (c fields) setFields(h http.Header, statuses []dynalimit.LimitStatus, wait time.Duration, draft bool) {
	values, ok := c.LimitHeaders(statuses)
	if !ok {
		return
	}
	h["X-Ratelimit-Limit"], h["X-Ratelimit-Remaining"] = values[:1:1], values[1:2:2]
	if values[2] != "" {
		h["X-Ratelimit-Reset"] = values[2:3:3]
	}
	if left, money := c.DollarsLeft(statuses); money {
		h["X-Ratelimit-Remaining-Usd"] = []string{left}
	}
	if draft {
		c.setDraftFields(h, statuses, wait)
	}
}

// setDraftFields sets the draft's fields RateLimit and RateLimit-Policy for the caller's own limits without a
// unit, if the call requested 1 token. A reset is at most wait; calls in flight have none. Without such a limit
// it sets nothing.
func (c fields) setDraftFields(h http.Header, statuses []dynalimit.LimitStatus, wait time.Duration) {
	var policies, limits []byte
	for i := range statuses {
		s := &statuses[i]
		if !c.Owns(s) || s.Requested != 1 || s.Limit.Unit != "" {
			continue
		}
		policies = appendItem(policies, c.PolicyName(s), ";q=", s.Limit.Burst)
		if w := burstTime(s.Limit); w > 0 {
			policies = append(append(policies, ";w="...), problem.RetryAfterText(w)...)
		}
		limits = appendItem(limits, c.PolicyName(s), ";r=", s.Remaining)
		// Within t no more than r is promised, so t is not past Retry-After.
		if s.Limit.IsConcurrent() { // nobody knows when a call ends
			continue
		}
		limits = append(append(limits, ";t="...), problem.RetryAfterText(min(s.Reset, wait))...)
	}
	if policies != nil {
		h["Ratelimit-Policy"], h["Ratelimit"] = []string{string(policies)}, []string{string(limits)}
	}
}

// appendItem returns list, a list of structured fields (RFC 9651), with one more item: a quoted name, then the
// parameter, such as ";q=", and n. It cuts n to 0 to 10^15-1.
func appendItem(list []byte, name, parameter string, n int64) []byte {
	if list != nil {
		list = append(list, ", "...)
	}
	list = append(strconv.AppendQuote(list, name), parameter...)
	return strconv.AppendInt(list, min(max(n, 0), 999_999_999_999_999), 10)
}

// burstTime returns the time in which a limit refills its burst: the window of a quota, or the fill time of a
// token bucket. It is 0, unknown, for a month, for calls in flight, and beyond the range of durations.
func burstTime(l dynalimit.Limit) time.Duration {
	switch l.Window {
	case "hour":
		return time.Hour
	case "day":
		return 24 * time.Hour
	case "week":
		return 7 * 24 * time.Hour
	case "":
		if l.IsConcurrent() {
			return 0
		}
		if fill := float64(l.Burst) / float64(l.RefillAmount) * float64(l.RefillPeriod); fill < math.MaxInt64 {
			return time.Duration(fill)
		}
	}
	return 0
}
