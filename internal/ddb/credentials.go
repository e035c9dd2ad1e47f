package ddb

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/smithy-go"
)

// checkProvider is the advice for requests without credentials.
const checkProvider = "check the provider, role or profile that they come from"

// LacksCredentials reports whether a request was not sent for lack of credentials.
func LacksCredentials(err error) bool {
	return errors.As(err, new(*slowCredentialsError)) || failedForCredentials(err)
}

// failedForCredentials reports whether the request failed before it was signed, because the
// SDK could not get credentials from another service or from the user's provider.
func failedForCredentials(err error) bool {
	var op *smithy.OperationError
	for next := err; errors.As(next, &op); next = op.Err {
		if op.ServiceID != "DynamoDB" {
			return true
		}
	}
	return containsAny(err, "get identity:", "failed to refresh cached credentials", "failed to retrieve credentials", "no EC2 IMDS role found")
}

// classifyCredentials returns the diagnosis of a request that was not sent for lack of credentials. Missing or
// refused credentials are a wrong setting; credentials that cannot be fetched are an outage. If the caller's
// context ended, it is Unsent and no sign of either.
func classifyCredentials(err error, caller context.Context) Diagnosis {
	if callerEnded(caller) {
		return Diagnosis{Verdict: Unsent}
	}
	if containsAny(err, "static credentials are empty", "no identity resolver", "failed to get shared config profile") {
		return Diagnosis{Verdict: Failed, Setting: true}
	}
	status := statusOf(err)
	refused := status >= http.StatusBadRequest && status < http.StatusInternalServerError
	var api smithy.APIError
	if errors.As(err, &api) {
		k, known := codes[api.ErrorCode()]
		refused = known && k.setting || refused && !known
		if k.verdict == Throttled {
			refused = false
		}
	}
	if refused && !containsAny(err, "no EC2 IMDS role found") {
		return Diagnosis{Verdict: Failed, Setting: true}
	}
	return Diagnosis{Verdict: Unsent, Silent: true, expired: timedOut(caller)}
}

// slowCredentialsError is the error of a request that got no credentials within the request timeout.
type slowCredentialsError struct {
	timeout time.Duration
	err     error
}

// Error names the request timeout and the remedy.
func (e *slowCredentialsError) Error() string {
	return fmt.Sprintf("no credentials within the request timeout (%v); %s", e.timeout, checkProvider)
}

// Unwrap returns the SDK's error.
func (e *slowCredentialsError) Unwrap() error { return e.err }
