package fault

import (
	"errors"
	"fmt"
)

// ErrVersion matches a *VersionError.
var ErrVersion = errors.New("dynalimit: the table's layout needs another version of dynalimit")

// VersionError means that the table has a layout, or a kind of limit, which this version of
// dynalimit does not know. Nothing was written. It is not an outage: no policy admits a call
// because of it.
type VersionError struct {
	// Table is the name that was given to dynalimit.NewRepository.
	Table string
	// Kind is the limit with an unknown kind, or the attribute that shows it; "" if the error is
	// about the layout. Then Schema and ClientMin are not set.
	Kind string
	// Schema is the version of the table's layout, as its version record has it.
	Schema string
	// ClientMin is the oldest client that the record allows, "" for any.
	ClientMin string
	// KnownSchema and Client are this version's: the layout that it knows, and the version that it
	// compares with ClientMin.
	KnownSchema, Client string
	// Reason has the problem and its fix.
	Reason string
}

// Error returns a text with the table, both versions of the layout and the fix. For an unknown kind of limit it
// has only the table and the reason.
func (e *VersionError) Error() string {
	if e.Kind != "" {
		return fmt.Sprintf("dynalimit: table %q: %s", e.Table, e.Reason)
	}
	return fmt.Sprintf("dynalimit: table %q has layout %q (its clients: %q or later), this client knows layout %q (as client %q): %s",
		e.Table, e.Schema, e.ClientMin, e.KnownSchema, e.Client, e.Reason)
}

// Is reports whether target is ErrVersion, for errors.Is.
func (e *VersionError) Is(target error) bool { return target == ErrVersion }
