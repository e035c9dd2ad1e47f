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

// String returns the organisation's id, a slash and the app's id. The text is unique, because an organisation's
// id has no slash.
func (k tenantKey) String() string { return k.org + "/" + k.app }

// tenants caches configurations for Options.ConfigTTL, with one read at a time per app. A write
// in this process evicts the configuration. While no newer one can be read, it stays usable for
// usableFor in all.
type tenants struct {
	reader  tenantReader
	life    *background.Life
	loading *cache.Loading[tenantKey, *tenant]
}

// newTenants returns an empty cache of configurations that reads through r. It reads an entry again after
// ConfigTTL, or in the background shortly before; during an outage it serves until usableFor. It sends no
// request.
func newTenants(r tenantReader, life *background.Life, tables breakers) *tenants {
	loading, _ := cache.NewLoading[tenantKey](cacheEntries, cache.Options[*tenant]{ // fails only for a size below 1
		Now: r.now, TTL: r.opts.ConfigTTL, Ahead: r.opts.ConfigTTL / 5, Spread: r.opts.ConfigTTL / 5, Grace: max(0, usableFor-r.opts.ConfigTTL), Wait: true,
		Leave:    tables.outageSignal,
		Definite: func(err error) bool { return !isUnavailable(err) },
	})
	return &tenants{reader: r, life: life, loading: loading}
}

// outageSignal returns a channel that closes once the control table is silent too long for callers to wait, and
// a function that returns the error. If held (a cached configuration serves) and the usage table is open, both
// are about the usage table.
func (b breakers) outageSignal(held bool) (gone <-chan struct{}, why func() error) {
	lost := b.control
	if held && b.usage.State().Open {
		lost = b.usage
	}
	return lost.Lasting(), func() error { return ledger.OutageError("configuration", lost) }
}

// get returns a configuration from the cache or the store, at most ConfigTTL old, or usableFor during an
// outage. With an error it also returns the last known one, however old, or nil. Only err says whether it is
// current.
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

// readWithoutCaching returns a configuration at most ConfigTTL old, from the cache or by a read. It does not
// cache that read and evicts nothing, so a sweep leaves the cache alone.
func (ts *tenants) readWithoutCaching(ctx context.Context, org, app string) (*tenant, error) {
	if t := ts.loading.Last(tenantKey{org, app}); t != nil && ts.reader.now().Sub(t.loaded) < ts.reader.opts.ConfigTTL {
		return t, nil
	}
	t, err := ts.reader.readTenant(ctx, org, app)
	return t, wrapFailure("configuration", err)
}

// getCached returns the cached configuration if it is fresh, which counts as a hit, else nil. It never waits.
// If the configuration is near its end, it starts a read in the background.
func (ts *tenants) getCached(ctx context.Context, org, app string) *tenant {
	key := tenantKey{org, app}
	return ts.loading.Ready(ctx, key, ts.loader(key))
}

// loader returns the function by which the cache reads the configuration of key. It ignores its context, see
// load.
func (ts *tenants) loader(key tenantKey) cache.Load[*tenant] {
	return func(context.Context) (*tenant, error) { return ts.load(key) }
}

// load reads a configuration from the store within WriteTimeout, also if its callers leave. It caches nothing
// itself. If the store does not answer and an earlier configuration is cached, it logs that this one stays in
// use.
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

// replaceCached puts the configuration with in place of old in the cache. If old is not the cached one any
// more, it does nothing.
func (ts *tenants) replaceCached(old, with *tenant) {
	ts.loading.Replace(tenantKey{old.org, old.app}, old, with)
}

// evict drops the cached configurations of an organisation and its apps, and reads in flight, so that the next
// call reads them from the store.
func (ts *tenants) evict(org string) {
	ts.loading.Evict(func(k tenantKey) bool { return k.org == org })
}

// evictAll drops all cached configurations and reads in flight, so that the next calls read them from the
// store.
func (ts *tenants) evictAll() { ts.loading.Evict(func(tenantKey) bool { return true }) }

// registerApp stores an empty item for an app without PutApp, so that lists of apps include it, and marks the
// cached t as known. It does nothing if t is known or a whole organisation.
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
