// Package fault has the common errors of limiter, administration, budget and guard, so
// that one errors.As finds them for all of these packages. Each has the problem
// and its fix; RetryAfter of the package dynalimit returns the wait until a retry.
package fault

import (
	"fmt"
)

// Code is the kind of a ValidationError, for programs: an HTTP API, for one.
type Code string

// The codes.
const (
	InvalidRequest    Code = "INVALID_REQUEST"     // an argument, an option, a record, or limits
	InvalidConfig     Code = "INVALID_CONFIG"      // an organisation's or app's configuration, or a price
	InvalidModelLabel Code = "INVALID_MODEL_LABEL" // a label outside the app's ordering
)

// String returns the code.
func (c Code) String() string { return string(c) }

// ValidationError says which input is wrong.
type ValidationError struct {
	// Package is the package that refuses, such as "dynalimit", "budget" or "llm"; empty is
	// "dynalimit".
	Package string
	// Field names the input, for example "amounts[tpm]" or "tokens.input".
	Field string
	// Code is the kind of the error.
	Code Code
	// Reason has the problem and its fix.
	Reason string
	// Fix is the call that puts it right, which Error appends to the reason; empty if other
	// input does.
	Fix Fix
}

// Error returns a text with the package, the wrong field, the problem and the fix.
func (e *ValidationError) Error() string {
	return fmt.Sprintf("%s: invalid %s: %s", packageOr(e.Package), e.Field, e.Fix.After(e.Reason))
}

// packageOr returns the package's name for a message, "dynalimit" if it is empty.
func packageOr(name string) string {
	if name == "" {
		return "dynalimit"
	}
	return name
}
