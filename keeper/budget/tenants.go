package budget

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/cache"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/keeper/internal/background"
	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

const cacheEntries = 10_000

// usableFor is how long a configuration may be used while no newer one can be read.
const usableFor = 5 * time.Minute

// tenantKey identifies the configuration of an app, or of an organisation alone.
type tenantKey struct{ org, app string }

// String returns the key as text. No organisation's id contains '/'.
func (k tenantKey) String() string { return k.org + "/" + k.app }

// tenants caches configurations for Options.ConfigTTL, with one read at a time per app. A write
// in this process evicts the configuration. While no newer one can be read, it stays usable for
// usableFor in all.
type tenants struct {
	reader  tenantReader
	life    *background.Life
	loading *cache.Loading[tenantKey, *tenant]
}

// newTenants makes the cache of configurations, which reads through r. A configuration is read again after
// ConfigTTL. While the store does not answer, it may be used until it is usableFor old.
func newTenants(r tenantReader, life *background.Life, tables breakers) *tenants {
	loading, _ := cache.NewLoading[tenantKey](cacheEntries, cache.Options[*tenant]{ // fails only for a size below 1
		Now: r.now, TTL: r.opts.ConfigTTL, Ahead: r.opts.ConfigTTL / 5, Spread: r.opts.ConfigTTL / 5, Grace: max(0, usableFor-r.opts.ConfigTTL), Wait: true,
		Leave:    tables.leaveChannel,
		Definite: func(err error) bool { return !isUnavailable(err) },
	})
	return &tenants{reader: r, life: life, loading: loading}
}

// leaveChannel returns a channel that closes when it is useless to wait for a configuration because a table
// does not answer, and a function that returns the error for that. held is true if a cached configuration is
// usable; then an outage of the usage table is enough.
func (b breakers) leaveChannel(held bool) (gone <-chan struct{}, why func() error) {
	lost := b.control
	if held && b.usage.State().Open {
		lost = b.usage
	}
	return lost.Lasting(), func() error { return ledger.OutageError("configuration", lost) }
}

// get returns the configuration, at most ConfigTTL old, or usableFor if the store does not answer. With an
// error it returns the last known one, however old, for calls that can do without a current one, or else nil.
func (ts *tenants) get(ctx context.Context, org, app string) (*tenant, error) {
	key := tenantKey{org, app}
	t, err := ts.loading.Get(ctx, key, ts.loader(key))
	if err == nil {
		return t, nil
	}
	if ctx.Err() != nil {
		err = &fault.UnavailableError{Package: pkg, Op: "configuration", Err: ctx.Err()}
	}
	return ts.loading.Last(key), err
}

// readWithoutCaching returns the configuration, at most ConfigTTL old, from the cache or the store. It never
// changes the cache, so a sweep evicts no other configuration.
func (ts *tenants) readWithoutCaching(ctx context.Context, org, app string) (*tenant, error) {
	if t := ts.loading.Last(tenantKey{org, app}); t != nil && ts.reader.now().Sub(t.loaded) < ts.reader.opts.ConfigTTL {
		return t, nil
	}
	t, err := ts.reader.readTenant(ctx, org, app)
	return t, wrapFailure("configuration", err)
}

// getCached returns the configuration if it is cached and fresh, else nil. It never waits; if the configuration
// is near its end, a background read replaces it.
func (ts *tenants) getCached(ctx context.Context, org, app string) *tenant {
	key := tenantKey{org, app}
	return ts.loading.Ready(ctx, key, ts.loader(key))
}

// loader returns the function with which the cache reads the configuration of a key.
func (ts *tenants) loader(key tenantKey) cache.Load[*tenant] {
	return func(context.Context) (*tenant, error) { return ts.load(key) }
}

// load reads a configuration under the keeper's context, so that it continues when its callers
// leave. It logs when the last known one stays in use.
func (ts *tenants) load(key tenantKey) (*tenant, error) {
	ctx, cancel := context.WithTimeout(ts.life.Context(), ledger.WriteTimeout)
	defer cancel()
	t, err := ts.reader.readTenant(ctx, key.org, key.app)
	if err == nil {
		return t, nil
	}
	err = wrapFailure("configuration", err)
	if last := ts.loading.Last(key); last != nil && isUnavailable(err) {
		ts.reader.opts.Logger.Warn("budget: the configuration cannot be loaded; the last one known is used for at most five minutes",
			"org", key.org, "app", key.app, "loaded", last.loaded, "error", err)
	}
	return nil, err
}

// replaceCached stores a changed copy of a configuration unless it was evicted meanwhile.
func (ts *tenants) replaceCached(old, with *tenant) {
	ts.loading.Replace(tenantKey{old.org, old.app}, old, with)
}

// evict drops the configurations of an organisation and its apps.
func (ts *tenants) evict(org string) {
	ts.loading.Evict(func(k tenantKey) bool { return k.org == org })
}

// evictAll drops all configurations.
func (ts *tenants) evictAll() { ts.loading.Evict(func(tenantKey) bool { return true }) }

// registerApp writes an item for an app without PutApp, which Options.AllowUnknownApps permits, and updates the
// cached configuration. So the list of the organisation's apps contains every app with spend. It does nothing
// if the app has an item or t is a whole organisation.
func (ts *tenants) registerApp(ctx context.Context, t *tenant) error {
	if t.known || t.app == "" {
		return nil
	}
	now := ts.reader.now()
	expression, names, values, err := newUpdateExpression(appItem{configItem: newConfigItem(App{}, now, now, 0, "")})
	if err != nil {
		return err
	}
	names["#pk"] = "PK"
	err = store.Retry(ctx, func() error {
		_, err := ts.reader.store.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &ts.reader.store.Control, Key: appKey(t.org, t.app).Attributes(), UpdateExpression: &expression,
			ConditionExpression: aws.String(store.IfAbsent), ExpressionAttributeNames: names, ExpressionAttributeValues: values,
		}, store.Once)
		return err
	})
	if err != nil && store.Diagnose(err) != ddb.Refused {
		return wrapFailure("app", err)
	}
	registered := *t
	registered.known = true
	ts.replaceCached(t, &registered)
	return nil
}
