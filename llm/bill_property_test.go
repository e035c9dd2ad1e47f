package llm_test

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/prices"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// pricedModels are the ids of a list, in order.
func pricedModels(list prices.List) []string {
	ids := slices.Collect(maps.Keys(list.Calls))
	for _, p := range list.Prices {
		if p.Scope == prices.Global {
			p.Model = "global." + p.Model
		}
		ids = append(ids, p.Model)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// drawEstimate is a request that can be bounded, of a model with this price.
func drawEstimate(t *rapid.T, p prices.CallPrice) llm.Estimate {
	tiers := []string{"", "auto", "default"}
	for _, v := range p.Variants {
		if v.Tier != "" {
			tiers = append(tiers, v.Tier)
		}
	}
	e := llm.Estimate{
		InputTokens:     rapid.Int64Range(0, 300_000).Draw(t, "input"),
		InputBytes:      rapid.Int64Range(0, 300_000).Draw(t, "bytes"),
		AddedTokens:     rapid.Int64Range(1, 50_000).Draw(t, "added"),
		MaxOutputTokens: rapid.Int64Range(1, 100_000).Draw(t, "most output"),
		Choices:         rapid.Int64Range(0, 4).Draw(t, "choices"),
		Sound:           p.Sound > 0 && rapid.Bool().Draw(t, "sound"),
		CacheHour:       rapid.Bool().Draw(t, "an hour"),
		ServiceTier:     rapid.SampledFrom(tiers).Draw(t, "tier"),
		Tools:           map[string]int64{},
	}
	for _, name := range slices.Sorted(maps.Keys(p.Tools)) {
		if rapid.Bool().Draw(t, name) {
			e.Tools[name] = rapid.Int64Range(1, 20).Draw(t, name+" uses")
		}
	}
	return e
}

// drawUsage is what such a request may use.
func drawUsage(t *rapid.T, e llm.Estimate) llm.Usage {
	left := e.InputTokens + e.AddedTokens
	if e.InputBytes > 0 {
		left = max(e.InputTokens, e.InputBytes+1_000) + e.AddedTokens
	}
	part := func(name string) int64 {
		n := rapid.Int64Range(0, left).Draw(t, name)
		left -= n
		return n
	}
	var u llm.Usage
	u.Tokens.CacheRead = part("read")
	u.Tokens.CacheWrite5m = part("written")
	if e.CacheHour {
		u.Tokens.CacheWrite1h = part("written for an hour")
	}
	u.Tokens.Input = part("uncached")
	u.Tokens.Output = rapid.Int64Range(0, e.MaxOutputTokens*max(1, e.Choices)).Draw(t, "output")
	if e.Sound {
		u.SoundTokens = rapid.Int64Range(0, u.Tokens.Input).Draw(t, "sound tokens")
	}
	u.Tools = map[string]int64{}
	for _, name := range slices.Sorted(maps.Keys(e.Tools)) {
		u.Tools[name] = rapid.Int64Range(0, e.Tools[name]).Draw(t, name+" used")
	}
	switch e.ServiceTier {
	case "", "auto":
		u.ServiceTier = rapid.SampledFrom([]string{"", "auto", "default"}).Draw(t, "served by")
	default:
		u.ServiceTier = rapid.SampledFrom([]string{e.ServiceTier, "default", ""}).Draw(t, "served by")
	}
	return u
}

// billOf returns the exact cost of a usage at price p, in pico-dollars. The tier is the reported one, else
// asked, the requested one, else the standard one. A tier or tool without a price costs as much as the dearest.
func billOf(p prices.CallPrice, u llm.Usage, tier string) int64 {
	if tier == "default" || tier == "auto" {
		tier = ""
	}
	tok := u.Tokens
	n := tok.Input + tok.CacheRead + tok.CacheWrite5m + tok.CacheWrite1h
	var r prices.Rates
	var sound int64
	longer := slices.ContainsFunc(p.Variants, func(v prices.CallRates) bool { return v.Above > 0 && n > v.Above })
	for _, v := range append([]prices.CallRates{{Sound: p.Sound, Rates: p.Rates}}, p.Variants...) {
		if v.Above > 0 && n <= v.Above || v.Tier != tier && (v.Tier != "" || !longer) {
			continue
		}
		or := func(rate, assumed int64) int64 {
			if rate == 0 {
				return assumed
			}
			return max(rate, 0)
		}
		r.Input, r.Output = max(r.Input, v.Input), max(r.Output, v.Output)
		r.CacheRead = max(r.CacheRead, or(v.CacheRead, v.Input))
		r.CacheWrite5m = max(r.CacheWrite5m, or(v.CacheWrite5m, v.Input+(v.Input+3)/4))
		r.CacheWrite1h = max(r.CacheWrite1h, or(v.CacheWrite1h, 2*v.Input))
		sound = max(sound, or(v.Sound, p.Sound*max(1, (v.Input+p.Input-1)/p.Input)))
	}
	sum := new(big.Int)
	add := func(n, rate int64) { sum.Add(sum, new(big.Int).Mul(big.NewInt(n), big.NewInt(rate))) }
	add(tok.Input-u.SoundTokens, r.Input)
	add(u.SoundTokens, sound)
	add(tok.CacheRead, r.CacheRead)
	add(tok.CacheWrite5m, r.CacheWrite5m)
	add(tok.CacheWrite1h, r.CacheWrite1h)
	add(tok.Output, r.Output)
	for name, uses := range u.Tools {
		add(uses*million, p.Tools[name])
	}
	sum.Add(sum, big.NewInt(million-1))
	return sum.Div(sum, big.NewInt(million)).Int64()
}

// TestNoUsageWithinARequestExceedsItsHold, whatever the request, the model and the tier that
// serves it; and what is settled is the bill, rounded up once.
func TestNoUsageWithinARequestExceedsItsHold(t *testing.T) {
	w := memWorld(t)
	w.clock.set(autumn)
	g := w.moneyGuard(million * million)
	list := prices.CatalogList()
	models := pricedModels(list)
	var n atomic.Int64 // an entity for each, so that no day is used up
	rapid.Check(t, func(rt *rapid.T) {
		model := rapid.SampledFrom(models).Draw(rt, "model")
		p, err := list.Price(model, autumn)
		require.NoError(rt, err, model)
		e := drawEstimate(rt, p)
		u := drawUsage(rt, e)
		c, err := g.Start(t.Context(), llm.Request{Entity: fmt.Sprint(user, "-", n.Add(1)), Resource: "all", Model: model, Estimate: e})
		require.NoError(rt, err)
		held := c.Lease().Used()["usd"]
		require.NoError(rt, c.Settle(t.Context(), u))
		bill := c.Lease().Used()["usd"]
		tier := u.ServiceTier
		if tier == "" || tier == "auto" {
			tier = e.ServiceTier
		}
		require.Equal(rt, billOf(p, u, tier), bill)
		require.LessOrEqual(rt, bill, held)
	})
}
