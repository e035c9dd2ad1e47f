package ddb

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/aws/smithy-go"
)

// errTimeout is the cause of a context that Bound's timeout ended.
var errTimeout = errors.New("no answer within the request timeout")

// Bound gives one request its timeout, which can be told apart from a caller's own
// deadline.
func Bound(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, errTimeout)
}

// expired says that Bound's timeout ended the context.
func expired(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errTimeout) }

// requestError is an error of a request with what it means: whoever meets it
// later need not know which context it was made with, or whether the table had
// answered before.
type requestError struct{ diagnosis Diagnosis }

// Error is the part of the SDK's text that says what happened.
func (e *requestError) Error() string {
	err := e.diagnosis.Err
	var api smithy.APIError
	var post *url.Error
	if reason := Explain(err); reason != "" && !IsOpen(err) {
		if errors.As(err, &api) {
			reason += " (" + api.ErrorCode() + ")"
		}
		return reason
	}
	switch {
	case IsOpen(err):
		return err.Error()
	case e.diagnosis.expired:
		return errTimeout.Error()
	case errors.As(err, &api):
		return api.ErrorCode() + ": " + api.ErrorMessage()
	case errors.As(err, &post):
		return post.Err.Error()
	}
	return err.Error()
}

func (e *requestError) Unwrap() error { return e.diagnosis.Err }

// Worded is the error of a request of a service of AWS in this package's words, where it has
// some: for requests of DynamoDB, and for what keeps any request from being sent.
func Worded(ctx context.Context, service string, err error) error {
	if err == nil || !strings.HasPrefix(service, "DynamoDB") && !expired(ctx) && !fromCredentials(err) {
		return err
	}
	return withDiagnosis(Classify(err, ctx))
}

// withDiagnosis is the error of a diagnosis, which Classify recognises later.
func withDiagnosis(d Diagnosis) error {
	if d.Err == nil {
		return nil
	}
	return &requestError{d}
}
