package budget

import (
	"time"

	"github.com/dynalimit/dynalimit/internal/audit"
)

// What events say of a configuration: each field by name, so that nothing is told that
// was not meant to be. Credentials are never among them.

// fields are those of an organisation's configuration.
func (o Org) fields() audit.Fields {
	f := configFields(App{
		Ordering: o.Ordering, Quotas: o.Quotas, Models: o.Models, TightPercent: o.TightPercent,
		RefreshNormalSecs: o.RefreshNormalSecs, RefreshTightSecs: o.RefreshTightSecs,
	})
	f["org_name"] = present(o.Name)
	f["timezone"], f["quota_scope"] = o.Timezone, o.Scope
	f["agg_shard_count"], f["sticky_fallback_enabled"] = o.Shards, o.Sticky
	return f
}

// fields are those of an app's own configuration.
func (a App) fields() audit.Fields {
	f := configFields(a)
	f["app_name"] = present(a.Name)
	return f
}

// configFields are those that organisations and apps have.
func configFields(a App) audit.Fields {
	f := audit.Fields{
		"tight_mode_threshold_pct":     present(a.TightPercent),
		"refresh_interval_normal_secs": present(a.RefreshNormalSecs),
		"refresh_interval_tight_secs":  present(a.RefreshTightSecs),
	}
	if len(a.Ordering) > 0 {
		f["model_ordering"] = a.Ordering
	}
	if len(a.Quotas) > 0 {
		f["quotas"] = a.Quotas
	}
	if len(a.Models) > 0 {
		f["models"] = a.Models
	}
	return f
}

// present is a value, or nil for the zero one: the field is absent.
func present[T comparable](v T) any {
	var none T
	if v == none {
		return nil
	}
	return v
}

// fields are those of an override; of one that is over, none.
func (o override) fields(now time.Time) audit.Fields {
	if !now.Before(o.until) {
		return nil
	}
	return audit.Fields{"label": o.label, "until": o.until.UTC().Format(time.RFC3339Nano)}
}

// priceText is a price as events tell it, without the model's name: that is the target.
type priceText struct {
	Scope         PriceScope `json:"scope,omitempty"`
	EffectiveFrom string     `json:"effective_from,omitempty"`
	List          string     `json:"list,omitempty"`
	Input         int64      `json:"input"`
	Output        int64      `json:"output"`
	CacheRead     int64      `json:"cache_read,omitempty"`
	CacheWrite5m  int64      `json:"cache_write_5m,omitempty"`
	CacheWrite1h  int64      `json:"cache_write_1h,omitempty"`
}

// priceFields are what is stored of a model: its prices, and what is said of it.
func priceFields(stored priceRows) audit.Fields {
	f := audit.Fields{
		"tier": present(stored.Tier), "family": present(stored.Family), "description": present(stored.Description),
	}
	rows := make([]priceText, len(stored.Rows))
	for i, p := range stored.prices() {
		rows[i] = priceText{p.Scope, "", p.List, p.Input, p.Output, p.CacheRead, p.CacheWrite5m, p.CacheWrite1h}
		if !p.EffectiveFrom.IsZero() {
			rows[i].EffectiveFrom = p.EffectiveFrom.UTC().Format(time.RFC3339)
		}
	}
	if len(rows) > 0 {
		f["prices"] = rows
	}
	return f
}

// fields are those of an adjustment.
func (a Adjustment) fields() audit.Fields {
	return audit.Fields{"id": a.ID, "label": a.Label, "day": a.Day, "delta_micros": a.DeltaMicros, "reason": a.Reason}
}
