package budgethttp

import (
	"fmt"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
)

// recommendedKept is how many apps' answers are kept: some 10 MB.
const recommendedKept = 10_000

// recommended keeps the last answer of each app, encoded, for as long as the keeper
// recommends the same: most requests are answered so.
type recommended struct {
	last *lru.Cache[tenantPath, *kept]
}

// kept is an answer, and what it is of. Nobody changes it.
type kept struct {
	of  budget.Recommendation
	out *selectionOutput
}

func newRecommended() *recommended {
	last, _ := lru.New[tenantPath, *kept](recommendedKept) // fails only for a size below 1
	return &recommended{last}
}

// answer is the answer with a recommendation.
func (m *recommended) answer(org, app string, r budget.Recommendation) *selectionOutput {
	to := tenantPath{org, app}
	if k, ok := m.last.Get(to); ok && same(k.of, r) {
		return k.out
	}
	body := wire.NewSelection(org, app, r)
	out := &selectionOutput{CacheControl: fmt.Sprintf("private, max-age=%d", body.CacheDurationSecs), Body: body}
	if text, err := encode(body); err == nil { // else marshal says so
		out.Body = body.Kept(text)
		m.last.Add(to, &kept{r, out})
	}
	return out
}

// same reports whether two recommendations are answered alike.
func same(a, b budget.Recommendation) bool {
	return a.Label == b.Label && a.Model == b.Model && a.Mode == b.Mode && a.Reason == b.Reason &&
		a.CacheFor == b.CacheFor && a.ResetAt.Equal(b.ResetAt) && a.Day == b.Day && a.Price == b.Price &&
		a.Stale == b.Stale && slices.Equal(a.Labels, b.Labels)
}
