package llm

import (
	"github.com/dynalimit/dynalimit/prices"
)

// Estimate is what is known of a call before it is made. The fields after the first three are
// for Cost, which holds the most that a call can cost.
type Estimate struct {
	// InputTokens is the length of the prompt.
	InputTokens int64
	// MaxOutputTokens is the most that the reply may have, reasoning included: the bound
	// that is sent to the provider. With several Choices, of each. 0: there is none, or nobody
	// knows.
	MaxOutputTokens int64
	// LikelyOutputTokens is what the limits are charged for the reply before
	// the call. Defaults to MaxOutputTokens for each choice.
	LikelyOutputTokens int64

	// InputBytes is the length of the request as it is sent, in bytes, all of its JSON
	// included. Cost takes a token for each: tokenizers that work on bytes have never more,
	// while a prompt in hexadecimal or Japanese has more than one for three. It adds 1,000
	// for what a provider writes before a prompt, as for tools. Defaults to 0: InputTokens is
	// what the model's own tokenizer counted of all that, and Cost takes it.
	InputBytes int64
	// AddedTokens are the most tokens of what the bytes do not show and no tokenizer has
	// counted: pictures, sound, files, stored prompts, and what tools of the provider bring
	// in.
	AddedTokens int64
	// Sound says that some of the input is sound.
	Sound bool
	// CacheHour says that the call asks for writes to the cache for an hour.
	CacheHour bool
	// Choices is how many replies are asked for, at most 1,000. Defaults to 1.
	Choices int64
	// ServiceTier is the tier that serves the call, such as "priority": the one that the request
	// names, or the one that the provider serves a request by that names none. Defaults to the
	// standard one, which "auto", "default", "standard" and "standard_only" are, too.
	ServiceTier string
	// Tools are how often the provider may use each of its own tools, by the names that the
	// prices have: the max_uses of the request. 0 is no bound. Defaults to none.
	Tools map[string]int64
}

const (
	// maxTokens is the most tokens of one class, as in package budget.
	maxTokens  = 100_000_000
	maxChoices = 1_000
	maxUses    = 1_000_000 // of one tool
)

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

// providerTokens are more than any provider is known to write before a prompt: Anthropic says
// 530 at most, for a request with tools.
const providerTokens = 1_000

// mostInput is the most tokens that the prompt has.
func (e Estimate) mostInput() int64 {
	most := e.InputTokens
	if e.InputBytes > 0 {
		most = max(most, e.InputBytes+providerTokens)
	}
	return most + e.AddedTokens
}

// mostOutput is the most tokens that the replies have.
func (e Estimate) mostOutput() int64 { return e.MaxOutputTokens * max(1, e.Choices) }

// likely is what the limits are charged for before the call.
func (e Estimate) likely() prices.Tokens {
	output := e.LikelyOutputTokens
	if output == 0 {
		output = min(e.mostOutput(), maxTokens)
	}
	return prices.Tokens{Input: e.InputTokens, Output: output}
}

// prompt is the part of it that is certain.
func (e Estimate) prompt() prices.Tokens { return prices.Tokens{Input: e.InputTokens} }
