package llm

import (
	"github.com/dynalimit/dynalimit/prices"
)

// Estimate describes a call before it is made. Cost uses the fields after the first three to
// hold the highest possible cost.
type Estimate struct {
	// InputTokens is the length of the prompt.
	InputTokens int64
	// MaxOutputTokens bounds the reply, reasoning included, as sent to the provider. With
	// several Choices it bounds each. Defaults to 0: the bound is absent or
	// unknown.
	MaxOutputTokens int64
	// LikelyOutputTokens is the charge of the limits for the reply before
	// the call. Defaults to MaxOutputTokens for each choice.
	LikelyOutputTokens int64

	// InputBytes is the length of the request as it is sent, in bytes, with all of its
	// JSON. Cost takes a token for each byte: tokenizers that work on bytes never have more,
	// while a prompt in hexadecimal or Japanese has more than one for three. It adds 1,000
	// for a provider's own text before a prompt, as for tools. Defaults to 0: Cost takes InputTokens,
	// which the model's own tokenizer must then have counted.
	InputBytes int64
	// AddedTokens is the most tokens that neither the bytes nor a tokenizer
	// show: pictures, sound, files, stored prompts, and the results of the provider's
	// tools.
	AddedTokens int64
	// Sound is true if some of the input is sound. Defaults to false.
	Sound bool
	// CacheHour is true if the call requests cache writes for an hour. Defaults to false.
	CacheHour bool
	// Choices is the number of requested replies, at most 1,000. Defaults to 1.
	Choices int64
	// ServiceTier is the tier that serves the call, such as "priority": the request's tier, or the
	// provider's tier for requests that name none. Defaults to the standard one. "auto", "default",
	// "standard" and "standard_only" are the standard tier, too.
	ServiceTier string
	// Tools bounds the uses of each of the provider's own tools, under the names of the
	// prices: the max_uses of the request. 0 is no bound. Defaults to nil: no tools.
	Tools map[string]int64
}

const (
	// maxTokens is the most tokens of one class, as in package budget.
	maxTokens  = 100_000_000
	maxChoices = 1_000
	maxUses    = 1_000_000 // of one tool
)

// validate returns a *ValidationError for a number outside its range, or a likely output above the maximum.
func (e Estimate) validate() error {
	for _, n := range []struct {
		name        string
		value, most int64
	}{
		{"InputTokens", e.InputTokens, maxTokens},
		{"MaxOutputTokens", e.MaxOutputTokens, maxTokens},
		{"LikelyOutputTokens", e.LikelyOutputTokens, maxTokens},
		{"InputBytes", e.InputBytes, maxTokens},
		{"AddedTokens", e.AddedTokens, maxTokens},
		{"Choices", e.Choices, maxChoices},
	} {
		if n.value < 0 || n.value > n.most {
			return invalid("estimate."+n.name, "is %d; give 0 to %d", n.value, n.most)
		}
	}
	if most := e.mostOutput(); most > 0 && e.LikelyOutputTokens > most {
		return invalid("estimate.LikelyOutputTokens", "is %d, more than MaxOutputTokens (%d)", e.LikelyOutputTokens, most)
	}
	for name, uses := range e.Tools {
		if uses < 0 || uses > maxUses {
			return invalid("estimate.Tools["+name+"]", "is %d; give 1 to %d", uses, maxUses)
		}
	}
	return nil
}

// providerTokens exceeds every provider's own text before a prompt: Anthropic documents
// 530 at most, for a request with tools.
const providerTokens = 1_000

// mostInput returns the largest possible prompt in tokens: InputTokens, or InputBytes and the provider's own
// text if that is more, and AddedTokens.
func (e Estimate) mostInput() int64 {
	most := e.InputTokens
	if e.InputBytes > 0 {
		most = max(most, e.InputBytes+providerTokens)
	}
	return most + e.AddedTokens
}

// mostOutput returns the largest possible output of all choices, in tokens; 0 if unbounded.
func (e Estimate) mostOutput() int64 { return e.MaxOutputTokens * max(1, e.Choices) }

// likelyTokens returns the tokens that limits are charged before the call: InputTokens, and as output
// LikelyOutputTokens or else the largest reply of all choices.
func (e Estimate) likelyTokens() prices.Tokens {
	output := e.LikelyOutputTokens
	if output == 0 {
		output = min(e.mostOutput(), maxTokens)
	}
	return prices.Tokens{Input: e.InputTokens, Output: output}
}

// promptTokens returns the tokens of the prompt alone, the certain part of the estimate.
func (e Estimate) promptTokens() prices.Tokens { return prices.Tokens{Input: e.InputTokens} }
