// Package stack deploys a template with CloudFormation, waits for the result, and deletes the
// stacks that it deployed. A stack's policy protects its tables.
package stack

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/smithy-go"
)

// BusyError means that another operation is changing the stack.
type BusyError struct {
	Stack, Status string
	Err           error
}

// Error names the stack, its status and the command that follows the other operation.
func (e *BusyError) Error() string {
	return fmt.Sprintf("the stack %s is being changed by somebody else (%s): follow it with 'dynalimit stack status %s', and try again when it is done", e.Stack, e.Status, e.Stack)
}

// Unwrap returns CloudFormation's error, or nil.
func (e *BusyError) Unwrap() error { return e.Err }

// apiError returns the error code and the message of an answer of AWS inside err, or "" twice for any other
// error and for nil.
func apiError(err error) (code, message string) {
	var known smithy.APIError
	if !errors.As(err, &known) {
		return "", ""
	}
	return known.ErrorCode(), known.ErrorMessage()
}

// isMissing reports whether err is CloudFormation's answer that the stack does not exist. It is false for nil.
func isMissing(err error) bool {
	code, message := apiError(err)
	return code == "ValidationError" && strings.Contains(message, "does not exist")
}

// requestError converts the error of a request to one with op, the intended action, and with advice. If another
// operation is changing the stack, it returns a *BusyError. It returns nil for nil.
func requestError(op, stack string, err error) error {
	code, message := apiError(err)
	_, status, between := strings.Cut(message, " is in ")
	switch {
	case err == nil:
		return nil
	case code == "ValidationError" && between && strings.Contains(status, "_IN_PROGRESS"):
		status, _, _ = strings.Cut(status, " ")
		return &BusyError{stack, status, err}
	case code == "OperationInProgressException" || code == "OperationInProgress":
		return &BusyError{stack, "an operation is in progress", err}
	case strings.HasPrefix(code, "AccessDenied"):
		return fmt.Errorf("%s: %s; have that permission added, or let CloudFormation act by a role of its own with --role-arn", op, message)
	case code == "Throttling" || code == "ThrottlingException":
		return fmt.Errorf("%s: CloudFormation has too many requests, and went on having them: try again in a minute (%w)", op, err)
	case code != "":
		return fmt.Errorf("%s: %s (%s)", op, message, code)
	}
	return fmt.Errorf("%s: %w; check --region, AWS_ENDPOINT_URL_CLOUDFORMATION and your credentials", op, err)
}

// isRunning reports whether s is a status during an operation, which ends with _IN_PROGRESS.
func isRunning(s types.StackStatus) bool {
	return strings.HasSuffix(string(s), "_IN_PROGRESS")
}
