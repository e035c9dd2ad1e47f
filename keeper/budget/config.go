package budget

import (
	"cmp"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/keeper/internal/calendar"
)

// Scope says whether a quota counts the spend of the organisation or of each app.
type Scope string

// The scopes.
const (
	ScopeOrg Scope = "ORG" // one total for the organisation; apps' quotas are ignored
	ScopeApp Scope = "APP" // each app has its own
)

// Org is an organisation's configuration.
type Org struct {
	ID       string `json:"org_id"`             // canonical lower-case UUID; required
	Name     string `json:"org_name,omitempty"` // free text for people, at most 256 bytes. Defaults to none
	Timezone string `json:"timezone"`           // IANA name; its local date is the organisation's day. Defaults to the stored one, else UTC. It cannot be changed
	Scope    Scope  `json:"quota_scope"`        // Defaults to the stored one, else ScopeApp. It cannot be changed
	// Ordering is the labels from the preferred to the last resort, 1 to 64; each is 1 to
	// 128 of A-Z a-z 0-9 . _ : / -, such as a model's id.
	Ordering []string `json:"model_ordering,omitempty"`
	// Quotas are in µ$ per day, 0 to 10^12, one for every label of Ordering; at most 128.
	Quotas map[string]int64 `json:"quotas,omitempty"`
	// Models maps labels to model ids, at most 128. Missing labels default to Options.Models.
	Models map[string]string `json:"models,omitempty"`
	// TightPercent is the percentage of a quota at which mode TIGHT begins, 50 to 100. Defaults
	// to 95.
	TightPercent int `json:"tight_mode_threshold_pct,omitempty"`
	// Shards is the number of counters for each day and label, 1 to 256. Defaults to 8.
	Shards int `json:"agg_shard_count"`
	// NoSticky turns off the record of the label in use and the events of its changes. Defaults
	// to false.
	NoSticky bool `json:"-"`
	// Sticky is the opposite of NoSticky. The keeper sets it; PutOrg ignores it.
	Sticky bool `json:"sticky_fallback_enabled"`
	// RefreshNormalSecs is how long a client may keep a recommendation, in seconds.
	// Defaults to 300.
	RefreshNormalSecs int64 `json:"refresh_interval_normal_secs,omitempty"`
	// RefreshTightSecs is the same in mode TIGHT. Defaults to 60.
	RefreshTightSecs int64 `json:"refresh_interval_tight_secs,omitempty"`

	// Version increases with every change. PutOrg with the version that GetOrg returned fails
	// with ErrConflict if the organisation has changed since. With NoVersion it fails if the
	// organisation exists. 0 replaces any version.
	Version int64 `json:"version"`

	// The keeper sets the fields below. PutOrg ignores them.

	CreatedAt time.Time `json:"created_at"` // first PUT
	UpdatedAt time.Time `json:"updated_at"` // last PUT
}

// App is an application's configuration. It inherits nil and empty fields from the
// organisation, Quotas and Models each as a whole. The fields have the same meaning as in Org.
type App struct {
	ID           string            `json:"app_id"`                             // 1 to 64 of A-Z a-z 0-9 . _ -
	Name         string            `json:"app_name,omitempty"`                 // free text for people, at most 256 bytes; not inherited
	Ordering     []string          `json:"model_ordering,omitempty"`           // labels from the preferred to the last resort
	Quotas       map[string]int64  `json:"quotas,omitempty"`                   // µ$ per day by label; ignored under ScopeOrg
	Models       map[string]string `json:"models,omitempty"`                   // model ids by label
	TightPercent int               `json:"tight_mode_threshold_pct,omitempty"` // where mode TIGHT begins, 50 to 100
	// RefreshNormalSecs is how long a client may keep a recommendation, in seconds.
	// Defaults to the organisation's.
	RefreshNormalSecs int64 `json:"refresh_interval_normal_secs,omitempty"`
	// RefreshTightSecs is the same in mode TIGHT. Defaults to the organisation's.
	RefreshTightSecs int64 `json:"refresh_interval_tight_secs,omitempty"`

	Version int64 `json:"version"` // as Org.Version, for PutApp

	// The keeper sets the fields below. PutApp ignores them.

	CreatedAt time.Time `json:"created_at"` // first PUT
	UpdatedAt time.Time `json:"updated_at"` // last PUT
}

