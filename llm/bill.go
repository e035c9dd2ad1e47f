package llm

import (
	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/prices"
)

// billOf returns the exact cost of a usage at price p, in pico-dollars. The tier is the reported one, else
// asked, the requested one, else the standard one. A tier or tool without a price costs as much as the dearest.
func billOf(p prices.CallPrice, u Usage, asked string) money.Picos {
	tier, named := tierOf(u.ServiceTier)
	if !named {
		tier, _ = tierOf(asked)
	}
	rates, sound := p.For(inputTokens(u.Tokens), billingTiers(p, tier, inputTokens(u.Tokens))...)
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
	return sum.Add(money.Cost(u.Tokens.Output, rates.Output)).Add(feesOf(p, u.Tools))
}

// withoutFee are providers' tools that cost only the tokens that they add, and no fee for a
// use. An operator's own price wins.
var withoutFee = map[string]bool{
	"web_fetch":   true, // Anthropic: "Web fetch tool", pricing; 2026-11
	"mcp":         true, // OpenAI: "Connectors and MCP servers", pricing; 2026-11
	"url_context": true, // Google: "URL context", pricing; 2026-11
}

// toolFee returns the fee of one use of a tool in micro-dollars, 0 for a tool known to be free. It returns
// false for one without a price. An operator's own price wins.
func toolFee(p prices.CallPrice, tool string) (micros int64, known bool) {
	micros, known = p.Tools[tool]
	return micros, known || withoutFee[tool]
}

// feesOf returns the exact cost of tool uses in pico-dollars; tools has the uses by tool name. A tool without a
// price that is not known to be free costs as much as the dearest tool of p.
func feesOf(p prices.CallPrice, tools map[string]int64) (sum money.Picos) {
	for name, uses := range tools {
		each, known := toolFee(p, name)
		for _, micros := range p.Tools {
			if !known {
				each = max(each, micros)
			}
		}
		sum = sum.Add(money.FromMicros(each).Mul(uses))
	}
	return sum
}

// tierOf returns the name that prices use for a service tier: "" for the standard one, and an unknown name
// unchanged. It returns false for "" and "auto", which name no tier.
func tierOf(name string) (tier string, named bool) {
	switch name {
	case "", "auto":
		return "", false
	case "default", "standard", "standard_only":
		return "", true
	}
	return name, true
}

// billingTiers returns the tiers at which a call may be billed; the caller takes the dearest. They are its own
// and, for an input with a long-context price, the standard one. It returns nil, which means all tiers, if its
// own tier has no price.
func billingTiers(p prices.CallPrice, tier string, inputTokens int64) []string {
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
