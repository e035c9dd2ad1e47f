package prices

import (
	"fmt"

	"github.com/dynalimit/dynalimit/fault"
)

// maxName is how many bytes the id of a model may have.
const maxName = 256

// invalid returns the *fault.ValidationError of a record's field, with a formatted reason.
func invalid(field, format string, args ...any) error {
	return &fault.ValidationError{Package: "prices", Field: field, Code: fault.InvalidRequest, Reason: fmt.Sprintf(format, args...)}
}

// invalidConfig returns the *fault.ValidationError of a price's field, with a formatted reason.
func invalidConfig(field, format string, args ...any) error {
	return &fault.ValidationError{Package: "prices", Field: field, Code: fault.InvalidConfig, Reason: fmt.Sprintf(format, args...)}
}
