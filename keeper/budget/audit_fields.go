package budget

import (
	"github.com/dynalimit/dynalimit/internal/trail"
)

// What events say of a configuration: each field by name, so that nothing is told that
// was not meant to be. Credentials are never among them.

// fields are those of an organisation's configuration.
func (o Org) fields() trail.Fields {
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
func (a App) fields() trail.Fields {
	f := configFields(a)
	f["app_name"] = present(a.Name)
	return f
}

// configFields are those that organisations and apps have.
func configFields(a App) trail.Fields {
	f := trail.Fields{
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