const (
	defaultZone = "UTC"

	maxQuota  = 1_000_000_000_000
	maxLabels = 64
	maxParts  = 128 // quotas or models; an audit event contains them before and after
	maxShards = 256
	maxName   = 256
)

// checkedField returns a *fault.ValidationError of field with the reason, or nil if reason is empty. It checks
// nothing itself.
func checkedField(field, reason string) error {
	if reason == "" {
		return nil
	}
	return invalid(field, "%s", reason)
}

// validUUID returns nil if id is a canonical lower-case UUID, else a *fault.ValidationError for field.
func validUUID(field, id string) error { return checkedField(field, problem.CheckUUID(id)) }

// validName returns a *fault.ValidationError for field unless name is a valid name of an app or a tag.
func validName(field, name string) error { return checkedField(field, problem.CheckName(name)) }

// validDay parses a day like 20260123 and returns its noon in UTC. Any other text is a *fault.ValidationError
// of field.
func validDay(field, day string) (time.Time, error) {
	noon, err := calendar.ParseDay(day)
	if err != nil {
		return time.Time{}, invalid(field, "%q is not a day like 20260123", day)
	}
	return noon, nil
}

// withDefaults returns a copy of the organisation with defaults for its unset threshold, shards and refresh
// intervals, and with Sticky set to the opposite of NoSticky. Time zone and scope stay empty, because a stored
// organisation keeps its own.
func (o Org) withDefaults() Org {
	o.Sticky = !o.NoSticky
	o.TightPercent = cmp.Or(o.TightPercent, 95)
	o.Shards = cmp.Or(o.Shards, 8)
	o.RefreshNormalSecs = cmp.Or(o.RefreshNormalSecs, 300)
	o.RefreshTightSecs = cmp.Or(o.RefreshTightSecs, 60)
	return o
}

// validate returns a *fault.ValidationError for the first wrong field of an organisation, or nil. The defaults
// of withDefaults must be set; an empty time zone or scope is valid.
func (o Org) validate() error {
	if err := validUUID("org_id", o.ID); err != nil {
		return err
	}
	if err := calendar.Check(cmp.Or(o.Timezone, defaultZone)); err != nil {
		return invalidConfig("timezone", "%v", err)
	}
	switch {
	case o.Scope != "" && o.Scope != ScopeOrg && o.Scope != ScopeApp:
		return invalidConfig("quota_scope", "%q is not ORG or APP", o.Scope)
	case o.Shards < 1 || o.Shards > maxShards:
		return invalidConfig("agg_shard_count", "%d is not within 1 to %d", o.Shards, maxShards)
	case len(o.Name) > maxName || !utf8.ValidString(o.Name):
		return invalidConfig("org_name", "is not UTF-8 of at most %d bytes", maxName)
	}
	return policyOf(o, App{}, o.Scope).validate()
}

// validate returns a *fault.ValidationError for a bad id or name of the app. The other fields depend on the
// organisation; validateApp checks them.
func (a App) validate() error {
	if err := validName("app_id", a.ID); err != nil {
		return err
	}
	if len(a.Name) > maxName || !utf8.ValidString(a.Name) {
		return invalidConfig("app_name", "is not UTF-8 of at most %d bytes", maxName)
	}
	return nil
}

// seconds returns n seconds as a time.Duration.
func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// policy is the effective configuration of one app of an organisation.
type policy struct {
	ordering []string
	quotas   map[string]int64
	models   map[string]string
	tight    int64
	normal   time.Duration
	tightFor time.Duration
}

