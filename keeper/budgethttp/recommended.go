package budgethttp

import (
	"fmt"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
)

// recommendedKept is the maximal number of cached responses: some 10 MB.
const recommendedKept = 10_000

// recommended caches the last encoded response for each app, until the keeper's recommendation
// changes. It serves most requests.
type recommended struct {
	last *lru.Cache[tenantPath, *kept]
}

// kept is a response and its recommendation. It is immutable.
type kept struct {
	of  budget.Recommendation
	out *selectionOutput
}

// newRecommended returns an empty cache of responses.
func newRecommended() *recommended {
	last, _ := lru.New[tenantPath, *kept](recommendedKept) // fails only for a size below 1
	return &recommended{last}
}

// responseFor returns the response for a recommendation, encoded once, and caches it for the app. It repeats
// the app's last response if the recommendation has the same content.
func (m *recommended) responseFor(org, app string, r budget.Recommendation) *selectionOutput {
	to := tenantPath{org, app}
	if k, ok := m.last.Get(to); ok && sameResponse(k.of, r) {
		return k.out
	}
	body := wire.NewSelection(org, app, r)
	out := &selectionOutput{CacheControl: fmt.Sprintf("private, max-age=%d", body.CacheDurationSecs), Body: body}
	if text, err := encode(body); err == nil { // otherwise marshal reports the error
		out.Body = body.WithEncoding(text)
		m.last.Add(to, &kept{r, out})
	}
	return out
}

// sameResponse reports whether two recommendations have the same response.
func sameResponse(a, b budget.Recommendation) bool {
	return a.Label == b.Label && a.Model == b.Model && a.Mode == b.Mode && a.Reason == b.Reason &&
		a.CacheFor == b.CacheFor && a.ResetAt.Equal(b.ResetAt) && a.Day == b.Day && a.Price == b.Price &&
		a.Stale == b.Stale && slices.Equal(a.Labels, b.Labels)
}
