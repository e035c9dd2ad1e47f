package llm_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/prices"
)

// TestPartsCostWhatTheirModelsDo, of which no token is counted twice: 1,000 in and 500 out of the
// model that was called cost 10,500 µ$, and 500 and 300 of another 1,600. The keeper, which knows
// the called one alone, counts all of them as that one's.
func TestPartsCostWhatTheirModelsDo(t *testing.T) {
	parts := []llm.Part{{Model: standardModel, Tokens: tokens{Input: 400, Output: 200}}, {Model: standardModel, Tokens: tokens{Input: 100, Output: 100}}}
	for status, micros := range map[string]int64{llm.StatusOK: 12_100, llm.StatusCut: 12_100 + 500*15} {
		t.Run(status, func(t *testing.T) {
			w, heard := memWorld(t), &endings{}
			w.limits(dynalimit.PerDay("usd", million), dynalimit.PerMinute("tpm", 100_000))
			g := w.guard(both, heard.hear, func(o *llm.Options) {
				o.Limits = map[string]llm.Measure{"usd": llm.Cost(prices.CatalogList()), "tpm": llm.TotalTokens}
			})
			c := w.start(g, request())
			require.NoError(t, c.Settle(t.Context(), llm.Usage{Tokens: used.Tokens, Parts: parts, Status: status}))
			assert.Equal(t, dynalimit.Amounts{"usd": micros, "tpm": 2_300}, c.Lease().Consumed())
			s := heard.one(t)
			assert.Equal(t, parts, s.Parts)
			assert.Equal(t, used.Tokens, s.Tokens)
			assert.Equal(t, int64(callMicros), w.spent("premium").CostMicros)
		})
	}
}

// TestPartsAreAmongTheTokens, or they are refused.
func TestPartsAreAmongTheTokens(t *testing.T) {
	w, g := moneyWorld(t)
	c := w.start(g, callOf("gpt-4o", llm.Estimate{InputTokens: 1, MaxOutputTokens: 1}))
	half := llm.Part{Tokens: tokens{Input: 800, Output: 400}}
	for _, parts := range [][]llm.Part{{half, half}, {{Tokens: tokens{CacheRead: 1}}}, {{Tokens: tokens{Input: -1}}}} {
		require.ErrorContains(t, c.Settle(t.Context(), llm.Usage{Tokens: used.Tokens, Parts: parts}), "usage.Parts[")
	}
}
