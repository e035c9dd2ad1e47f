package budget

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// tenantReader reads the configuration of an app, or of an organisation alone, from the control
// table.
type tenantReader struct {
	store    *store.Store
	now      func() time.Time
	opts     Options
	prices   *priceTable
	settings *sharedSettings
}

// readTenant reads, uncached, the configuration of an app, or of the organisation if app is empty, with
// override and prices. It adopts the table's settings. A missing or deleted one is ErrNotFound, except an
// unknown app under Options.AllowUnknownApps.
func (r tenantReader) readTenant(ctx context.Context, org, app string) (*tenant, error) {
	t := &tenant{org: org, app: app, loaded: r.now()}
	keys := []store.Key{settingsKey, orgKey(org)}
	if app != "" {
		keys = append(keys, appKey(org, app), overrideKey(org, app))
	}
	items, err := r.store.BatchGet(ctx, r.store.Control, keys...)
	if err != nil {
		return nil, err
	}
	o, err := decodeOrg(org, items[orgKey(org)])
	if err != nil {
		return nil, err
	}
	settings, err := r.settings.adoptStored(ctx, items[settingsKey])
	if err != nil {
		return nil, err
	}
	t.options, t.keepDays = settings.Models, settings.KeepDays
	t = t.withOrg(o)
	item := items[appKey(org, app)]
	if app != "" && item == nil && !r.opts.AllowUnknownApps {
		return nil, &problem.Fixable{Err: notFound("app %q of organisation %s; create it", app, org), Fix: fault.PutApp}
	}
	if app != "" && item != nil {
		a, err := decodeApp(item)
		if err != nil {
			return nil, err
		}
		if a.isDeleted() {
			return nil, appDeletedError(org, app)
		}
		if a.unsupported != "" {
			return nil, appEnforcedError(app, a.unsupported)
		}
		t.own, t.known, t.past.app = a.asAppWithID(app), true, a.Past
	}
	if item := items[overrideKey(org, app)]; item != nil {
		if t.override, err = decodeOverride(item); err != nil {
			return nil, err
		}
	}
	t.version = t.config.Version + t.own.Version
	t.prices, err = r.tablePrices(ctx, t)
	return t, err
}

// tablePrices reads the stored prices of the tenant's models and returns them as the first layer of prices,
// before those of options and catalog.
func (r tenantReader) tablePrices(ctx context.Context, t *tenant) (priceLayers, error) {
	book, err := r.prices.storedPrices(ctx, t.modelsToPrice())
	if err != nil {
		return nil, err
	}
	return append(priceLayers{{layerTable, book}}, r.prices.own...), nil
}
