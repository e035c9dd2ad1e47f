package budgetclient

import (
	"time"

	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/prices"
)

// The bodies of the REST API of package budgethttp.

type selection struct {
	Org   string `json:"org_id"`
	App   string `json:"app_id"`
	Day   string `json:"day"`
	Model struct {
		Label string       `json:"label"`
		Model string       `json:"model_id"`
		Price prices.Rates `json:"price"`
	} `json:"recommended_model"`
	Mode    budget.Mode          `json:"mode"`
	Reason  string               `json:"reason"`
	Labels  []prices.LabelStatus `json:"quota_status"`
	ResetAt time.Time            `json:"reset_at"`
	Stale   bool                 `json:"stale"`
}

// asRecommendation returns the response as a budget.Recommendation. cacheFor, from the response's header,
// becomes CacheFor.
func (s selection) asRecommendation(cacheFor time.Duration) budget.Recommendation {
	return budget.Recommendation{
		Label: s.Model.Label, Model: s.Model.Model, Mode: s.Mode, Reason: s.Reason, Labels: s.Labels,
		CacheFor: cacheFor, ResetAt: s.ResetAt, Day: s.Day, Price: s.Model.Price, Stale: s.Stale,
	}
}

type receipt struct {
	RequestID string `json:"request_id"`
	Status    string `json:"status"`
	budget.Receipt
}

// asReceipt returns the response as a budget.Receipt, with Duplicate and Spooled set by its status.
func (r receipt) asReceipt() budget.Receipt {
	r.Duplicate, r.Spooled = r.Status == "duplicate", r.Status == "spooled"
	return r.Receipt
}

type batchReceipt struct {
	Results []struct {
		Index   int        `json:"index"`
		Status  string     `json:"status"`
		Receipt *receipt   `json:"receipt"`
		Error   *errorBody `json:"error"`
	} `json:"results"`
}

type dayTotals struct {
	Org string `json:"org_id"`
	App string `json:"app_id"`
	budget.DayTotals
}
