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
	own      priceLayers       // options and catalog
	models   map[string]string // Options.Models
	anyApp   bool              // Options.AllowUnknownApps
	tenants  *tenants          // evicted where they are written
	trail    *trail            // makes the events of changes
	keepDays int               // Options.KeepDays
}

func newAdministration(s *store.Store, now func() time.Time, own priceLayers, opts Options, life *background.Life, tables breakers) *administration {
	a := &administration{store: s, now: now, own: own, models: opts.Models, anyApp: opts.AllowUnknownApps, trail: newTrail(opts.AuditRetention), keepDays: opts.KeepDays}
	a.tenants = newTenants(a.loadTenant, now, opts, life, tables)
	return a
}
