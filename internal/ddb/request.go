package ddb

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/aws/smithy-go"
)

// openError is the error of a request that was not sent because the table does not answer.
type openError struct{ cause error }

// Error says that the table did not answer before, and names the failure that opened the breaker, if it is
// still open.
func (e *openError) Error() string {
	if e.cause == nil { // it has just come back
		return "it did not answer before"
	}
	return fmt.Sprintf("it did not answer before: %v", e.cause)
}

// Unwrap returns the failure that opened the breaker.
func (e *openError) Unwrap() error { return e.cause }

// IsOpen reports whether a request was not sent because the table does not answer.
func IsOpen(err error) bool { return errors.As(err, new(*openError)) }

// requestError is an error of a request together with its diagnosis. Later code needs neither the context of
// the request nor the history of the table to classify it.
type requestError struct{ diagnosis Diagnosis }

// Error returns the reason in this package's words if Explain has some, with DynamoDB's error code. Otherwise
// it returns the essential part of the SDK's text.
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
	case errors.Is(err, errHeldBack):
		return errHeldBack.Error()
	case e.diagnosis.expired:
		return errTimeout.Error()
	case errors.As(err, &api):
		return api.ErrorCode() + ": " + api.ErrorMessage() + throttlingReasons(err)
	case errors.As(err, &post):
		return post.Err.Error()
	}
	return err.Error()
}

// Unwrap returns the SDK's error.
func (e *requestError) Unwrap() error { return e.diagnosis.Err }

// RewordError returns the error of a request to DynamoDB in this package's words, with its diagnosis for
// Classify. It does so too for errors that keep a request to any service of AWS from being sent. Any other
// error, and nil, stays.
func RewordError(ctx context.Context, service string, err error) error {
	if err == nil || !strings.HasPrefix(service, "DynamoDB") && !timedOut(ctx) && !failedForCredentials(err) {
		return err
	}
	return withDiagnosis(Classify(err, ctx))
}

// withDiagnosis returns the diagnosis's error in one that carries the diagnosis, so that Classify returns it
// later. It returns nil if the diagnosis has no error.
func withDiagnosis(d Diagnosis) error {
	if d.Err == nil {
		return nil
	}
	return &requestError{d}
}
