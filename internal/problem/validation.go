// Package problem has the errors that limiter, budget and guard return alike, so that
// one errors.As finds them whichever of the packages they come from.
package problem

import (
	"context"
	"fmt"
	"iter"
	"reflect"
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
	// Reason says what is wrong and what would be right.
	Reason string
}

// Error names the input, what is wrong and what would be right.
func (e *ValidationError) Error() string {
	return fmt.Sprintf("%s: invalid %s: %s", packageOr(e.Package), e.Field, e.Reason)
}

func packageOr(name string) string {
	if name == "" {
		return "dynalimit"
	}
	return name
}

// NoContext is the error of a call of a package without a context, nil with one.
func NoContext(ctx context.Context, pkg string) error {
	if ctx == nil {
		return &ValidationError{
			Package: pkg, Field: "ctx", Code: InvalidRequest, Reason: "is nil; pass context.Background() or the request's context",
		}
	}
	return nil
}

// IsNil reports whether what a caller gave for an interface is nil, or a nil pointer
// in it.
func IsNil(given any) bool {
	v := reflect.ValueOf(given)
	return given == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// List is a list that cannot be read: it yields the error alone.
func List[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		yield(none, err)
	}
}
