package ddb

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/aws/smithy-go"
)

// errTimeout is the cause of a context that Bound's timeout ended.
var errTimeout = errors.New("no answer within the request timeout")

// Bound gives one request its timeout, told apart from a caller's own deadline.
func Bound(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, errTimeout)
}

// expired says that Bound's timeout ended the context.
func expired(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errTimeout) }

// requestError is an error of a request with what it means: whoever meets it
// later need not know which context it was made with, or whether the table had
// answered before.
type requestError struct {
	err       error
	diagnosis Diagnosis
}

// Error is the part of the SDK's text that says what happened.
func (e *requestError) Error() string {
	var api smithy.APIError
	var post *url.Error
	if reason := Explain(e.err); reason != "" {
		if errors.As(e.err, &api) {
			reason += " (" + api.ErrorCode() + ")"
		}
		return reason
	}
	switch {
	case e.diagnosis.expired:
		return errTimeout.Error()
	case errors.As(e.err, &api):
		return api.ErrorCode() + ": " + api.ErrorMessage()
	case errors.As(e.err, &post):
		return post.Err.Error()
	}
	return e.err.Error()
}

func (e *requestError) Unwrap() error { return e.err }

// Judged keeps a diagnosis with its error, for every later Classify.
func Judged(err error, d Diagnosis) error {
	if err == nil {
		return nil
	}
	return &requestError{err, d}
}
