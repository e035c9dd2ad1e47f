package budget

import (
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/background"
	"github.com/dynalimit/dynalimit/budget/internal/ledger"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// charges writes what calls cost and hold: records, holds and adjustments, at once or
// from the spool.
type charges struct {
	store    *store.Store
	ledger   *ledger.Ledger
	admin    *administration
	standing *standing // what a quota has room for, and the receipts
	tenants  *tenants
	spool    *spool // nil: none
	opts     Options
	now      func() time.Time
	life     *background.Life
}
