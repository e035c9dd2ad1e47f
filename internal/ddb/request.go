package ddb

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/aws/smithy-go"
)

// openError is a request that was not sent, for the table does not answer.
type openError struct{ cause error }

func (e *openError) Error() string {
	if e.cause == nil { // it has just come back
		return "it did not answer before"
	}
	return fmt.Sprintf("it did not answer before: %v", e.cause)
}

func (e *openError) Unwrap() error { return e.cause }

// IsOpen reports whether a request was not sent because the table does not answer.
func IsOpen(err error) bool { return errors.As(err, new(*openError)) }

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
