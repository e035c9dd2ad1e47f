package llm

import (
	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/internal/money"
)

// bill is what a usage costs. A tier that nobody reports is the one asked for.
// One without a price is billed at the dearest.
func bill(p budget.CallPrice, u Usage, asked string) money.Picos {
	tier, named := tierOf(u.ServiceTier)
	if !named || !p.HasTier(tier) {
		tier, named = tierOf(asked)
	}
	named = named && p.HasTier(tier)
	rates, sound := p.For(inputTokens(u.Tokens), tiers(p, tier, named, inputTokens(u.Tokens))...)
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

// used is what tools cost. One without a price has the dearest.
func used(p budget.CallPrice, tools map[string]int64) (sum money.Picos) {
	for name, uses := range tools {
		each, priced := p.Tools[name]
		for _, micros := range p.Tools {
			if !priced {
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

// tiers are those whose rates a call is billed by: all, if none is named. A long context may
// cost more than a tier that has no price of its own for it.
func tiers(p budget.CallPrice, tier string, named bool, inputTokens int64) []string {
	if !named {
		return nil
	}
	for _, v := range p.Variants {
		if v.Above > 0 && v.Above < inputTokens {
			return []string{tier, ""}
		}
	}
	return []string{tier}
}
