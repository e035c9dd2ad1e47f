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

// setFields sets the X-RateLimit fields of the caller's own tightest limit, that of money in dollars, and with draft also
// RateLimit and RateLimit-Policy. The wait is the answer's Retry-After, Never without one.
func (c fields) setFields(h http.Header, statuses []dynalimit.LimitStatus, wait time.Duration, draft bool) {
	values, ok := c.Standing(statuses)
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
		c.showDraft(h, statuses, wait)
	}
}

// showDraft sets the draft's RateLimit fields for limits that count requests: the draft has no unit for
// tokens and money. A reset is not later than wait.
func (c fields) showDraft(h http.Header, statuses []dynalimit.LimitStatus, wait time.Duration) {
	var policies, limits []byte
	for i := range statuses {
		s := &statuses[i]
		if !c.Owns(s) || s.Requested != 1 || s.Limit.Unit != "" {
			continue
		}
		policies = listItem(policies, c.Policy(s), ";q=", s.Limit.Burst)
		if w := burstTime(s.Limit); w > 0 {
			policies = append(append(policies, ";w="...), problem.Seconds(w)...)
		}
		limits = listItem(limits, c.Policy(s), ";r=", s.Remaining)
		// Within t no more than r is promised, so t is not past Retry-After.
		if s.Limit.IsConcurrent() { // nobody knows when a call ends
			continue
		}
		limits = append(append(limits, ";t="...), problem.Seconds(min(s.Reset, wait))...)
	}
	if policies != nil {
		h["Ratelimit-Policy"], h["Ratelimit"] = []string{string(policies)}, []string{string(limits)}
	}
}

// listItem appends a quoted name with a count as its parameter, such as ";q=", to a list of structured fields
// (RFC 9651).
func listItem(list []byte, name, parameter string, n int64) []byte {
	if list != nil {
		list = append(list, ", "...)
	}
	list = append(strconv.AppendQuote(list, name), parameter...)
	return strconv.AppendInt(list, min(max(n, 0), 999_999_999_999_999), 10)
}

// burstTime returns the time in which a limit allows its burst, 0 for a calendar window without a fixed
// length or a time beyond the range of durations.
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
