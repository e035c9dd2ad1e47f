package llm

import (
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/prices"
)

// Prices are what Cost needs to know of prices; a prices.List has it. It is asked by many
// calls at once.
type Prices interface {
	// Price is what calls of exactly this model cost at an instant. Its error is a
	// *ValidationError for a model without a price.
	Price(model string, at time.Time) (prices.CallPrice, error)
}

// Cost measures a call in micro-dollars, rounded up once, for a limit on money. The guard asks
// for the price once, before the call, of the call's Model, and settles at the same; a model
// without a price is refused with ErrNoPrice.
//
// Before the call it is the most that the call can cost, never lowered to a burst: a call that
// is dearer than the whole limit is dynalimit.ErrExceedsBurst. It is
//
//	prompt × dearest input class + reply × output class + Σ uses × tool
//
// where the prompt has InputTokens, or with InputBytes the larger of that and InputBytes +
// 1,000, and AddedTokens more; and the reply MaxOutputTokens × Choices. The input classes are
// uncached, read from the cache, written to it for 5 minutes, for an hour with CacheHour, and
// sound with Sound. Each class costs what it does where it is dearest: in the tier that is named
// and in the standard one, and with a context as long as the prompt may be. A cache, a batch or a
// cheaper tier lowers the bill, not what is held. What cannot be bounded is a *ValidationError: no
// MaxOutputTokens, no length of the prompt, a tier, sound or tool that the prices do not have, a
// tool without its uses or without AddedTokens. Tools that cost tokens alone need no price:
// "web_fetch", "mcp" and "url_context".
//
// Afterwards it is the bill of the usage, in the tier that it names, else in the Estimate's, else
// in the standard one, and of each of its Parts at the price of its model, of which nothing was
// held. A usage with StatusCut is charged
// Options.CutTokens more, for what the model wrote meanwhile. What nobody reported of a call
// (the prompt of a cut stream, what a stream without any usage did) costs what was held for it.
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
			return settled(h, u, list).MicrosUp(), nil
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
			return settled(&held{price: &price, at: at}, u, list).MicrosUp(), nil
		}
		if h.most, err = most(price, h.estimate); err == nil {
			h.price = &price
		}
		return h.most.MicrosUp(), err
	}
}

// settled is what a call is charged at the end.
func settled(h *held, u Usage, list Prices) (sum money.Picos) {
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
		sum = sum.Add(bill(price, Usage{Tokens: p.Tokens, ServiceTier: u.ServiceTier}, e.ServiceTier))
		u.Tokens = less(u.Tokens, p.Tokens)
	}
	if u.Status == StatusCut {
		u.Tokens.Output = min(u.Tokens.Output+h.cut, max(u.Tokens.Output, e.mostOutput()))
		if len(e.Tools) > 0 && len(u.Tools) == 0 {
			u.unseen = promptUnseen // what tools brought in is told at the end
		}
	}
	if u.unseen == promptUnseen {
		return sum.Add(dearest(*h.price, e, u.Tokens.Output))
	}
	if u.unseen == partsUnseen {
		u.Tools = e.Tools
		if e.Sound {
			u.SoundTokens = inputTokens(u.Tokens)
		}
	}
	return sum.Add(bill(*h.price, u, e.ServiceTier))
}
