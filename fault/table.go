package fault

import (
	"errors"
	"fmt"
)

// ErrTable matches a *TableError.
var ErrTable = errors.New("dynalimit: table missing or unusable")

// TableError says that the table is missing or is not one of ours.
type TableError struct {
	// Table is the name that was given to NewRepository.
	Table string
	// Reason has the problem and its fix.
	Reason string
	// Fix is the call that makes it right, which Error appends to the reason; empty if no call
	// does.
	Fix Fix
	// Err is the SDK's error.
	Err error
}

// Error returns a text with the table, the problem and its fix.
func (e *TableError) Error() string {
	return fmt.Sprintf("dynalimit: table %q: %s", e.Table, e.Fix.After(e.Reason))
}

// Unwrap returns the SDK's error, Err.
func (e *TableError) Unwrap() error { return e.Err }

// Is reports whether target is ErrTable, for errors.Is.
func (e *TableError) Is(target error) bool { return target == ErrTable }
