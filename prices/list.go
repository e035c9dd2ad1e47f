package prices

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// Skipped is a row a loader could not use.
type Skipped struct {
	Model  string `json:"model_id"` // as the list names it
	Reason string `json:"reason"`   // why
}

// List is a loaded list of prices.
type List struct {
	// Name is "prices" for a list of Prices, "litellm" for one of LiteLLM; imports store
	// their prices under it.
	Name    string
	Prices  []Price   // for Options.Prices, Prices.Put or Prices.Import
	Skipped []Skipped // rows left out: a keeper leaves calls of such models unpriced
	// Calls are the complete prices of calls, by the exact ids of their models, for limits on money
	// (Price). A loader fills it in from LiteLLM's lists; add ids of your own. A missing model
	// costs its Rates in Prices, in every tier and at any length.
	Calls map[string]CallPrice
	// unbounded has the costs of models beside tokens and tools, which have no bound.
	unbounded map[string]string
	// exact means that a scope's prefix is part of an id.
	exact bool
}

// skip appends the model with a formatted reason to l.Skipped.
func (l *List) skip(model, format string, args ...any) {
	l.Skipped = append(l.Skipped, Skipped{strings.ToValidUTF8(model, "?"), fmt.Sprintf(format, args...)})
}

// addPrice appends a price to l.Prices. A price that a keeper would refuse goes to l.Skipped under the id
// instead.
func (l *List) addPrice(id string, p Price) {
	if err := p.Validate(); err != nil {
		l.skip(id, "%v", err)
		return
	}
	l.Prices = append(l.Prices, p)
}

// Load reads a list: an array of Price in JSON, or the object of LiteLLM's
// model_prices_and_context_window file, in dollars per token, keyed by model. Of LiteLLM's
// rows it reads those of the named providers, and those without a provider. Providers
// default to those of the catalog: "openai", "anthropic", "bedrock", "bedrock_converse" and
// "gemini"; others have other prices for models of the same name. It skips rows
// without both an input and an output price, rows with a dearer
// price for long contexts, which needs more than one rate, and rows of one region of Bedrock.
//
// Errors: ErrList for input that cannot be read, is not JSON, has a name
// twice in an object, is nested deeper than 24, larger than 16 MiB, or has more than 20,000
// models.
func Load(r io.Reader, providers ...string) (List, error) {
	raw, err := readList(r)
	if err != nil {
		return List{}, err
	}
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) {
		return parseOwnList(raw)
	}
	if len(providers) == 0 {
		providers = []string{"openai", "anthropic", "bedrock", "bedrock_converse", "gemini"}
	}
	return parseLiteLLM(raw, providers)
}

// parseOwnList returns a list from our own format, an array of Price. Unknown fields, and more than 20,000
// models, fail with ErrList; invalid prices go to Skipped.
func parseOwnList(raw []byte) (List, error) {
	var rows []Price
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&rows); err != nil {
		return List{}, fmt.Errorf("%w: is not an array of prices: %w", ErrList, err)
	}
	if len(rows) > maxListModels {
		return List{}, tooLongError()
	}
	list := List{Name: "prices"}
	for _, p := range rows {
		list.addPrice(p.Model, p)
	}
	return list, nil
}

// tooLongError returns the ErrList of a list with too many models.
func tooLongError() error {
	return fmt.Errorf("%w: has more than %d models", ErrList, maxListModels)
}

