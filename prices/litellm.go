package prices

import (
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Names of LiteLLM's fields: those of the classes may end in a length of context and in a
// tier. Others of costs are of other things than tokens.
var (
	liteLLMVariant = regexp.MustCompile(`^(?:` + strings.Join(liteLLMClasses[:], "|") + `)((?:_above_(\d+)k_tokens)?(?:_(priority|flex))?)$`)
	liteLLMCost    = regexp.MustCompile(`_cost|^tiered_pricing$`)
	// liteLLMKnown are prices that are read elsewhere, or below one that is.
	// A call asks for the tier ultrafast by its name, and is refused.
	liteLLMKnown = regexp.MustCompile(`_batches$|_ultrafast$|^(?:input|output)_cost_per_audio_token|^output_cost_per_(?:reasoning|image)_token$` +
		`|^(?:cache_creation_input|cache_read_input)_audio_token_cost(?:_(?:priority|flex))?$|^` + liteLLM12Hours + `|^search_context_cost_per_query$`)
)

// liteLLM12Hours prices writes to OpenAI's cache for twelve hours. They count as writes for an
// hour, the longest class.
const liteLLM12Hours = "cache_creation_input_token_cost_above_12hr"

// liteLLMTools are the prices of one use of a provider's tool, in dollars, by the tool's name.
var liteLLMTools = map[string]string{"google_maps_grounding_cost_per_query": "google_maps"}

// liteLLMPlaces are the factors of a row for where a call is served. "fast" is not among them:
// a call asks for it by name.
const liteLLMPlaces = "provider_specific_entry"

// addCall adds a row's complete prices of calls to l.Calls. A row with costs other than of tokens and tools
// goes to l.unbounded; one of a single region or without a price is skipped. Two rows of one model become two
// prices, and the dearer applies.
func (l *List) addCall(id string, row map[string]json.RawMessage) {
	if isRegional(id) || !hasPrice(row) {
		return
	}
	model := modelOfPath(id)
	if l.Calls == nil {
		l.Calls, l.unbounded = map[string]CallPrice{}, map[string]string{}
	}
	call, why := parseLiteLLMCallPrice(row)
	if why == "" {
		if err := call.validate(model); err != nil {
			why = err.Error()
		}
	}
	if why != "" {
		l.unbounded[model] = why
		return
	}
	if have, twice := l.Calls[model]; twice {
		for name, micros := range have.Tools {
			call.raiseToolPrice(name, micros)
		}
		call.Variants = append(call.Variants, have.allRates()...)
	}
	l.Calls[model] = call
}

// dated is the date at the end of an id.
var dated = regexp.MustCompile(`-\d{4}-\d{2}-\d{2}$`)

// completeDatedCalls completes, in place, the price of each dated model id in l.Calls that has a standard price
// only. If that equals the price of the undated id, it copies the undated id's prices of tiers and long
// contexts.
func (l *List) completeDatedCalls() {
	for id, call := range l.Calls {
		if model, ok := l.Calls[dated.ReplaceAllString(id, "")]; ok && len(call.Variants) == 0 && model.Rates == call.Rates {
			call.Variants = model.Variants
			l.Calls[id] = call
		}
	}
}

// raiseToolPrice sets the price of a tool's use in micro-dollars, unless a higher one is set. It changes the
// map p.Tools in place, or makes it.
func (p *CallPrice) raiseToolPrice(name string, micros int64) {
	if p.Tools == nil {
		p.Tools = map[string]int64{}
	}
	p.Tools[name] = max(p.Tools[name], micros)
}

// parseLiteLLMCallPrice returns the CallPrice of a model from its LiteLLM row, in micro-dollars a million
// tokens: rates, also by service tier and context length, and fees of tools. Unless why is "", the price is
// incomplete, and why tells the reason.
func parseLiteLLMCallPrice(row map[string]json.RawMessage) (call CallPrice, why string) {
	kinds := map[string]bool{"": true}
	rate := func(name string) (rate int64) {
		if isGiven(row[name]) && why == "" {
			var err error
			if rate, err = rateFrom(row[name]); err != nil {
				why = name
			}
		}
		return rate
	}
	for _, name := range sortedNames(row) {
		if !liteLLMCost.MatchString(name) || !isGiven(row[name]) {
			continue
		}
		kind := liteLLMVariant.FindStringSubmatch(name)
		switch {
		case kind != nil && !kinds[kind[1]]:
			kinds[kind[1]] = true
			v := CallRates{Tier: kind[3], Sound: rate("input_cost_per_audio_token" + kind[1])}
			if kind[2] != "" {
				v.Above, _ = strconv.ParseInt(kind[2]+"000", 10, 64)
			}
			v.Rates, why = liteLLMKind(row, kind[1], why)
			call.Variants = append(call.Variants, v)
		case liteLLMTools[name] != "":
			call.raiseToolPrice(liteLLMTools[name], (max(rate(name), 0)+999_999)/1_000_000)
		case name == "input_cost_per_image_token" && rate(name) <= rate("input_cost_per_token"): // a picture's token is as cheap as a text's
		case kind == nil && !liteLLMKnown.MatchString(name) && rate(name) != FreeRate:
			return call, name
		}
	}
	call.Rates, why = liteLLMKind(row, "", why)
	call.Sound = rate("input_cost_per_audio_token")
	for _, dear := range []string{"output_cost_per_reasoning_token", "output_cost_per_audio_token", "output_cost_per_image_token"} {
		call.Output = max(call.Output, rate(dear)) // a token of the reply may be any of them
	}
	call.addPlaces(row[liteLLMPlaces])
	if isGiven(row["search_context_cost_per_query"]) {
		sizes, _ := jsonFields(row["search_context_cost_per_query"])
		for _, size := range sortedNames(sizes) {
			perMillion, err := rateFrom(sizes[size])
			if err != nil {
				return call, "search_context_cost_per_query"
			}
			call.raiseToolPrice("web_search", (max(perMillion, 0)+999_999)/1_000_000)
		}
	}
	return call, why
}

// liteLLMKind returns the rates in a row's fields that end in suffix, with the standard kind's for missing
// input and output rates. The second result is why, the reason found so far to refuse the row, or else the
// first error as text.
func liteLLMKind(row map[string]json.RawMessage, suffix, why string) (Rates, string) {
	rates, err := ratesOf(row, suffix)
	if err == nil && suffix != "" {
		var plain Rates
		if plain, err = ratesOf(row, ""); err == nil {
			for _, c := range classes {
				if rate := c.Rate(&rates); *rate == 0 && c.Always() {
					*rate = *c.Rate(&plain)
				}
			}
		}
	}
	if err != nil && why == "" {
		why = err.Error()
	}
	return rates, why
}

// addPlaces appends a variant with the tier "us" if raw, LiteLLM's factors by place, has a factor above 1 for
// it. A provider may choose that place. Otherwise it does nothing.
func (p *CallPrice) addPlaces(raw json.RawMessage) {
	factors, _ := jsonFields(raw)
	factor, err := strconv.ParseFloat(string(factors["us"]), 64)
	if err != nil || factor <= 1 {
		return
	}
	p.Variants = append(p.Variants, CallRates{Tier: "us", Rates: p.times(int64(math.Ceil(factor * 1_000)))})
}

// times returns the rates multiplied by thousandths / 1,000, rounded up. Rates of 0 and FreeRate stay.
func (r Rates) times(thousandths int64) Rates {
	for _, c := range classes {
		if rate := c.Rate(&r); *rate > 0 {
			*rate = (*rate*thousandths + 999) / 1_000
		}
	}
	return r
}
