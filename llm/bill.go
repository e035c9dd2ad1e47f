package llm

import (
	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/prices"
)

// bill is what a usage costs. A tier that nobody reports is the one asked for, or the standard
// one. One without a price is billed at the dearest.
func bill(p prices.CallPrice, u Usage, asked string) money.Picos {
	tier, named := tierOf(u.ServiceTier)
	if !named {
		tier, _ = tierOf(asked)
	}
	rates, sound := p.For(inputTokens(u.Tokens), tiers(p, tier, inputTokens(u.Tokens))...)
	var sum money.Picos
	left := u.SoundTokens
	for _, class := range []struct{ tokens, rate int64 }{
		{u.Tokens.Input, rates.Input},
		{u.Tokens.CacheRead, rates.CacheRead},
		{u.Tokens.CacheWrite5m, rates.CacheWrite5m},
		{u.Tokens.CacheWrite1h, rates.CacheWrite1h},
	} {
		ofSound := int64(0)
		if sound > 0 {
			ofSound = min(left, class.tokens)
			left -= ofSound
		}
		sum = sum.Add(money.Cost(class.tokens-ofSound, class.rate)).Add(money.Cost(ofSound, sound))
	}
	return sum.Add(money.Cost(u.Tokens.Output, rates.Output)).Add(used(p, u.Tools))
}

// withoutFee are tools of providers that cost the tokens which they bring in, and nothing for a
// use. A price of the operator's comes before it.
var withoutFee = map[string]bool{
	"web_fetch":   true, // Anthropic: "Web fetch tool", pricing; 2026-11
	"mcp":         true, // OpenAI: "Connectors and MCP servers", pricing; 2026-11
	"url_context": true, // Google: "URL context", pricing; 2026-11
}

// feeOf is what a use of a tool costs; known is false for a tool that has no price.
func feeOf(p prices.CallPrice, tool string) (micros int64, known bool) {
	micros, known = p.Tools[tool]
	return micros, known || withoutFee[tool]
}

// used is what tools cost. One without a price has the dearest.
func used(p prices.CallPrice, tools map[string]int64) (sum money.Picos) {
	for name, uses := range tools {
		each, known := feeOf(p, name)
		for _, micros := range p.Tools {
			if !known {
				each = max(each, micros)
			}
		}
		sum = sum.Add(money.FromMicros(each).Mul(uses))
	}
	return sum
}

// tierOf is a service tier as prices name it, "" for the standard one, and whether one is
// named at all.
func tierOf(name string) (tier string, named bool) {
	switch name {
	case "", "auto":
		return "", false
	case "default", "standard", "standard_only":
		return "", true
	}
	return name, true
}

// tiers are those whose rates a call is billed by: all, if its own has no price. A long context
// may cost more than a tier that has no price of its own for it.
func tiers(p prices.CallPrice, tier string, inputTokens int64) []string {
	if !p.HasTier(tier) {
		return nil
	}
	for _, v := range p.Variants {
		if v.Above > 0 && v.Above < inputTokens {
			return []string{tier, ""}
		}
	}
	return []string{tier}
}
