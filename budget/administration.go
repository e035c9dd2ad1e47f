package budget

import (
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/background"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// administration keeps organisations, apps, prices and overrides in the control
// table, and the events of their changes.
type administration struct {
	store    *store.Store
	now      func() time.Time
	desk     *desk // writes what changes
	notes    notes // of deletions
	prices   *priceTable
	models   map[string]string // Options.Models
	anyApp   bool              // Options.AllowUnknownApps
	tenants  *tenants          // evicted where they are written
	keepDays int               // Options.KeepDays
}

func newAdministration(s *store.Store, now func() time.Time, own priceLayers, opts Options, life *background.Life, tables breakers) *administration {
	a := &administration{store: s, now: now, desk: newDesk(s, now, opts.AuditRetention), notes: notes{s}, models: opts.Models, anyApp: opts.AllowUnknownApps, keepDays: opts.KeepDays}
	a.prices = &priceTable{desk: a.desk, own: own, evict: func() { a.tenants.evictAll() }}
	a.tenants = newTenants(a.loadTenant, now, opts, life, tables)
	return a
}
