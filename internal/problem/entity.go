package problem

import "errors"

var (
	// ErrNotFound is matched by the error for an entity record that does not exist.
	ErrNotFound = errors.New("dynalimit: not found")
	// ErrExists is matched by the error for an entity that has a record already.
	ErrExists = errors.New("dynalimit: already exists")
)
