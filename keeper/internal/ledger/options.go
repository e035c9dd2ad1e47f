package ledger

import (
	"log/slog"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/keeper/internal/background"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// Options are what a ledger works with; all are needed.
type Options struct {
	Store        *store.Store     // of the usage table
	Breaker      *ddb.Breaker     // of the usage table
	Life         *background.Life // ends with Close
	Now          func() time.Time // the clock
	Logger       *slog.Logger     // gets what no caller is told
	Linger       time.Duration    // a transaction's wait for company
	AlwaysLinger bool             // it waits without load, too
	Fresh        time.Duration    // how old a known sum may be
	KeepDays     func() int       // closed totals are kept so long, see expires
}
