// Package problem has the common handling of arguments and errors: it refuses a missing
// context, and finds the wait in an error.
package problem

import (
	"context"
	"iter"
	"reflect"

	"github.com/dynalimit/dynalimit/fault"
)

// CheckContext returns a *fault.ValidationError of package pkg if ctx is nil, else nil. It does not check
// whether ctx has ended.
func CheckContext(ctx context.Context, pkg string) error {
	if ctx == nil {
		return &fault.ValidationError{
			Package: pkg, Field: "ctx", Code: fault.InvalidRequest, Reason: "is nil; pass context.Background() or the request's context",
		}
	}
	return nil
}

// IsNil reports whether the value of an interface is nil, or a nil pointer.
func IsNil(given any) bool {
	v := reflect.ValueOf(given)
	return given == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// ErrorList returns a list that yields err, with a zero value, as its only element.
func ErrorList[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		yield(none, err)
	}
}
