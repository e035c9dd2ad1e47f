package admin

import (
	"errors"
	"fmt"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// milli is the number of millitokens in a token.
const milli = 1000

// invalid returns a *ValidationError for an argument, with the code InvalidRequest and a formatted reason.
func invalid(field, format string, args ...any) *dynalimit.ValidationError {
	return &dynalimit.ValidationError{Package: "dynalimit", Field: field, Code: fault.InvalidRequest, Reason: fmt.Sprintf(format, args...)}
}

// withFix sets the fix of e, the call that corrects its cause, in place and returns e.
func withFix(e *dynalimit.ValidationError, fix fault.Fix) *dynalimit.ValidationError {
	e.Fix = fix
	return e
}

// withinField returns a copy of a *ValidationError with prefix before its field. It returns any other error
// unchanged.
func withinField(prefix string, err error) error {
	if v, ok := errors.AsType[*dynalimit.ValidationError](err); ok {
		inner := *v
		inner.Field = prefix + v.Field
		return &inner
	}
	return err
}

// isValidation reports whether err is a *ValidationError.
func isValidation(err error) bool {
	_, ok := errors.AsType[*dynalimit.ValidationError](err)
	return ok
}

// checkEntityID returns a *ValidationError for field unless id is a valid entity id.
func checkEntityID(field, id string) error {
	if reason := schema.EntityRule.Check(id); reason != "" {
		return invalid(field, "%s", reason)
	}
	return nil
}

// checkResource returns a *ValidationError unless resource is a valid name of a resource.
func checkResource(resource string) error {
	if reason := schema.ResourceRule.Check(resource); reason != "" {
		return invalid("resource", "%s", reason)
	}
	return nil
}

// floorDiv returns a/b rounded down, also if a is negative, as in a bucket in debt.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
