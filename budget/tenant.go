package budget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/dynalimit/dynalimit/budget/internal/background"
	"github.com/dynalimit/dynalimit/budget/internal/calendar"
	"github.com/dynalimit/dynalimit/budget/internal/ledger"
	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

// tenant is the configuration in hand for one app of one organisation.
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
	retry    time.Time // not loaded again before, after a load that failed
}

// usableFor is how long a configuration may be used while no newer one can be
// loaded: what changes between days is announced SwitchNotice ahead.
const usableFor = calendar.SwitchNotice / 2

// policy is what is in effect at an instant.
func (t *tenant) policy(now time.Time) policy {
	return policyOf(t.config, t.own, t.calendar.At(now).Scope)
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

// price finds a label's price in force at an instant.
func (t *tenant) price(p policy, label string, at time.Time) (price Price, version, model string, ok bool) {
	if model = t.model(p, label); model == "" {
		return Price{}, "", "", false
	}
	price, version, ok = t.prices.lookup(model, at)
	return price, version, model, ok
}

// activeOverride is the label an administrator forced, if any.
func (t *tenant) activeOverride(now time.Time) string {
	if now.Before(t.override.until) {
		return t.override.label
	}
	return ""
}

// tenants caches configurations: a short while, one load at a time per app,
// and evicted at once where they are written.
type tenants struct {
	read   func(ctx context.Context, org, app string) (*tenant, error)
	now    func() time.Time
	opts   Options
	life   *background.Life
	tables breakers

	cache *lru.Cache[store.Key, *tenant]
	load  singleflight.Group

	mu  sync.Mutex
	gen map[string]int64 // evictions per organisation, so that an older load is not kept
	all int64            // evictions of every organisation
}

func newTenants(
	read func(ctx context.Context, org, app string) (*tenant, error), now func() time.Time, opts Options, life *background.Life, tables breakers,
) *tenants {
	cache, _ := lru.New[store.Key, *tenant](cacheEntries) // fails only for a size below 1
	return &tenants{read: read, now: now, opts: opts, life: life, tables: tables, cache: cache, gen: map[string]int64{}}
}

func (ts *tenants) evict(org string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.gen[org]++
	for _, key := range ts.cache.Keys() {
		if key.PK == org {
			ts.cache.Remove(key)
		}
	}
}

func (ts *tenants) evictAll() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.all++
	ts.cache.Purge()
}

func (ts *tenants) generation(org string) int64 {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.gen[org] + ts.all
}

// keep caches what was loaded, unless it was evicted since.
func (ts *tenants) keep(t *tenant, gen int64) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if gen == ts.gen[t.org]+ts.all {
		ts.cache.Add(store.Key{PK: t.org, SK: t.app}, t)
	}
}

// get is the configuration, at most ConfigTTL old, or usableFor when the store
// does not answer; an older one comes with the error.
func (ts *tenants) get(ctx context.Context, org, app string) (*tenant, error) {
	now := ts.now()
	old, ok := ts.cache.Get(store.Key{PK: org, SK: app})
	if ok && !now.Before(old.loaded) && (now.Sub(old.loaded) < ts.opts.ConfigTTL || now.Before(old.retry)) {
		return old, nil
	}
	var usage <-chan struct{} // while spend cannot be read, the old configuration will do
	if old != nil {
		usage = ts.tables.usage.Lasting()
	}
	select {
	case r := <-ts.loading(org, app):
		switch {
		case errors.Is(r.Err, ErrNotFound):
			return nil, r.Err
		case r.Err != nil:
			return ts.useOld(old, now, failure("configuration", r.Err))
		}
		return r.Val.(*tenant), nil
	case <-usage:
		return ts.useOld(old, now, told(ledger.Away("configuration", ts.tables.usage)))
	case <-ts.tables.control.Lasting():
		return ts.useOld(old, now, told(ledger.Away("configuration", ts.tables.control)))
	case <-ctx.Done():
		return old, &UnavailableError{Operation: "configuration", Err: ctx.Err()}
	}
}

// loading is the one load of a configuration that is under way, begun if there is
// none. It goes on when its callers leave.
func (ts *tenants) loading(org, app string) <-chan singleflight.Result {
	gen := ts.generation(org) // a load from before an eviction is not waited for
	return ts.load.DoChan(fmt.Sprintf("%s/%s/%d", org, app, gen), func() (any, error) {
		ctx, cancel := context.WithTimeout(ts.life.Context(), ledger.WriteTimeout)
		defer cancel()
		t, err := ts.read(ctx, org, app)
		if err == nil {
			ts.keep(t, gen)
		}
		return t, err
	})
}

// useOld goes on with the last configuration known for a while; after that it
// comes with the error, for what may be answered without a current one.
func (ts *tenants) useOld(old *tenant, now time.Time, err error) (*tenant, error) {
	if old == nil || !unavailable(err) || now.Sub(old.loaded) >= usableFor {
		return old, err
	}
	ts.opts.Logger.Warn("budget: using the last configuration known", "org", old.org, "error", err)
	kept := *old
	kept.retry = now.Add(time.Second)
	ts.replace(old, &kept)
	return &kept, nil
}

func (adm *administration) loadTenant(ctx context.Context, org, app string) (*tenant, error) {
	t := &tenant{org: org, app: app, loaded: adm.now(), options: adm.models}
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
	t.config, t.calendar, t.labels = o.org(org, t.loaded), o.calendar(), o.Labels
	if item := items[appKey(org, app)]; app != "" && item != nil {
		a, err := decodeApp(item)
		if err != nil {
			return nil, err
		}
		t.own, t.known = a.app(app), true
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
	items, err := adm.store.BatchGet(ctx, adm.store.Control, t.priceKeys()...)
	if err != nil {
		return nil, err
	}
	book := priceBook{}
	for _, item := range items {
		rows, err := decodePrices(item)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			book[row.Model] = append(book[row.Model], row)
		}
	}
	return append(priceLayers{{"table", book}}, adm.own...), nil
}

// priceKeys are the items that may have prices of the tenant's models.
func (t *tenant) priceKeys() []store.Key {
	var keys []store.Key
	for _, label := range union(t.labels, t.config.Ordering...) {
		for _, scope := range []Scope{ScopeApp, ScopeOrg} {
			name, _ := splitModel(t.model(policyOf(t.config, t.own, scope), label))
			for _, name := range priceNames(name) {
				if key := priceKey(name); name != "" && !slices.Contains(keys, key) {
					keys = append(keys, key)
				}
			}
		}
	}
	return keys
}

// withOrg is the tenant under a newer configuration of its organisation.
func (t *tenant) withOrg(o orgItem, now time.Time) *tenant {
	newer := *t
	newer.config, newer.calendar, newer.labels = o.org(t.org, now), o.calendar(), o.Labels
	newer.version = newer.config.Version + newer.own.Version
	return &newer
}

// register leaves an item for an app that was never PUT, so that a list of an
// organisation's apps finds all that spend.
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

// replace keeps a changed copy unless the configuration was evicted meanwhile.
func (ts *tenants) replace(old, with *tenant) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	key := store.Key{PK: old.org, SK: old.app}
	if now, ok := ts.cache.Peek(key); ok && now == old {
		ts.cache.Add(key, with)
	}
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
