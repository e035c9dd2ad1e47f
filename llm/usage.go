package llm

import (
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit/prices"
)

// The statuses of a record without a Usage.Status.
const (
	StatusOK    = "OK"    // the call succeeded
	StatusError = "ERROR" // the call failed after tokens were used
	StatusCut   = "CUT"   // nobody waited for the call any longer
)

const maxStatus = 32 // bytes, as in package budget

// Usage is the usage of one call: the one record that corrects the limits and is
// submitted to the budget.
type Usage struct {
	// Tokens are the provider's reported tokens, by class.
	Tokens prices.Tokens
	// SoundTokens is the part of the input's tokens that was sound. Only Cost uses it.
	SoundTokens int64
	// Tools counts the uses of a provider's own tools, under the names of the prices,
	// such as "web_search". Only Cost uses it.
	Tools map[string]int64
	// ServiceTier is the tier that served the call, as the provider reports it, such as
	// "priority", or the place, if that has a price, such as "us". Defaults to
	// the Estimate's. A tier without a price costs as much as the dearest. Only Cost uses it.
	ServiceTier string
	// Parts are parts of Tokens that another model used for the same answer, such as an advisor's,
	// or separate parts of the called model, such as a compaction's. The rest belongs to the called
	// model. Only Cost uses them.
	Parts []Part
	// Status is at most 32 bytes. Defaults to StatusOK.
	Status string
	// Time is the time of the call. Defaults to its start. The call counts on that
	// day.
	Time time.Time
	// Model tells measures the called model: the guard fills it in.
	Model string

	held   *held // the guard's measurement by Cost; nil for other callers
	unseen unseen
}

// unseen is the unreported part of a usage, which the estimate replaces.
type unseen int

const (
	nothingUnseen unseen = iota
	partsUnseen          // the tools, and what was sound
	promptUnseen         // those, and the prompt
	allUnseen
)

// isEmpty reports whether tokens, status, time, sound, tools, parts and tier of the usage are all unset.
func (u Usage) isEmpty() bool {
	return u.Tokens == (prices.Tokens{}) && u.Status == "" && u.Time.IsZero() && u.hasNoCostFields()
}

// hasNoCostFields reports whether the fields that only Cost uses are empty: sound, tools, parts and tier.
func (u Usage) hasNoCostFields() bool {
	return u.SoundTokens == 0 && len(u.Tools) == 0 && len(u.Parts) == 0 && u.ServiceTier == ""
}

// checkUsage returns a *ValidationError for a Status above 32 bytes or a count outside its range, and nil for a
// valid usage.
func checkUsage(u Usage) error {
	if len(u.Status) > maxStatus {
		return invalid("usage.Status", "%q is longer than %d bytes", u.Status, maxStatus)
	}
	return u.validate()
}

// validate returns a *ValidationError for a count outside its range, more sound than input, or Parts that
// exceed Tokens.
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
		rest.Tokens = subtractPart(rest.Tokens, p.Tokens)
		if (Usage{Tokens: p.Tokens}).validate() != nil || rest.validate() != nil {
			return invalid(fmt.Sprintf("usage.Parts[%d]", i), "is %+v, which is not among %+v with the other parts", p.Tokens, u.Tokens)
		}
	}
	return nil
}

// inputTokens returns the number of tokens of the prompt: uncached, read from the cache and written to it.
func inputTokens(t prices.Tokens) int64 {
	return t.Input + t.CacheRead + t.CacheWrite5m + t.CacheWrite1h
}
