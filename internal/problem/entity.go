package problem

import (
	"errors"

	"github.com/dynalimit/dynalimit/fault"
)

var (
	// ErrNotFound is matched by the error for an entity record that does not exist.
	ErrNotFound = errors.New("dynalimit: not found")
	// ErrExists is matched by the error for an entity that has a record already.
	ErrExists = errors.New("dynalimit: already exists")
)

// Fixable is an error that a call puts right. Its text ends with the call.
type Fixable struct {
	Err error
	Fix fault.Fix
}

// Error returns the text of the error and the call that corrects it.
func (f *Fixable) Error() string { return f.Fix.After(f.Err.Error()) }

// Unwrap returns the error without the call.
func (f *Fixable) Unwrap() error { return f.Err }
