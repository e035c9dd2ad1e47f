package prices

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// CallPrice is all that calls of one model cost: what a limit on money needs to know before a
// call, where Rates alone would tell too little. A keeper counts by Rates (Price).
type CallPrice struct {
	// Rates are those of a short text in the standard service tier.
	Rates
	// Sound is for input tokens that are sound, in micro-dollars per million. 0: not known,
	// and calls with sound are refused where they must be bounded.
	Sound int64 `json:"sound_usd_micros_per_1m,omitempty"`
	// Variants are what calls of other kinds cost instead. Of two of one kind the dearer holds.
	Variants []CallRates `json:"variants,omitempty"`
	// Tools are what one use of a provider's own tool costs, in micro-dollars, by its name,
	// such as "web_search". One that is not named is refused where calls must be bounded.
	Tools map[string]int64 `json:"tools_usd_micros_per_use,omitempty"`
}

// CallRates are what one kind of a model's calls costs: of a service tier, with a long
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

// Price is what calls of a model cost at an instant. The id is taken as it is: no path and no
// version is taken away, because a fine-tuned model may cost more than the one that it is
// named after. An id of Bedrock may have the revision :0. In the CatalogList and in a list of
// LiteLLM a prefix of its scope (us., global., …) needs a price of its own, because geographies
// have different prices; in other lists Price.Scope says for which prefixes a price holds. Calls
// comes first; what has no Rates there has those of Prices.
//
// To price an id of one's own, such as a deployment's name, put it into Calls.
//
// Errors: *fault.ValidationError for a model that the list does not price, or whose price is
// no price.
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

// exactModel is a model id without the prefix of its scope and the revision :0, if it is one
// of Bedrock: there a vendor's name follows the prefix.
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

// all are the rates of every kind, the plain one first.
func (p CallPrice) all() []CallRates {
	return append([]CallRates{{Sound: p.Sound, Rates: p.Rates}}, p.Variants...)
}

func (p CallPrice) validate(model string) error {
	for _, v := range p.all() {
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

// For are the rates of a call, and that of its sound, 0 if none is known: with so many input
// tokens, in one of these tiers, of which "" is the standard one. Of several kinds that fit
// the dearest holds, class by class. No tiers: all. What no price is known of is assumed: of
// the cache classes as Rates say, of sound so many times that of the
// standard tier as text costs, rounded up.
func (p CallPrice) For(inputTokens int64, tiers ...string) (rates Rates, sound int64) {
	for _, v := range p.all() {
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

// assumedSound is what sound costs where text costs input.
func (p CallPrice) assumedSound(input int64) int64 {
	if p.Input <= 0 || input <= p.Input {
		return p.Sound
	}
	factor := (input + p.Input - 1) / p.Input // whole: a dearer price, and no overflow
	return p.Sound * factor
}

// HasTier reports whether the list prices a service tier of the model; "" is the standard one.
func (p CallPrice) HasTier(tier string) bool {
	return slices.ContainsFunc(p.all(), func(v CallRates) bool { return v.Tier == tier })
}
