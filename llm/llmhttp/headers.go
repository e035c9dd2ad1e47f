package llmhttp

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/refusal"
)

// show puts the caller's own limit that binds on an answer, in place of the provider's limits,
// which are not the caller's.
func show(h http.Header, c refusal.Caller, statuses []dynalimit.LimitStatus) {
	for name := range h {
		if strings.HasPrefix(name, "X-Ratelimit-") || strings.HasPrefix(name, "Anthropic-Ratelimit-") {
			delete(h, name)
		}
	}
	if s := c.Binding(statuses); s != nil {
		h.Set("X-Ratelimit-Limit", strconv.FormatInt(s.Limit.Burst, 10))
		h.Set("X-Ratelimit-Remaining", strconv.FormatInt(max(s.Remaining, 0), 10))
		h.Set("X-Ratelimit-Reset", problem.Seconds(s.Reset))
	}
}
