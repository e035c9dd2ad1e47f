package budget

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// PriceFormat is the format of a price list.
type PriceFormat string

// The formats.
const (
	FormatAny     PriceFormat = ""             // whichever it is: an array is genai-prices, an object LiteLLM
	FormatGenAI   PriceFormat = "genai-prices" // version 2 of pydantic/genai-prices
	FormatLiteLLM PriceFormat = "litellm"      // model_prices_and_context_window of LiteLLM
)

// String is the format's name; empty for FormatAny.
func (f PriceFormat) String() string { return string(f) }

// SkippedPrice is a row a loader could not use.
type SkippedPrice struct {
	Model  string // as the list names it
	Reason string // why
}

// PriceList is what a loader read.
type PriceList struct {
	// Format is what the list was read as, and the name by which ImportPrices
	// knows it again.
	Format  PriceFormat
	Prices  []Price        // for Options.Prices, PutPrices or ImportPrices
	Skipped []SkippedPrice // rows left out: calls of such models stay unpriced
}

func (l *PriceList) skip(model, format string, args ...any) {
	l.Skipped = append(l.Skipped, SkippedPrice{strings.ToValidUTF8(model, "?"), fmt.Sprintf(format, args...)})
}

// add takes a row if it is a price a keeper accepts.
func (l *PriceList) add(id string, p Price) {
	if err := p.validate(); err != nil {
		l.skip(id, "%v", err)
		return
	}
	l.Prices = append(l.Prices, p)
}

// LoadPrices reads a list in a format, FormatAny for whichever of the two it has. With
// providers given, only their rows are read; their names are the list's own.
//
// Errors: *ValidationError for a format that there is not, *PriceListError for what is
// no list: it cannot be read, is no JSON, has a name twice in an object, is nested deeper
// than 24, larger than 16 MiB, or has more than 20,000 models.
func LoadPrices(r io.Reader, format PriceFormat, providers ...string) (PriceList, error) {
	switch format {
	case FormatAny, FormatGenAI, FormatLiteLLM:
	default:
		return PriceList{}, invalid("format", "is %q; give %q or %q, or leave it empty", format, FormatGenAI, FormatLiteLLM)
	}
	raw, err := readList(r, format)
	if err != nil {
		return PriceList{}, err
	}
	if format == FormatAny {
		format = FormatLiteLLM
		if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) {
			format = FormatGenAI
		}
	}
	if format == FormatGenAI {
		return genAIList(raw, providers)
	}
	return liteLLMList(raw, providers)
}

// LoadLiteLLM reads the JSON of LiteLLM's model_prices_and_context_window
// file: dollars per token, keyed by model. With providers given, only their
// rows are read (e.g. "bedrock", "bedrock_converse"). Rows without both an
// input and an output price are skipped, and so are those with a dearer price
// for long contexts, which one rate cannot tell, and those of one region of Bedrock.
// Errors are those of LoadPrices.
func LoadLiteLLM(r io.Reader, providers ...string) (PriceList, error) {
	return LoadPrices(r, FormatLiteLLM, providers...)
}

func liteLLMList(raw []byte, providers []string) (PriceList, error) {
	list := PriceList{Format: FormatLiteLLM}
	rows, ok := jsonFields(bytes.TrimSpace(raw))
	if !ok {
		return PriceList{}, &PriceListError{Format: FormatLiteLLM, Reason: "is not an object of models"}
	}
	if len(rows) > maxListModels {
		return PriceList{}, &PriceListError{Format: FormatLiteLLM, Reason: fmt.Sprintf("has more than %d models", maxListModels)}
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
		provider := text(row, "litellm_provider")
		if len(providers) > 0 && !slices.Contains(providers, provider) {
			continue
		}
		rates, err := liteLLMRates(id, row)
		if err != nil {
			list.skip(id, "%v", err)
			continue
		}
		list.add(id, Price{Model: modelOfPath(id), Source: "LiteLLM", Rates: rates})
	}
	return list, nil
}

// liteLLMClasses are the fields of the classes, in their order.
var liteLLMClasses = [len(tokenClasses)]string{
	"input_cost_per_token", "cache_read_input_token_cost", "cache_creation_input_token_cost",
	"cache_creation_input_token_cost_above_1hr", "output_cost_per_token",
}

// liteLLMRates are a row's rates; the error says why it has none.
func liteLLMRates(id string, row map[string]json.RawMessage) (Rates, error) {
	if path := strings.Split(id, "/"); path[0] == "bedrock" && len(path) > 2 {
		return Rates{}, fmt.Errorf("priced for one region or term (%s)", clip(strings.Join(path[1:len(path)-1], "/")))
	}
	if field := longContextField(row); field != "" {
		return Rates{}, fmt.Errorf("priced by context length (%s)", clip(field))
	}
	if !given(row[liteLLMClasses[0]]) || !given(row[liteLLMClasses[4]]) {
		return Rates{}, errors.New("no price per input and output token")
	}
	return ratesOf(row, liteLLMClasses, 1_000_000_000_000)
}

// given reports whether a field is there and not null.
func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// modelOfPath drops a provider or region path like "bedrock/us-east-1/".
func modelOfPath(id string) string { return id[strings.LastIndexByte(id, '/')+1:] }

