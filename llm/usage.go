package llm

import (
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit/prices"
)

// The statuses a record gets when its Usage names none.
const (
	StatusOK    = "OK"    // the call succeeded
	StatusError = "ERROR" // the call failed after tokens were used
	StatusCut   = "CUT"   // nobody waited for the call any longer
)

const maxStatus = 32 // bytes, as in package budget

// Usage is what one call used: the one record that corrects the limits and is
// submitted to the budget.
type Usage struct {
	// Tokens are those the provider reports, by class.
	Tokens prices.Tokens
	// SoundTokens are how many of the input's tokens were sound. Only Cost looks at it.
	SoundTokens int64
	// Tools are how often a provider's own tools were used, by the names that the prices
	// have, such as "web_search". Only Cost looks at it.
	Tools map[string]int64
	// ServiceTier is the tier that served the call, as the provider reports it, such as
	// "priority", or the place that did, where that has a price, such as "us". Defaults to
	// the Estimate's. One without a price costs what the dearest does. Only Cost looks at it.
	ServiceTier string
	// Parts are those of Tokens that another model used for the same answer, such as an advisor's,
	// or the called one apart from it, such as a compaction's. The rest is of the model that was
	// called. Only Cost looks at them.
	Parts []Part
	// Status is at most 32 bytes. Defaults to StatusOK.
	Status string
	// Time is when the call was made. Defaults to when it was started: it counts on that
	// day.
	Time time.Time
	// Model is for measures, which are told what was called: the guard fills it in.
	Model string

	held   *held // of the guard: how Cost measures one call; nil when somebody else asks
	unseen unseen
}

// unseen is what of a usage nobody reported, so that the estimate stands for it.
type unseen int

const (
	nothingUnseen unseen = iota
	partsUnseen          // the tools, and what was sound
	promptUnseen         // those, and the prompt
	allUnseen
)

// empty reports whether it says nothing.
func (u Usage) empty() bool {
	return u.Tokens == (prices.Tokens{}) && u.Status == "" && u.Time.IsZero() && u.saysNoMore()
}

// saysNoMore reports whether it says nothing that only Cost looks at.
func (u Usage) saysNoMore() bool {
	return u.SoundTokens == 0 && len(u.Tools) == 0 && len(u.Parts) == 0 && u.ServiceTier == ""
}

func validUsage(u Usage) error {
	if len(u.Status) > maxStatus {
		return invalid("usage.Status", "%q is longer than %d bytes", u.Status, maxStatus)
	}
	return u.validate()
}

// validate checks what is counted.
func (u Usage) validate() error {
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"Tokens.Input", u.Tokens.Input},
		{"Tokens.CacheRead", u.Tokens.CacheRead},
		{"Tokens.CacheWrite5m", u.Tokens.CacheWrite5m},
		{"Tokens.CacheWrite1h", u.Tokens.CacheWrite1h},
		{"Tokens.Output", u.Tokens.Output},
		{"SoundTokens", u.SoundTokens},
	} {
		if n.value < 0 || n.value > maxTokens {
			return invalid("usage."+n.name, "is %d; give 0 to %d", n.value, maxTokens)
		}
	}
	for name, uses := range u.Tools {
		if uses < 0 || uses > maxUses {
			return invalid("usage.Tools["+name+"]", "is %d; give 0 to %d", uses, maxUses)
		}
	}
	if most := inputTokens(u.Tokens); u.SoundTokens > most {
		return invalid("usage.SoundTokens", "is %d, more than the input's tokens (%d)", u.SoundTokens, most)
	}
	rest := Usage{Tokens: u.Tokens}
	for i, p := range u.Parts {
		rest.Tokens = less(rest.Tokens, p.Tokens)
		if (Usage{Tokens: p.Tokens}).validate() != nil || rest.validate() != nil {
			return invalid(fmt.Sprintf("usage.Parts[%d]", i), "is %+v, which is not among %+v with the other parts", p.Tokens, u.Tokens)
		}
	}
	return nil
}

func inputTokens(t prices.Tokens) int64 {
	return t.Input + t.CacheRead + t.CacheWrite5m + t.CacheWrite1h
}
