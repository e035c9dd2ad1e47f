package budget

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/internal/problem"
)

// SkippedPrice is a row a loader could not use.
type SkippedPrice struct {
	Model  string // as the list names it
	Reason string // why
}

// PriceList is what a loader read.
type PriceList struct {
	Prices  []Price        // for Options.Prices or PutPrices
	Skipped []SkippedPrice // rows left out: calls of such models stay unpriced
}

func (l *PriceList) skip(model, format string, args ...any) {
	l.Skipped = append(l.Skipped, SkippedPrice{model, fmt.Sprintf(format, args...)})
}

// add takes a row if it is a price a keeper accepts.
func (l *PriceList) add(id string, p Price) {
	if err := p.validate(); err != nil {
		l.skip(id, "%v", err)
		return
	}
	l.Prices = append(l.Prices, p)
}

// rateFrom turns a decimal in dollars per 1/scale tokens into µ$ per million
// tokens, exactly where it can be and rounded half up otherwise. A price of 0
// becomes FreeRate.
func rateFrom(n json.Number, scale int64) (int64, error) {
	r, ok := new(big.Rat).SetString(n.String())
	if !ok || r.Sign() < 0 {
		return 0, fmt.Errorf("%q is not a price", n)
	}
	if r.Sign() == 0 {
		return FreeRate, nil
	}
	r.Mul(r, new(big.Rat).SetInt64(scale))
	twice := new(big.Int).Lsh(r.Num(), 1)
	half := twice.Add(twice, r.Denom())
	q := half.Quo(half, new(big.Int).Lsh(r.Denom(), 1))
	if !q.IsInt64() || q.Int64() > maxRate {
		return 0, fmt.Errorf("%q is too large a price", n)
	}
	return q.Int64(), nil
}

type liteLLMRow struct {
	Provider     string       `json:"litellm_provider"`
	Input        *json.Number `json:"input_cost_per_token"`
	Output       *json.Number `json:"output_cost_per_token"`
	CacheRead    *json.Number `json:"cache_read_input_token_cost"`
	CacheWrite5m *json.Number `json:"cache_creation_input_token_cost"`
	CacheWrite1h *json.Number `json:"cache_creation_input_token_cost_above_1hr"`
}

// LoadLiteLLM reads the JSON of LiteLLM's model_prices_and_context_window
// file: dollars per token, keyed by model. With providers given, only their
// rows are read (e.g. "bedrock", "bedrock_converse"). Rows without both an
// input and an output price are skipped, and so are those with a dearer price
// for long contexts, which one rate cannot tell.
func LoadLiteLLM(r io.Reader, providers ...string) (PriceList, error) {
	if problem.IsNil(r) {
		return PriceList{}, invalid("r", "is nil; pass the list's JSON, for example an *os.File")
	}
	var rows map[string]json.RawMessage
	if err := json.NewDecoder(r).Decode(&rows); err != nil {
		return PriceList{}, fmt.Errorf("budget: LiteLLM prices: %w", err)
	}
	var list PriceList
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		if id == "sample_spec" {
			continue
		}
		var row liteLLMRow
		if err := json.Unmarshal(rows[id], &row); err != nil {
			list.skip(id, "%v", err)
			continue
		}
		if len(providers) > 0 && !slices.Contains(providers, row.Provider) {
			continue
		}
		rates, err := row.rates(rows[id])
		if err != nil {
			list.skip(id, "%v", err)
			continue
		}
		list.add(id, Price{Model: modelOfPath(id), Source: "LiteLLM", Rates: rates})
	}
	return list, nil
}

// rates are a row's rates; the error says why it has none. all is the whole row.
func (row liteLLMRow) rates(all json.RawMessage) (Rates, error) {
	if field := longContextField(all); field != "" {
		return Rates{}, fmt.Errorf("priced by context length (%s)", field)
	}
	if row.Input == nil || row.Output == nil {
		return Rates{}, errors.New("no price per input and output token")
	}
	var r Rates
	err := setRates(&r, 1_000_000_000_000, row.Input, row.CacheRead, row.CacheWrite5m, row.CacheWrite1h, row.Output)
	return r, err
}

// modelOfPath drops a provider or region path like "bedrock/us-east-1/".
func modelOfPath(id string) string { return id[strings.LastIndexByte(id, '/')+1:] }

