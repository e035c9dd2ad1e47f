package dynalimit

import (
	"errors"

	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/layout"
)

// kindError returns the *fault.VersionError of levels that have a limit of an unknown kind; any
// other error is as it was.
func kindError(l *layout.Layout, err error) error {
	if wrong, ok := errors.AsType[*config.Malformed](err); ok {
		return l.KindError(storedField(wrong.Level), err)
	}
	return err
}
