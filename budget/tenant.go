package budget

import (
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/budget/internal/calendar"
	"github.com/dynalimit/dynalimit/budget/internal/ledger"
	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/ddb"
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
	options  map[string]string // Options.Models
	version  int64             // organisation's and app's together
	loaded   time.Time
	past     struct{ org, app []pastModel }
	keepDays int // Options.KeepDays
}

// kept refuses a day whose counters may be gone: a sum of those that are left is too small.
func (t *tenant) kept(field, day string, now time.Time) error {
	if first := calendar.AddDays(t.calendar.Day(now), -t.keepDays); day < first {
		return invalid(field, "%s is more than %d days ago, and not kept any more; give %s or a later day", day, t.keepDays, first)
	}
	return nil
}

// policy is what is in effect.
func (t *tenant) policy() policy { return policyOf(t.config, t.own, t.config.Scope) }

// scope is the key of whose spend counts.
func (t *tenant) scope() string { return ledger.ScopeKey(t.config.Scope, t.org, t.app) }

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
func (t *tenant) price(p policy, label string, at time.Time) (price Price, model string, ok bool) {
	if model = t.model(p, label); model == "" {
		return Price{}, "", false
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

func (adm *administration) loadTenant(ctx context.Context, org, app string) (*tenant, error) {
	t := &tenant{org: org, app: app, loaded: adm.now(), options: adm.models, keepDays: adm.keepDays}
	keys := []store.Key{orgKey(org)}
	if app != "" {
		keys = append(keys, appKey(org, app), overrideKey(org, app))
	}
	items, err := adm.store.BatchGet(ctx, adm.store.Control, keys...)
	if err != nil {
		return nil, err
	}
	o, err := decodeOrg(org, items[orgKey(org)])
	if err != nil {
		return nil, err
	}
	t = t.withOrg(o)
	item := items[appKey(org, app)]
	if app != "" && item == nil && !adm.anyApp {
		return nil, notFound("app %q of organisation %s; create it with PutApp", app, org)
	}
	if app != "" && item != nil {
		a, err := decodeApp(item)
		if err != nil {
			return nil, err
		}
		if a.deleted() {
			return nil, appDeleted(org, app)
		}
		if a.enforced != "" {
			return nil, appEnforced(app, a.enforced)
		}
		t.own, t.known, t.past.app = a.app(app), true, a.Past
	}
	if item := items[overrideKey(org, app)]; item != nil {
		if t.override, err = decodeOverride(item); err != nil {
			return nil, err
		}
	}
	t.version = t.config.Version + t.own.Version
	t.prices, err = adm.tablePrices(ctx, t)
	return t, err
}

// tablePrices puts the stored prices of the organisation's models before the
// keeper's own.
func (adm *administration) tablePrices(ctx context.Context, t *tenant) (priceLayers, error) {
	book, err := adm.prices.stored(ctx, t.priced())
	if err != nil {
		return nil, err
	}
	return append(priceLayers{{layerTable, book}}, adm.prices.own...), nil
}

// priced are the models whose prices the tenant's calls may need.
func (t *tenant) priced() []string {
	var models []string
	add := func(model string) {
		if name, _ := splitModel(model); name != "" && !slices.Contains(models, name) {
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

// register writes an item for an app that was never put, if Options.AllowUnknownApps let it
// come so far: so a list of the organisation's apps contains every app that spends.
func (adm *administration) register(ctx context.Context, t *tenant) error {
	if t.known || t.app == "" {
		return nil
	}
	now := adm.now()
	expression, names, values, err := setAll(appItem{configItem: newConfigItem(App{}, now, now, 0, "")})
	if err != nil {
		return err
	}
	names["#pk"] = "PK"
	err = store.Retry(ctx, func() error {
		_, err := adm.store.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &adm.store.Control, Key: appKey(t.org, t.app).Attributes(), UpdateExpression: &expression,
			ConditionExpression: aws.String(store.IfAbsent), ExpressionAttributeNames: names, ExpressionAttributeValues: values,
		}, store.Once)
		return err
	})
	if err != nil && store.Diagnose(err) != ddb.Refused {
		return failure("app", err)
	}
	registered := *t
	registered.known = true
	adm.tenants.replace(t, &registered)
	return nil
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