func longContextField(row map[string]json.RawMessage) string {
	for _, name := range sortedNames(row) {
		if strings.Contains(name, "cost") && strings.Contains(name, "_above_") && strings.HasSuffix(name, "k_tokens") && given(row[name]) {
			return name
		}
	}
	return ""
}

// ratesOf are the rates in the fields of the classes; one that is absent has none.
func ratesOf(row map[string]json.RawMessage, fields [len(tokenClasses)]string, scale int64) (Rates, error) {
	var r Rates
	for i, name := range fields {
		if !given(row[name]) {
			continue
		}
		rate, err := rateFrom(row[name], scale)
		if err != nil {
			return Rates{}, fmt.Errorf("%s: %w", tokenClasses[i].name, err)
		}
		*tokenClasses[i].rate(&r) = rate
	}
	return r, nil
}

// LoadGenAIPrices reads the version 2 JSON of pydantic/genai-prices: dollars
// per million tokens, a list of providers. With providers given, only theirs
// are read (e.g. "aws"). Prices with a start date become rows with that
// EffectiveFrom, at midnight UTC; prices by anything else, such as the time of day or the context length, are
// skipped, with those that come before them. A price for cache writes without a
// lifetime is the 5-minute one. Errors are those of LoadPrices.
func LoadGenAIPrices(r io.Reader, providers ...string) (PriceList, error) {
	return LoadPrices(r, FormatGenAI, providers...)
}

func genAIList(raw []byte, providers []string) (PriceList, error) {
	list := PriceList{Format: FormatGenAI}
	var all []json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return PriceList{}, &PriceListError{Format: FormatGenAI, Reason: "is not an array of providers"}
	}
	seen := 0
	for _, one := range all {
		provider, ok := jsonFields(one)
		var models []json.RawMessage
		if !ok || json.Unmarshal(provider["models"], &models) != nil {
			return PriceList{}, &PriceListError{Format: FormatGenAI, Reason: "has a provider without models"}
		}
		if seen += len(models); seen > maxListModels {
			return PriceList{}, &PriceListError{Format: FormatGenAI, Reason: fmt.Sprintf("has more than %d models", maxListModels)}
		}
		id := text(provider, "id")
		if len(providers) > 0 && !slices.Contains(providers, id) {
			continue
		}
		for _, m := range models {
			list.addGenAI(id, m)
		}
	}
	return list, nil
}

// addGenAI takes the rows of one model.
func (l *PriceList) addGenAI(provider string, raw json.RawMessage) {
	m, _ := jsonFields(raw)
	id := text(m, "id")
	rows, err := genAIRows(m["prices"])
	if err != nil {
		l.skip(id, "%v", err)
		return
	}
	for _, row := range rows {
		row.Model, row.Source = id, "genai-prices "+provider
		l.add(id, row)
	}
}

// genAIRows are a model's prices: one, or a list of which the last that has begun holds. A
// price that one rate cannot tell hides those before it.
func genAIRows(raw json.RawMessage) ([]Price, error) {
	if plain, ok := jsonFields(raw); ok {
		rates, err := genAIRates(plain)
		return []Price{{Rates: rates}}, err
	}
	var conditional []json.RawMessage
	if err := json.Unmarshal(raw, &conditional); err != nil || len(conditional) == 0 {
		return nil, errors.New("no prices")
	}
	var rows []Price
	var hidden error
	for _, one := range conditional {
		row, err := genAIRow(one)
		if err != nil {
			rows, hidden = nil, err
			continue
		}
		if len(rows) > 0 && !row.EffectiveFrom.After(rows[len(rows)-1].EffectiveFrom) {
			return nil, errors.New("prices are not in the order of their start dates")
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, hidden
	}
	if hidden != nil && rows[0].EffectiveFrom.IsZero() {
		return nil, hidden
	}
	return rows, nil
}

// genAIRow is a price with its condition.
func genAIRow(raw json.RawMessage) (Price, error) {
	c, _ := jsonFields(raw)
	prices, ok := jsonFields(c["prices"])
	if !ok {
		return Price{}, errors.New("no prices")
	}
	var p Price
	if given(c["constraint"]) {
		constraint, _ := jsonFields(c["constraint"])
		start := text(constraint, "start_date")
		delete(constraint, "start_date")
		if start == "" || slices.ContainsFunc(sortedNames(constraint), func(name string) bool { return given(constraint[name]) }) {
			return Price{}, errors.New("priced by more than a start date")
		}
		from, err := time.Parse(time.DateOnly, start)
		if err != nil {
			return Price{}, fmt.Errorf("start date %q is not a day", clip(start))
		}
		p.EffectiveFrom = from
	}
	var err error
	p.Rates, err = genAIRates(prices)
	return p, err
}

// genAIRates are the rates of a price; one that is not a number is by context length.
func genAIRates(prices map[string]json.RawMessage) (Rates, error) {
	fields := [len(tokenClasses)]string{"input_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok", "output_mtok"}
	if given(prices["cache_write_5m_mtok"]) {
		fields[2] = "cache_write_5m_mtok"
	}
	for _, i := range []int{0, 4} {
		if !given(prices[fields[i]]) {
			return Rates{}, fmt.Errorf("no %s", fields[i])
		}
	}
	for _, name := range fields {
		if raw := prices[name]; len(raw) > 0 && raw[0] == '{' {
			return Rates{}, fmt.Errorf("%s is priced by context length", name)
		}
	}
	return ratesOf(prices, fields, 1_000_000)
}