// policyOf returns the effective configuration of app a: each of its own fields if set, else the
// organisation's. Quotas and models are taken as a whole. Unless scope is ScopeApp, the quotas are the
// organisation's.
func policyOf(o Org, a App, scope Scope) policy {
	p := policy{
		ordering: o.Ordering, quotas: o.Quotas, models: o.Models,
		tight:    int64(cmp.Or(a.TightPercent, o.TightPercent)),
		normal:   seconds(cmp.Or(a.RefreshNormalSecs, o.RefreshNormalSecs)),
		tightFor: seconds(cmp.Or(a.RefreshTightSecs, o.RefreshTightSecs)),
	}
	if len(a.Ordering) > 0 {
		p.ordering = a.Ordering
	}
	if len(a.Models) > 0 {
		p.models = a.Models
	}
	if scope == ScopeApp && len(a.Quotas) > 0 {
		p.quotas = a.Quotas
	}
	return p
}

// validate returns a *fault.ValidationError for the first bad field of the effective
// configuration, or nil.
func (p policy) validate() error {
	for _, check := range []func() error{p.validateOrdering, p.validateQuotas, p.validateModels, p.validateRest} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// validateOrdering returns a *fault.ValidationError unless the ordering has 1 to maxLabels valid labels, each
// once and with a quota.
func (p policy) validateOrdering() error {
	if len(p.ordering) < 1 || len(p.ordering) > maxLabels {
		return invalidConfig("model_ordering", "%d labels are not 1 to %d", len(p.ordering), maxLabels)
	}
	seen := map[string]bool{}
	for _, label := range p.ordering {
		if problem.CheckLabel(label) != "" {
			return invalidConfig("model_ordering", "%q is not a label", label)
		}
		if seen[label] {
			return invalidConfig("model_ordering", "label %q is listed twice", label)
		}
		seen[label] = true
		if _, ok := p.quotas[label]; !ok {
			return invalidConfig("quotas."+label, "label %q of the ordering has no quota", label)
		}
	}
	return nil
}

// validateQuotas returns a *fault.ValidationError for too many quotas, an invalid label, or a quota outside 0
// to maxQuota micro-dollars.
func (p policy) validateQuotas() error {
	if len(p.quotas) > maxParts {
		return invalidConfig("quotas", "%d quotas are more than %d", len(p.quotas), maxParts)
	}
	for _, label := range slices.Sorted(maps.Keys(p.quotas)) {
		if q := p.quotas[label]; q < 0 || q > maxQuota {
			return invalidConfig("quotas."+label, "%d µ$ is not within 0 to %d", q, int64(maxQuota))
		}
		if problem.CheckLabel(label) != "" {
			return invalidConfig("quotas", "%q is not a label", label)
		}
	}
	return nil
}

// validateModels returns a *fault.ValidationError for too many models, an invalid label, or a model id that is
// empty or longer than maxName bytes.
func (p policy) validateModels() error {
	if len(p.models) > maxParts {
		return invalidConfig("models", "%d models are more than %d", len(p.models), maxParts)
	}
	for label, model := range p.models {
		if problem.CheckLabel(label) != "" || model == "" || len(model) > maxName || !utf8.ValidString(model) {
			return invalidConfig("models."+label, "%q is not a model id for a label", model)
		}
	}
	return nil
}

// validateRest returns a *fault.ValidationError for a threshold of tight mode outside 50 to 100 %, or a refresh
// interval outside 1 s to 24 h.
func (p policy) validateRest() error {
	if p.tight < 50 || p.tight > 100 {
		return invalidConfig("tight_mode_threshold_pct", "%d is not within 50 to 100", p.tight)
	}
	for _, d := range []time.Duration{p.normal, p.tightFor} {
		if d < time.Second || d > 24*time.Hour {
			return invalidConfig("refresh_interval", "%v is not within 1 s to 24 h", d)
		}
	}
	return nil
}
