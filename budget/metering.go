package budget

import (
	"fmt"

	"github.com/dynalimit/dynalimit/budget/internal/ledger"
)

// counterOnly says that a record is counted without an item of its own.
func (c *charges) counterOnly() bool {
	return c.opts.Metering == MeteringWindow || c.opts.Metering == MeteringNone
}

// conflictError says what a request id stands for already.
func conflictError(stored ledger.Stored) error {
	if stored.Day == "" {
		return fmt.Errorf("%w: the request id was used with another payload", ErrConflict)
	}
	return fmt.Errorf("%w: the request id was used with another payload, on day %s for label %q", ErrConflict, stored.Day, stored.Label)
}
