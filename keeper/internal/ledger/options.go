package ledger

import (
	"log/slog"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/keeper/internal/background"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// Options configures a ledger. All fields are required.
type Options struct {
	Store        *store.Store     // of the usage table
	Breaker      *ddb.Breaker     // of the usage table
	Life         *background.Life // ends with Close
	Now          func() time.Time // the clock
	Logger       *slog.Logger     // logs errors that no caller receives
	Linger       time.Duration    // time a transaction waits for further operations
	AlwaysLinger bool             // wait even without load
	Fresh        time.Duration    // maximal age of a cached sum
	KeepDays     func() int       // days until closed totals expire, see expirySeconds
}
