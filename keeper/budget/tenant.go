package budget

import (
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/keeper/internal/calendar"
	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/prices"
)

// tenant is the configuration of one app of an organisation, as this process last read it.
type tenant struct {
	org, app string
	config   Org
	own      App
	known    bool // the app has an item
	calendar calendar.Calendar
	labels   []string // all labels that any ordering ever used
	override override
	prices   priceLayers
	options  map[string]string // models of the settings and Options.Models
	version  int64             // sum of the organisation's and the app's versions
	loaded   time.Time
	past     struct{ org, app []pastModel }
	keepDays int // see Settings
}

// checkRetained returns a *fault.ValidationError of field if day is more than t.keepDays before today, because
// some of its counters may have expired. Otherwise it returns nil. It reads nothing.
func (t *tenant) checkRetained(field, day string, now time.Time) error {
	if first := calendar.AddDays(t.calendar.Day(now), -t.keepDays); day < first {
		return invalid(field, "%s is more than %d days ago, and not kept any more; give %s or a later day", day, t.keepDays, first)
	}
	return nil
}

// lateDays is how many days before the creation of an organisation its first record may be: it
// may have waited in a spool, and belong to the day before it was sent.
const lateDays = 4

// firstDay returns the first day that may have records, like 20260123: lateDays before the organisation was
// created, or before now if the clock has been set back since.
func (t *tenant) firstDay(now time.Time) string {
	made := t.config.CreatedAt
	if now.Before(made) {
		made = now
	}
	return calendar.AddDays(t.calendar.Day(made), -lateDays)
}

// policy returns the app's effective configuration: its own fields where set, else its organisation's.
func (t *tenant) policy() policy { return policyOf(t.config, t.own, t.config.Scope) }

// scope returns the key of the scope that counts the tenant's spend: the app's, or the organisation's if its
// apps share their quotas.
func (t *tenant) scope() string {
	if t.config.Scope == ScopeOrg {
		return ledger.OrgScope(t.org)
	}
	return ledger.AppScope(t.org, t.app)
}

// model returns the id of a label's model: of p, the app's effective configuration, else of the organisation,
// else of the settings and options. It returns "" if none has one.
func (t *tenant) model(p policy, label string) string {
	if m := p.models[label]; m != "" {
		return m
	}
	if m := t.config.Models[label]; m != "" {
		return m
	}
	return t.options[label]
}

// lookupPrice returns the price in force at an instant of a label's model under the policy p, and the model's
// id. ok is false without a model or a price; without a price alone the id is still returned.
func (t *tenant) lookupPrice(p policy, label string, at time.Time) (price prices.Price, model string, ok bool) {
	if model = t.model(p, label); model == "" {
		return prices.Price{}, "", false
	}
	price, _, ok = t.prices.lookup(model, at)
	return price, model, ok
}

// activeOverride returns the label that an administrator has forced at now, or "" without an override or after
// its end.
func (t *tenant) activeOverride(now time.Time) string {
	if now.Before(t.override.until) {
		return t.override.label
	}
	return ""
}

// modelsToPrice returns the names, without scope prefix and each once, of all present and past models whose
// stored prices the tenant may need.
func (t *tenant) modelsToPrice() []string {
	var models []string
	add := func(model string) {
		if name, _ := prices.SplitModel(model); name != "" && !slices.Contains(models, name) {
			models = append(models, name)
		}
	}
	for _, label := range mergeLabels(t.labels, t.config.Ordering...) {
		for _, by := range []map[string]string{t.own.Models, t.config.Models, t.options} {
			add(by[label])
		}
	}
	for _, past := range slices.Concat(t.past.org, t.past.app) {
		add(past.Model)
	}
	return models
}

// withOrg returns a copy of the tenant with the configuration, calendar, labels and past models of o, and the
// resulting version. The app's own configuration, prices and override stay.
func (t *tenant) withOrg(o orgItem) *tenant {
	newer := *t
	newer.config, newer.calendar, newer.labels = o.asOrg(t.org), calendar.InZone(o.Zone), o.Labels
	newer.past.org = o.Past
	newer.version = newer.config.Version + newer.own.Version
	return &newer
}

// validTarget returns a *fault.ValidationError unless org is a UUID and app is a valid name, not empty. It does
// not check that they exist.
func validTarget(org, app string) error {
	if err := validUUID("org_id", org); err != nil {
		return err
	}
	return validName("app_id", app)
}

// validReadTarget returns a *fault.ValidationError unless org is a UUID, and app is a valid name or empty for
// the whole organisation. It does not check that they exist.
func validReadTarget(org, app string) error {
	if app == "" {
		return validUUID("org_id", org)
	}
	return validTarget(org, app)
}

// dayOrToday returns day, or today in the organisation's time zone if day is empty. A malformed or future day,
// and one whose counters may have expired, is a *fault.ValidationError.
func (t *tenant) dayOrToday(day string, now time.Time) (string, error) {
	today := t.calendar.Day(now)
	if day == "" {
		return today, nil
	}
	if _, err := validDay("day", day); err != nil {
		return "", err
	}
	if day > today {
		return "", invalid("day", "%s is in the future: today is %s", day, today)
	}
	return day, t.checkRetained("day", day, now)
}
