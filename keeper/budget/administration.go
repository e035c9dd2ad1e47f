package budget

import (
	"time"

	"github.com/dynalimit/dynalimit/keeper/internal/background"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// administration manages organisations, apps, prices and overrides in the control table, with
// the audit events of their changes.
type administration struct {
	store   *store.Store
	now     func() time.Time
	desk    *desk // writes changes
	items   items
	prices  *priceTable
	tenants *tenants // writers evict from it
	// settings caches the settings item of the table.
	settings *sharedSettings
}

// newAdministration returns the parts that read and change the configuration, with an empty cache of tenants.
// It sends no request. own are the keeper's own prices; tables tells the cache when a table does not answer.
func newAdministration(s *store.Store, now func() time.Time, own priceLayers, opts Options, life *background.Life, tables breakers) *administration {
	a := &administration{store: s, now: now, desk: newDesk(s.WithControlTimeout(), now, opts.AuditRetention), items: items{s}, settings: &sharedSettings{store: s, own: opts, named: opts.namedDays}}
	a.prices = &priceTable{desk: a.desk, own: own, evict: func() { a.tenants.evictAll() }}
	a.tenants = newTenants(tenantReader{s, now, opts, a.prices, a.settings}, life, tables)
	return a
}
