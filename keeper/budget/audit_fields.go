package budget

import (
	"github.com/dynalimit/dynalimit/internal/trail"
)

// Audit events list each configuration field by name, so that a new field is never recorded by
// accident. Credentials are never among them.

// eventFields returns the organisation's configuration as the fields of an audit event, without id, version and
// times. Most unset fields are missing or nil.
func (o Org) eventFields() trail.Fields {
	f := configFields(App{
		Ordering: o.Ordering, Quotas: o.Quotas, Models: o.Models, TightPercent: o.TightPercent,
		RefreshNormalSecs: o.RefreshNormalSecs, RefreshTightSecs: o.RefreshTightSecs,
	})
	f["org_name"] = nilIfZero(o.Name)
	f["timezone"], f["quota_scope"] = o.Timezone, o.Scope
	f["agg_shard_count"], f["sticky_fallback_enabled"] = o.Shards, o.Sticky
	return f
}

// eventFields returns the app's own configuration as the fields of an audit event, without id, version and
// times. Unset, that is inherited, fields are missing or nil.
func (a App) eventFields() trail.Fields {
	f := configFields(a)
	f["app_name"] = nilIfZero(a.Name)
	return f
}

// configFields returns the fields that organisations and apps share, for an audit event. Unset ones are missing
// or nil. Name, id and version are not among them.
func configFields(a App) trail.Fields {
	f := trail.Fields{
		"tight_mode_threshold_pct":     nilIfZero(a.TightPercent),
		"refresh_interval_normal_secs": nilIfZero(a.RefreshNormalSecs),
		"refresh_interval_tight_secs":  nilIfZero(a.RefreshTightSecs),
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

// nilIfZero returns v, or nil for the zero value: then the event has no such field.
func nilIfZero[T comparable](v T) any {
	var none T
	if v == none {
		return nil
	}
	return v
}
