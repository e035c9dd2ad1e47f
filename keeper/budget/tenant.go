package budget

import (
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/keeper/internal/calendar"
	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/prices"
)

// tenant is the configuration of one app of an organisation, as this process has it.
type tenant struct {
	org, app string
	config   Org
	own      App
	known    bool // the app has an item
	calendar calendar.Calendar
	labels   []string // ever used in an ordering
	override override
	prices   priceLayers
	options  map[string]string // of the settings and Options.Models
	version  int64             // organisation's and app's together
	loaded   time.Time
	past     struct{ org, app []pastModel }
	keepDays int // see Settings
}

// kept refuses a day whose counters may be gone: a sum of those that are left is too small.
func (t *tenant) kept(field, day string, now time.Time) error {
	if first := calendar.AddDays(t.calendar.Day(now), -t.keepDays); day < first {
		return invalid(field, "%s is more than %d days ago, and not kept any more; give %s or a later day", day, t.keepDays, first)
	}
	return nil
}

// lateDays is how many days before an organisation was made its first record may be: it may have
// waited in a spool, and be of the day before it was sent.
const lateDays = 4

// firstDay is the first day for which something may be counted. A clock may have been set back
// since the organisation was made.
func (t *tenant) firstDay(now time.Time) string {
	made := t.config.CreatedAt
	if now.Before(made) {
		made = now
	}
	return calendar.AddDays(t.calendar.Day(made), -lateDays)
}

// policy is what is in effect.
func (t *tenant) policy() policy { return policyOf(t.config, t.own, t.config.Scope) }

// scope is the key of whose spend counts.
func (t *tenant) scope() string {
	if t.config.Scope == ScopeOrg {
		return ledger.OrgScope(t.org)
	}
	return ledger.AppScope(t.org, t.app)
}

// model is the label's model id, empty when none is configured.
func (t *tenant) model(p policy, label string) string {
	if m := p.models[label]; m != "" {
		return m
	}
	if m := t.config.Models[label]; m != "" {
		return m
	}
	return t.options[label]
}

// price finds a label's price in force at an instant, and the model that it is for.
func (t *tenant) price(p policy, label string, at time.Time) (price prices.Price, model string, ok bool) {
	if model = t.model(p, label); model == "" {
		return prices.Price{}, "", false
	}
	price, _, ok = t.prices.lookup(model, at)
	return price, model, ok
}

// activeOverride is the label an administrator forced, if any.
func (t *tenant) activeOverride(now time.Time) string {
	if now.Before(t.override.until) {
		return t.override.label
	}
	return ""
}

// priced are the models whose prices the tenant's calls may need.
func (t *tenant) priced() []string {
	var models []string
	add := func(model string) {
		if name, _ := prices.SplitModel(model); name != "" && !slices.Contains(models, name) {
			models = append(models, name)
		}
	}
	for _, label := range union(t.labels, t.config.Ordering...) {
		for _, by := range []map[string]string{t.own.Models, t.config.Models, t.options} {
			add(by[label])
		}
	}
	for _, past := range slices.Concat(t.past.org, t.past.app) {
		add(past.Model)
	}
	return models
}

// withOrg is the tenant with a newer configuration of its organisation.
func (t *tenant) withOrg(o orgItem) *tenant {
	newer := *t
	newer.config, newer.calendar, newer.labels = o.org(t.org), calendar.In(o.Zone), o.Labels
	newer.past.org = o.Past
	newer.version = newer.config.Version + newer.own.Version
	return &newer
}

// validTarget checks the ids every call names.
func validTarget(org, app string) error {
	if err := validUUID("org_id", org); err != nil {
		return err
	}
	return validName("app_id", app)
}

// validReadTarget is validTarget where an empty app means all.
func validReadTarget(org, app string) error {
	if app == "" {
		return validUUID("org_id", org)
	}
	return validTarget(org, app)
}

// dayOrToday checks a day that is not in the future.
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
	return day, t.kept("day", day, now)
}
