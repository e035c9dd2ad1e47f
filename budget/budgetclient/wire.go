package budgetclient

import (
	"time"

	"github.com/dynalimit/dynalimit/budget"
)

// The bodies of the API, as package budgethttp has them.

type labelStatus struct {
	Label  string  `json:"label"`
	Model  string  `json:"model_id"`
	Spend  int64   `json:"spend_usd_micros"`
	Quota  int64   `json:"quota_usd_micros"`
	Pct    float64 `json:"quota_pct"`
	Status string  `json:"status"`
}

func labelsOf(labels []labelStatus) []budget.LabelStatus {
	out := make([]budget.LabelStatus, len(labels))
	for i, l := range labels {
		out[i] = budget.LabelStatus{
			Label: l.Label, Model: l.Model, SpendMicros: l.Spend, QuotaMicros: l.Quota,
			Percent: l.Pct, Status: budget.Status(l.Status),
		}
	}
	return out
}

type price struct {
	Input        int64 `json:"input_usd_micros_per_1m"`
	Output       int64 `json:"output_usd_micros_per_1m"`
	CacheRead    int64 `json:"cache_read_usd_micros_per_1m"`
	CacheWrite5m int64 `json:"cache_write_5m_usd_micros_per_1m"`
	CacheWrite1h int64 `json:"cache_write_1h_usd_micros_per_1m"`
}

type selection struct {
	Org   string `json:"org_id"`
	App   string `json:"app_id"`
	Day   string `json:"day"`
	Model struct {
		Label string `json:"label"`
		Model string `json:"model_id"`
		Price price  `json:"price"`
	} `json:"recommended_model"`
	Mode    string        `json:"mode"`
	Reason  string        `json:"reason"`
	Labels  []labelStatus `json:"quota_status"`
	ResetAt time.Time     `json:"reset_at"`
	Stale   bool          `json:"stale"`
}

// recommendation is the answer as package budget has it; CacheFor is the header's.
func (s selection) recommendation(cacheFor time.Duration) budget.Recommendation {
	return budget.Recommendation{
		Label: s.Model.Label, Model: s.Model.Model, Mode: budget.Mode(s.Mode), Reason: s.Reason, Labels: labelsOf(s.Labels),
		CacheFor: cacheFor, ResetAt: s.ResetAt, Day: s.Day, Price: budget.Rates(s.Model.Price), Stale: s.Stale,
	}
}

type receipt struct {
	RequestID        string    `json:"request_id"`
	Status           string    `json:"status"`
	Cost             int64     `json:"cost_usd_micros"`
	Day              string    `json:"day"`
	Shard            int       `json:"shard"`
	PriceVersion     string    `json:"price_version"`
	Spend            int64     `json:"spend_usd_micros"`
	Pct              float64   `json:"quota_pct"`
	Mode             string    `json:"mode"`
	QuotaStatus      string    `json:"quota_status"`
	RecommendedLabel string    `json:"recommended_label"`
	ResetAt          time.Time `json:"reset_at"`
}

func (r receipt) budget() budget.Receipt {
	return budget.Receipt{
		CostMicros: r.Cost, Duplicate: r.Status == "duplicate", Day: r.Day, Shard: r.Shard, PriceVersion: r.PriceVersion,
		SpendMicros: r.Spend, Percent: r.Pct, Mode: budget.Mode(r.Mode), QuotaStatus: budget.Status(r.QuotaStatus),
		RecommendedLabel: r.RecommendedLabel, ResetAt: r.ResetAt, Spooled: r.Status == "spooled",
	}
}

type batchReceipt struct {
	Results []struct {
		Index   int          `json:"index"`
		Status  string       `json:"status"`
		Receipt *receipt     `json:"receipt"`
		Error   *answerError `json:"error"`
	} `json:"results"`
}

type dayTotals struct {
	Org    string `json:"org_id"`
	App    string `json:"app_id"`
	Day    string `json:"day"`
	Cost   int64  `json:"cost_usd_micros"`
	Labels []struct {
		Label    string        `json:"label"`
		Cost     int64         `json:"cost_usd_micros"`
		Quota    int64         `json:"quota_usd_micros"`
		Pct      float64       `json:"quota_pct"`
		Status   string        `json:"status"`
		Tokens   budget.Tokens `json:"tokens"`
		Requests int64         `json:"requests"`
	} `json:"labels"`
}

func (d dayTotals) budget() budget.DayTotals {
	out := budget.DayTotals{Day: d.Day, CostMicros: d.Cost, Labels: make([]budget.LabelTotals, len(d.Labels))}
	for i, l := range d.Labels {
		out.Labels[i] = budget.LabelTotals{
			Label: l.Label, CostMicros: l.Cost, Tokens: l.Tokens, Requests: l.Requests,
			Quota: l.Quota, Percent: l.Pct, Status: budget.Status(l.Status),
		}
	}
	return out
}
