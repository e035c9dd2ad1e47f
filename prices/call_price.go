package prices

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// CallPrice is the complete price of calls of one model, for a limit on money, which must know it before
// a call; Rates alone are not enough. A keeper counts by Rates (Price).
type CallPrice struct {
	// Rates are those of a short text in the standard service tier.
	Rates
	// Sound is the rate of input tokens that are sound, in micro-dollars per million. 0: unknown;
	// calls with sound are then refused if they must be bounded.
	Sound int64 `json:"sound_usd_micros_per_1m,omitempty"`
	// Variants are the prices of other kinds of calls. Of two of one kind the dearer holds.
	Variants []CallRates `json:"variants,omitempty"`
	// Tools are the prices of one use of a provider's own tool, in micro-dollars, by its name,
	// such as "web_search". An unlisted tool is refused if calls must be bounded.
	Tools map[string]int64 `json:"tools_usd_micros_per_use,omitempty"`
}

// CallRates are the rates of one kind of a model's calls: of a service tier, with a long
// context, or both.
type CallRates struct {
	// Tier is the service tier, or another way to be served, such as "priority", "flex" or
	// "us". Defaults to the standard one.
	Tier string `json:"service_tier,omitempty"`
	// Above is for calls with more input tokens than this, cached ones included; they have
	// these rates for all their tokens. Defaults to 0: calls of any length.
	Above int64 `json:"above_input_tokens,omitempty"`
	// Sound is as in CallPrice. 0: not known, and the dearest that is known holds.
	Sound int64 `json:"sound_usd_micros_per_1m,omitempty"`
	Rates
}

// Price returns the price of a model's calls at an instant. It does not shorten the id by a path or
// a version, because a fine-tuned model may cost more than the one in its
// name. An id of Bedrock may have the revision :0. In the CatalogList and in a list of
// LiteLLM a prefix of its scope (us., global., …) needs a price of its own, because geographies
// have different prices. In other lists Price.Scope has the prefixes of a price. Calls
// comes first; without Rates there, those of Prices hold.
//
// To price an id of one's own, such as a deployment's name, put it into Calls.
//
// Errors: *fault.ValidationError for a model without a price in the list, or with an invalid
// one.
func (l List) Price(model string, at time.Time) (CallPrice, error) {
	if why := l.unbounded[model]; why != "" {
		return CallPrice{}, invalidConfig("model", "%q has costs that no number of tokens tells: %s", model, why)
	}
	name, scope := exactModel(model)
	if l.exact && name != model {
		name = strings.TrimSuffix(model, ":0")
	}
	call, listed := l.Calls[model]
	if !listed {
		call, listed = l.Calls[name]
	}
	if call.Rates == (Rates{}) {
		var rows []Price
		for _, p := range l.Prices {
			if p.Model == model || strings.TrimSuffix(p.Model, ":0") == name {
				rows = append(rows, p)
			}
		}
		row, priced := InForce(rows, scope, at)
		call.Rates, listed = row.Rates, priced
	}
	if !listed {
		return CallPrice{}, invalidConfig("model", "%q has no price in this list; use the exact id, or put it into List.Calls", model)
	}
	return call, call.validate(model)
}

// exactModel returns a Bedrock id without its scope prefix and revision :0, and its scope. It returns any other
// id unchanged, with the scope Regional.
func exactModel(id string) (name string, scope Scope) {
	if strings.Contains(id, "/") {
		return id, Regional
	}
	name, scope = SplitModel(id)
	vendor, _, ofBedrock := strings.Cut(name, ".")
	if !ofBedrock || strings.ContainsFunc(vendor, func(r rune) bool { return r < 'a' || r > 'z' }) {
		return id, Regional
	}
	return name, scope
}

// allRates returns a new slice with the rates of every kind of call, in micro-dollars a million tokens, the
// standard one first.
func (p CallPrice) allRates() []CallRates {
	return append([]CallRates{{Sound: p.Sound, Rates: p.Rates}}, p.Variants...)
}

// validate returns a *fault.ValidationError for a rate, length or tool price outside its range, and nil for a
// valid price. The error names the model.
func (p CallPrice) validate(model string) error {
	for _, v := range p.allRates() {
		if err := (Price{Model: "any", Rates: v.Rates}).Validate(); err != nil {
			return err
		}
		if v.Sound < 0 || v.Sound > maxRate || v.Above < 0 {
			return invalidConfig("model", "%q has variants with a price of sound or a length below 0, or above the most", model)
		}
	}
	for name, micros := range p.Tools {
		if micros < 0 || micros > maxRate {
			return invalidConfig("model", "%q has a tool %q of %d µ$ a use; give 0 to %d", model, name, micros, int64(maxRate))
		}
	}
	return nil
}

// For returns the rates of a call in micro-dollars a million tokens, and its sound's, 0 if unknown. Of the
// prices for inputTokens and the tiers it takes the dearest, class by class; "" is the standard tier, no tiers
// means all. It assumes missing cache rates as Rates describes, and sound in proportion to text.
func (p CallPrice) For(inputTokens int64, tiers ...string) (rates Rates, sound int64) {
	for _, v := range p.allRates() {
		if v.Above > 0 && v.Above >= inputTokens || len(tiers) > 0 && !slices.Contains(tiers, v.Tier) {
			continue
		}
		full := v.Rates.Assumed()
		for _, c := range classes {
			*c.Rate(&rates) = max(*c.Rate(&rates), *c.Rate(&full))
		}
		sound = max(sound, cmp.Or(v.Sound, p.assumedSound(v.Input)))
	}
	return rates, sound
}

// assumedSound returns the assumed rate of sound, in micro-dollars a million tokens, for calls with the text
// rate input. It multiplies the standard sound by the ratio of input to the standard text rate, rounded up to a
// whole number. It is never below the standard sound.
func (p CallPrice) assumedSound(input int64) int64 {
	if p.Input <= 0 || input <= p.Input {
		return p.Sound
	}
	factor := (input + p.Input - 1) / p.Input // whole: a dearer price, and no overflow
	return p.Sound * factor
}

// HasTier reports whether p has rates for a service tier of the model; "" is the standard one, which it always
// has.
func (p CallPrice) HasTier(tier string) bool {
	return slices.ContainsFunc(p.allRates(), func(v CallRates) bool { return v.Tier == tier })
}
