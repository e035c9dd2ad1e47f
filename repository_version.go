package dynalimit

import (
	"errors"

	"github.com/dynalimit/dynalimit/internal/config"
)

// kindError returns the *VersionError of levels that have a limit of an unknown kind; any
// other error is as it was.
func (r *Repository) kindError(err error) error {
	if wrong, ok := errors.AsType[*config.Malformed](err); ok {
		return r.layout.KindError(storedField(wrong.Level), err)
	}
	return err
}