func longContextField(row json.RawMessage) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(row, &fields) != nil {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if strings.Contains(name, "cost") && strings.Contains(name, "_above_") && strings.HasSuffix(name, "k_tokens") {
			return name
		}
	}
	return ""
}

// setRates sets the classes in the order of tokenClasses; nil leaves one out.
func setRates(r *Rates, scale int64, prices ...*json.Number) error {
	for i, n := range prices {
		if n == nil {
			continue
		}
		rate, err := rateFrom(*n, scale)
		if err != nil {
			return fmt.Errorf("%s: %w", tokenClasses[i].name, err)
		}
		*tokenClasses[i].rate(r) = rate
	}
	return nil
}

type genAIProvider struct {
	ID     string `json:"id"`
	Models []struct {
		ID     string          `json:"id"`
		Prices json.RawMessage `json:"prices"`
	} `json:"models"`
}

type genAIPrices map[string]json.RawMessage

type genAIConditional struct {
	Constraint *struct {
		StartDate string `json:"start_date"`
		StartTime string `json:"start_time"`
	} `json:"constraint"`
	Prices genAIPrices `json:"prices"`
}

// LoadGenAIPrices reads the version 2 JSON of pydantic/genai-prices: dollars
// per million tokens, a list of providers. With providers given, only theirs
// are read (e.g. "aws"). Prices with a start date become rows with that
// EffectiveFrom, at midnight UTC; prices by time of day or context length are
// skipped. A price for cache writes without a lifetime is the 5-minute one.
func LoadGenAIPrices(r io.Reader, providers ...string) (PriceList, error) {
	if problem.IsNil(r) {
		return PriceList{}, invalid("r", "is nil; pass the list's JSON, for example an *os.File")
	}
	var all []genAIProvider
	if err := json.NewDecoder(r).Decode(&all); err != nil {
		return PriceList{}, fmt.Errorf("budget: genai-prices: %w", err)
	}
	var list PriceList
	for _, provider := range all {
		if len(providers) > 0 && !slices.Contains(providers, provider.ID) {
			continue
		}
		for _, m := range provider.Models {
			rows, err := genAIRows(m.Prices)
			if err != nil {
				list.skip(m.ID, "%v", err)
				continue
			}
			for _, row := range rows {
				row.Model, row.Source = m.ID, "genai-prices "+provider.ID
				list.add(m.ID, row)
			}
		}
	}
	return list, nil
}

func genAIRows(raw json.RawMessage) ([]Price, error) {
	var conditional []genAIConditional
	if err := json.Unmarshal(raw, &conditional); err != nil {
		var plain genAIPrices
		if err := json.Unmarshal(raw, &plain); err != nil {
			return nil, err
		}
		conditional = []genAIConditional{{Prices: plain}}
	}
	rows := make([]Price, 0, len(conditional))
	for _, c := range conditional {
		var p Price
		if c.Constraint != nil {
			if c.Constraint.StartTime != "" || c.Constraint.StartDate == "" {
				return nil, fmt.Errorf("priced by time of day")
			}
			from, err := time.Parse(time.DateOnly, c.Constraint.StartDate)
			if err != nil {
				return nil, fmt.Errorf("start date %q: %w", c.Constraint.StartDate, err)
			}
			p.EffectiveFrom = from
		}
		if err := c.Prices.rates(&p.Rates); err != nil {
			return nil, err
		}
		rows = append(rows, p)
	}
	return rows, nil
}

// rates fills the classes; a price that is not one number is by context length.
func (g genAIPrices) rates(r *Rates) error {
	for _, name := range []string{"input_mtok", "output_mtok"} {
		if _, ok := g[name]; !ok {
			return fmt.Errorf("no %s", name)
		}
	}
	write := "cache_write_mtok"
	if _, ok := g["cache_write_5m_mtok"]; ok {
		write = "cache_write_5m_mtok"
	}
	var prices [len(tokenClasses)]*json.Number
	for i, name := range []string{"input_mtok", "cache_read_mtok", write, "cache_write_1h_mtok", "output_mtok"} {
		raw, ok := g[name]
		if !ok {
			continue
		}
		var n json.Number
		if err := json.Unmarshal(raw, &n); err != nil || len(raw) > 0 && raw[0] == '{' {
			return fmt.Errorf("%s is priced by context length", name)
		}
		prices[i] = &n
	}
	return setRates(r, 1_000_000, prices[:]...)
}
