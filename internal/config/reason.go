package config

import (
	"errors"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/sources"
)

// Invalid is the reason for refusing a configuration, or a call under it.
type Invalid struct {
	// Field names the input, such as "stored limits of source system".
	Field string
	// Reason describes the error and the way to correct it.
	Reason string
	// Fix is the remedy, if there is a known one.
	Fix fault.Fix
}

// Error names the field and the reason.
func (e *Invalid) Error() string { return "invalid " + e.Field + ": " + e.Reason }

// ErrOutOfTime is the reason of a call that was not answered within its time.
var ErrOutOfTime = errors.New("no answer within Options.Timeout")

// StoredField returns the field name in errors about the stored limits of a source.
func StoredField(source sources.Source) string { return "stored limits of source " + string(source) }

// isDefiniteError reports whether the error of a read is the table's answer: the table, or an item of it,
// cannot be used. An older configuration then does not stand in for it, and leaves the cache.
func isDefiniteError(err error) bool {
	_, malformed := errors.AsType[*Malformed](err)
	_, invalid := errors.AsType[*Invalid](err)
	_, refused := errors.AsType[*fault.ValidationError](err)
	return malformed || invalid || refused || errors.Is(err, fault.ErrVersion)
}

// isUnanswered reports whether the store did not serve the read, so that an older configuration may stand in
// for it.
func isUnanswered(err error) bool { return errors.Is(err, fault.ErrUnavailable) }
