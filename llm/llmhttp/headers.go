package llmhttp

import (
	"net/http"
	"strings"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/refusal"
)

// showLimit removes the provider's rate-limit headers from h, because they are not the caller's. It sets those
// of the caller's own tightest limit, if statuses have one, and the dollars left of its money.
func showLimit(h http.Header, c refusal.Caller, statuses []dynalimit.LimitStatus) {
	for name := range h {
		if strings.HasPrefix(name, "X-Ratelimit-") || strings.HasPrefix(name, "Anthropic-Ratelimit-") {
			delete(h, name)
		}
	}
	if values, ok := c.LimitHeaders(statuses); ok {
		h.Set("X-Ratelimit-Limit", values[0])
		h.Set("X-Ratelimit-Remaining", values[1])
		if values[2] != "" {
			h.Set("X-Ratelimit-Reset", values[2])
		}
	}
	if left, money := c.DollarsLeft(statuses); money {
		h.Set("X-Ratelimit-Remaining-Usd", left)
	}
}
