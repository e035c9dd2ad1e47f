package wire

import (
	"reflect"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/prices"
)

var usageType = reflect.TypeFor[Usage]()

// Price is the prices of a million tokens by class.
type Price struct {
	Input        int64 `json:"input_usd_micros_per_1m" doc:"Uncached input; 0: free"`
	Output       int64 `json:"output_usd_micros_per_1m" doc:"The reply; 0: free"`
	CacheRead    int64 `json:"cache_read_usd_micros_per_1m,omitempty" doc:"Input read from the cache; absent: not known, costs what the input does; -1: free"`
	CacheWrite5m int64 `json:"cache_write_5m_usd_micros_per_1m,omitempty" doc:"Input written for 5 minutes; absent: not known, costs 1.25 times the input; -1: free"`
	CacheWrite1h int64 `json:"cache_write_1h_usd_micros_per_1m,omitempty" doc:"Input written for an hour; absent: not known, costs twice the input; -1: free"`
}

// NewPrice converts rates for a response, in micro-dollars a million tokens. A free input or output becomes 0.
func NewPrice(r prices.Rates) Price {
	return Price{max(0, r.Input), max(0, r.Output), r.CacheRead, r.CacheWrite5m, r.CacheWrite1h}
}

// Selection is a label that an app may use now.
type Selection struct {
	Org               string               `json:"org_id" doc:"The organisation"`
	App               string               `json:"app_id" doc:"The app"`
	Day               string               `json:"day" doc:"The organisation's day" example:"20260123"`
	Model             SelectedModel        `json:"recommended_model" doc:"What to use now"`
	Mode              string               `json:"mode" enum:"NORMAL,TIGHT" doc:"TIGHT: ask more often"`
	Reason            string               `json:"reason" doc:"WITHIN_QUOTA, MANUAL_OVERRIDE, or why the label before was passed over: QUOTA_EXCEEDED_ or UNPRICED_ and its name" example:"WITHIN_QUOTA"`
	Labels            []prices.LabelStatus `json:"quota_status" nullable:"false" doc:"Where every label of the ordering stands"`
	CacheDurationSecs int64                `json:"cache_duration_secs" doc:"How long the answer may be kept, as in Cache-Control"`
	ResetAt           time.Time            `json:"reset_at,omitzero" doc:"When the next day begins"`
	Stale             bool                 `json:"stale,omitempty" doc:"The store did not answer: this is the last that is known"`

	encoded []byte
}

// WithEncoding returns the selection with its JSON encoding, which then serves several responses.
func (s Selection) WithEncoding(encoded []byte) Selection {
	s.encoded = encoded
	return s
}

// Encoded returns the JSON encoding of WithEncoding, or nil.
func (s Selection) Encoded() []byte { return s.encoded }

// SelectedModel is a label and its model.
type SelectedModel struct {
	Label string `json:"label" doc:"The label, to be sent with the usage" example:"premium"`
	Model string `json:"model_id" doc:"The model to call"`
	Price Price  `json:"price" doc:"What it costs now"`
}

// NewSelection converts a recommendation for a response, with CacheFor in whole seconds and prices in
// micro-dollars a million tokens. It does not encode it.
func NewSelection(org, app string, r budget.Recommendation) Selection {
	return Selection{
		Org: org, App: app, Day: r.Day, Model: SelectedModel{r.Label, r.Model, NewPrice(r.Price)},
		Mode: string(r.Mode), Reason: r.Reason, Labels: r.Labels,
		CacheDurationSecs: int64(r.CacheFor / time.Second), ResetAt: r.ResetAt.UTC(), Stale: r.Stale,
	}
}

// StoredDay converts a date of the API, such as 2026-01-23, to the keeper's form 20260123.
func StoredDay(date string) string { return strings.ReplaceAll(date, "-", "") }

// Totals is one day's usage by label.
type Totals struct {
	Org           string        `json:"org_id" doc:"The organisation"`
	App           string        `json:"app_id,omitempty" doc:"The app; absent: all of them"`
	Day           string        `json:"day" doc:"The organisation's day" example:"20260123"`
	CostUSDMicros int64         `json:"cost_usd_micros" doc:"Of all labels"`
	Labels        []LabelTotals `json:"labels" nullable:"false" doc:"In the order of preference; those that are no longer in it come last"`
}

// LabelTotals is one label's usage on one day.
type LabelTotals struct {
	Label          string  `json:"label" doc:"Its name"`
	CostUSDMicros  int64   `json:"cost_usd_micros" doc:"Charges less credits"`
	QuotaUSDMicros int64   `json:"quota_usd_micros" doc:"As configured now"`
	Percent        float64 `json:"quota_pct" doc:"Of the quota; 0 when the quota is 0"`
	Status         string  `json:"status" enum:"NORMAL,TIGHT,EXCEEDED,UNPRICED" doc:"Where it stands"`
	Tokens         Sums    `json:"tokens" doc:"By class"`
	Requests       int64   `json:"requests" doc:"Records that were counted"`
}

// Sums is numbers of tokens of many calls by class.
type Sums struct {
	Input        int64 `json:"input" doc:"Uncached input"`
	CacheRead    int64 `json:"cache_read" doc:"Input read from the prompt cache"`
	CacheWrite5m int64 `json:"cache_write_5m" doc:"Input written to the cache for 5 minutes"`
	CacheWrite1h int64 `json:"cache_write_1h" doc:"Input written to the cache for an hour"`
	Output       int64 `json:"output" doc:"Replies"`
}

// NewTotals converts the totals of a day for a response, label by label in their order, with amounts in
// micro-dollars.
func NewTotals(org, app string, d budget.DayTotals) Totals {
	out := Totals{Org: org, App: app, Day: d.Day, CostUSDMicros: d.CostMicros, Labels: make([]LabelTotals, len(d.Labels))}
	for i, l := range d.Labels {
		out.Labels[i] = LabelTotals{
			Label: l.Label, CostUSDMicros: l.CostMicros, QuotaUSDMicros: l.Quota,
			Percent: l.Percent, Status: string(l.Status), Tokens: Sums(l.Tokens), Requests: l.Requests,
		}
	}
	return out
}
