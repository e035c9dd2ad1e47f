package llm

import (
	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/prices"
)

// highestCost returns the highest possible cost of a call, exact in pico-dollars. If the cost has no bound, it
// returns a *ValidationError that names the missing one.
func highestCost(p prices.CallPrice, e Estimate) (money.Picos, error) {
	if err := checkBounded(p, e); err != nil {
		return money.Picos{}, err
	}
	return dearestCost(p, e, e.mostOutput()), nil
}

// dearestCost returns the exact cost, in pico-dollars, of an estimate's longest prompt at its dearest input
// class. It includes the given output tokens and all uses of tools.
func dearestCost(p prices.CallPrice, e Estimate, output int64) money.Picos {
	rates, sound := ratesOf(p, e)
	input := max(rates.Input, rates.CacheRead, rates.CacheWrite5m)
	if e.CacheHour {
		input = max(input, rates.CacheWrite1h)
	}
	if e.Sound {
		input = max(input, sound)
	}
	return money.Cost(e.mostInput(), input).Add(money.Cost(output, rates.Output)).Add(feesOf(p, e.Tools))
}

// ratesOf returns the dearest possible rates of a call, and that of sound, in micro-dollars a million tokens.
// It includes the standard tier, because a provider may serve another tier's request there.
func ratesOf(p prices.CallPrice, e Estimate) (rates prices.Rates, sound int64) {
	tier, _ := tierOf(e.ServiceTier)
	return p.For(e.mostInput(), tier, "")
}

// checkBounded returns a *ValidationError if the cost of the estimate has no upper bound. It needs a prompt
// length, a maximum output, and a price of the tier, sound and each tool, with bounded uses.
func checkBounded(p prices.CallPrice, e Estimate) error {
	rates, sound := ratesOf(p, e)
	tier, _ := tierOf(e.ServiceTier)
	switch {
	case e.mostInput() == 0:
		return invalid("estimate.InputBytes", "is 0, as is InputTokens, and a limit on money needs the most that the prompt can have; give the length of the request in bytes, or InputTokens as the model's tokenizer counts them")
	case e.MaxOutputTokens == 0 && rates.Output > 0:
		return invalid("estimate.MaxOutputTokens", "is 0, and a limit on money needs the most that the reply can have; set max_tokens, or the provider's name for it, in the request, and give it here too")
	case !p.HasTier(tier):
		return invalid("estimate.ServiceTier", "%q has no price for this model; name another, or add the tier to the price", e.ServiceTier)
	case e.Sound && sound == 0:
		return invalid("estimate.Sound", "has no price for this model; add it to the price")
	case len(e.Tools) > 0 && e.AddedTokens == 0:
		return invalid("estimate.AddedTokens", "is 0, but what tools bring in is input too; give the most that it can be")
	}
	for name, uses := range e.Tools {
		if _, known := toolFee(p, name); !known {
			return invalid("estimate.Tools["+name+"]", "has no price for this model; leave the tool out, or add it to the price")
		}
		if uses == 0 {
			return invalid("estimate.Tools["+name+"]", "is 0, no bound; bound its uses in the request (max_uses, max_tool_calls), and give the bound here too")
		}
	}
	return nil
}
