package dynalimit

import (
	"errors"

	"github.com/dynalimit/dynalimit/internal/ddb"
)

// tableState is the health of a table as its breaker knows it.
type tableState struct{ *ddb.Breaker }

func (t tableState) Open() bool   { return t.State().Open }
func (t tableState) Cause() error { return t.State().Cause }

// errPatience ends a call that used up its time for the store.
var errPatience = errors.New("no answer within Options.Timeout")
