package llm

import (
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/prices"
)

// Prices gives Cost the price of a model; prices.List implements it. It must be safe for concurrent
// use.
type Prices interface {
	// Price is the price of exactly this model at an instant. Its error is a
	// *ValidationError for a model without a price.
	Price(model string, at time.Time) (prices.CallPrice, error)
}

// Cost measures a call in micro-dollars, rounded up once, for a limit on money. The guard reads
// the price of the call's Model once, before the call, and settles at the same price. It refuses a
// model without a price with ErrNoPrice.
//
// Before the call Cost is the highest possible cost, never lowered to a burst: a call that
// is dearer than the whole limit is dynalimit.ErrExceedsBurst. It is
//
//	prompt × dearest input class + reply × output class + Σ uses × tool
//
// The prompt has InputTokens, or with InputBytes the larger of that and InputBytes +
// 1,000, and AddedTokens more. The reply has MaxOutputTokens × Choices. The input classes are
// uncached, read from the cache, written to it for 5 minutes, for an hour with CacheHour, and
// sound with Sound. Each class is priced at its dearest: of the named tier and the standard one, and
// with a context as long as the prompt may be. A cache, a batch or a
// cheaper tier lowers the bill, not the held amount. An unbounded call is a *ValidationError: no
// MaxOutputTokens, no length of the prompt, a tier, sound or tool without a price, a
// tool without its uses or without AddedTokens. Tools that cost tokens alone need no price:
// "web_fetch", "mcp" and "url_context".
//
// After the call Cost is the bill of the usage, in its tier, else in the Estimate's, else
// in the standard one. Each of its Parts is billed at the price of its model, although nothing was
// held for it. A usage with StatusCut is charged
// Options.CutTokens more, for the tokens that the model wrote meanwhile. Unreported parts of a call
// (the prompt of a cut stream, a stream without any usage) cost their held amount.
//
// The entity must have a limit that Cost measures, or be unlimited: the guard does not skip it.
func Cost(list Prices) Measure {
	return func(u Usage) (int64, error) {
		if problem.IsNil(list) {
			return 0, invalid("prices", "are nil; give Cost a prices.List, for example prices.CatalogList()")
		}
		h := u.held
		if h != nil && h.asked {
			h.money = true
			return 0, nil
		}
		if h != nil && h.price != nil {
			return finalCharge(h, u, list).MicrosUp(), nil
		}
		at := u.Time
		if h != nil {
			at = h.at
		}
		price, err := list.Price(u.Model, at)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", ErrNoPrice, err)
		}
		if h == nil {
			return finalCharge(&held{price: &price, at: at}, u, list).MicrosUp(), nil
		}
		if h.most, err = highestCost(price, h.estimate); err == nil {
			h.price = &price
		}
		return h.most.MicrosUp(), err
	}
}

// finalCharge returns the exact cost of a made call, in pico-dollars, at h.price, the price read before it. A
// part of another model costs the price of that model in list. Unreported parts cost their held amount, and a
// cut call's output h.cut tokens more.
func finalCharge(h *held, u Usage, list Prices) (sum money.Picos) {
	e := h.estimate
	if u.unseen == allUnseen {
		return h.most
	}
	for _, p := range u.Parts {
		price := *h.price
		if p.Model != "" {
			if known, err := list.Price(p.Model, h.at); err == nil {
				price = known
			}
		}
		sum = sum.Add(billOf(price, Usage{Tokens: p.Tokens, ServiceTier: u.ServiceTier}, e.ServiceTier))
		u.Tokens = subtractPart(u.Tokens, p.Tokens)
	}
	if u.Status == StatusCut {
		u.Tokens.Output = min(u.Tokens.Output+h.cut, max(u.Tokens.Output, e.mostOutput()))
		if len(e.Tools) > 0 && len(u.Tools) == 0 {
			u.unseen = promptUnseen // the tokens of tools are reported at the end
		}
	}
	if u.unseen == promptUnseen {
		return sum.Add(dearestCost(*h.price, e, u.Tokens.Output))
	}
	if u.unseen == partsUnseen {
		u.Tools = e.Tools
		if e.Sound {
			u.SoundTokens = inputTokens(u.Tokens)
		}
	}
	return sum.Add(billOf(*h.price, u, e.ServiceTier))
}
