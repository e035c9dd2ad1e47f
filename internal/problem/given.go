// Package problem has the common handling of arguments and errors: it refuses a missing
// context, and finds the wait in an error.
package problem

import (
	"context"
	"iter"
	"reflect"

	"github.com/dynalimit/dynalimit/fault"
)

// NoContext is the error of a call of a package without a context, nil with one.
func NoContext(ctx context.Context, pkg string) error {
	if ctx == nil {
		return &fault.ValidationError{
			Package: pkg, Field: "ctx", Code: fault.InvalidRequest, Reason: "is nil; pass context.Background() or the request's context",
		}
	}
	return nil
}

// IsNil reports whether a caller's value for an interface is nil, or a nil pointer
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