// parseLiteLLM returns a list from LiteLLM's format, an object of models: rows of the named providers and those
// without a provider. Rows without a usable price go to Skipped, but may have a price for calls. It fails with
// ErrList unless raw is an object of at most 20,000 models.
func parseLiteLLM(raw []byte, providers []string) (List, error) {
	list := List{Name: "litellm", exact: true}
	rows, ok := jsonFields(bytes.TrimSpace(raw))
	if !ok {
		return List{}, fmt.Errorf("%w: is not an object of models, nor an array of prices", ErrList)
	}
	if len(rows) > maxListModels {
		return List{}, tooLongError()
	}
	for _, id := range sortedNames(rows) {
		if id == "sample_spec" {
			continue
		}
		row, ok := jsonFields(rows[id])
		if !ok {
			list.skip(id, "is not an object")
			continue
		}
		provider := textField(row, "litellm_provider")
		if provider != "" && !slices.Contains(providers, provider) {
			continue
		}
		list.addCall(id, row)
		rates, err := liteLLMRates(id, row)
		if err != nil {
			list.skip(id, "%v", err)
			continue
		}
		list.addPrice(id, Price{Model: modelOfPath(id), Source: "LiteLLM", Rates: rates})
	}
	list.completeDatedCalls()
	return list, nil
}

// liteLLMClasses are the fields of the classes, in their order.
var liteLLMClasses = [len(classes)]string{
	"input_cost_per_token", "cache_read_input_token_cost", "cache_creation_input_token_cost",
	"cache_creation_input_token_cost_above_1hr", "output_cost_per_token",
}

// liteLLMRates returns the rates of a row, in micro-dollars a million tokens. It fails for a row of one region,
// and for one priced by the length of the context. It also fails if the price of input or output is missing or
// malformed.
func liteLLMRates(id string, row map[string]json.RawMessage) (Rates, error) {
	if isRegional(id) {
		return Rates{}, fmt.Errorf("priced for one region or term (%s)", clipText(path.Dir(strings.TrimPrefix(id, "bedrock/"))))
	}
	if field := longContextField(row); field != "" {
		return Rates{}, fmt.Errorf("priced by context length (%s)", clipText(field))
	}
	if !hasPrice(row) {
		return Rates{}, errors.New("no price per input and output token")
	}
	return ratesOf(row, "")
}

// isRegional reports whether a row's id is Bedrock's for one region or term, such as "bedrock/us-east-1/…".
func isRegional(id string) bool {
	return strings.HasPrefix(id, "bedrock/") && strings.Count(id, "/") > 1
}

// hasPrice reports whether a row has a price of input tokens and one of output tokens. A null is no price.
func hasPrice(row map[string]json.RawMessage) bool {
	return isGiven(row[liteLLMClasses[0]]) && isGiven(row[liteLLMClasses[4]])
}

// isGiven reports whether a field is present and not null.
func isGiven(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// modelOfPath returns an id without the path before it, such as "bedrock/us-east-1/".
func modelOfPath(id string) string { return id[strings.LastIndexByte(id, '/')+1:] }

// longContextField returns the first name, in order, of a row's field with a price above a context length. It
// is "" without one; a null does not count.
func longContextField(row map[string]json.RawMessage) string {
	for _, name := range sortedNames(row) {
		if strings.Contains(name, "cost") && strings.Contains(name, "_above_") && strings.HasSuffix(name, "k_tokens") && isGiven(row[name]) {
			return name
		}
	}
	return ""
}

// ratesOf returns the rates in a row's fields that end in suffix, in micro-dollars a million tokens; a missing
// class has a rate of 0. It fails for a malformed price.
func ratesOf(row map[string]json.RawMessage, suffix string) (Rates, error) {
	var r Rates
	for i, name := range liteLLMClasses {
		name += suffix
		if !isGiven(row[name]) {
			continue
		}
		rate, err := rateFrom(row[name])
		if err != nil {
			return Rates{}, fmt.Errorf("%s: %w", classes[i].Name, err)
		}
		*classes[i].Rate(&r) = rate
	}
	if long := row[liteLLM12Hours+suffix]; isGiven(long) {
		rate, err := rateFrom(long)
		if err != nil {
			return Rates{}, fmt.Errorf("%s: %w", classes[3].Name, err)
		}
		r.CacheWrite1h = max(r.CacheWrite1h, rate)
	}
	return r, nil
}
