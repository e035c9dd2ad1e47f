package table

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

// VerdictOf returns the outcome of a write from the error of its request; nil means Landed.
func VerdictOf(err error) ddb.Verdict { return ddb.Classify(err, context.Background()).Verdict }

// Failure turns an error of a request into one that users see. It returns a *fault.TableError for a missing or
// foreign table, a *fault.UnavailableError for a failure of the store, else a wrapped error. nil and errors of
// these types stay. The error of a context can still be recognised.
func (t *Table) Failure(op string, err error) error {
	if err == nil || errors.Is(err, fault.ErrUnavailable) || errors.Is(err, fault.ErrTable) {
		return err
	}
	if reason, fix := wrongTable(err); reason != "" {
		return &fault.TableError{Table: t.Name, Err: err, Reason: reason, Fix: fix}
	}
	if v := VerdictOf(err); v.Unavailable() {
		return t.Unavailable(op, err)
	}
	return &requestError{op: op, err: err}
}

// Unavailable returns the error of a request that the store did not serve, with its cause err. It has the time
// until the table is probed again, if known.
func (t *Table) Unavailable(op string, err error) *fault.UnavailableError {
	u := &fault.UnavailableError{Op: op, Err: err}
	if t.RetryAfter != nil {
		u.RetryAfter = t.RetryAfter()
	}
	return u
}

// wrongTable returns a text about the problem with the table of a failed request, and the call that fixes it,
// if there is one. It is "" for another error. The table is missing, too large, without an index, or has other
// keys.
func wrongTable(err error) (string, fault.Fix) {
	var missing *types.ResourceNotFoundException
	if errors.As(err, &missing) {
		return "does not exist here; check the name, region and endpoint, or create it", fault.CreateTable
	}
	if isTooLarge(err) {
		return "would hold more than the 400 KB that DynamoDB takes in one item, which lists the resources with limits; delete limits of resources that nobody uses any more", ""
	}
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != "ValidationException" {
		return "", ""
	}
	message := api.ErrorMessage()
	has := func(words string) bool { return strings.Contains(message, words) }
	switch {
	case slices.ContainsFunc(foreignWords, has):
		return "has other keys than PK and SK (strings); name another table, or create one", fault.CreateTable
	case has("does not have the specified index"):
		return "lacks an index; 'dynalimit doctor' prints the command of AWS that adds it, and Repository.TableInput describes it", ""
	}
	return "", ""
}

// isTooLarge reports whether a transaction was refused because an item would exceed 400 KB. Only the lists of
// resources with limits can grow so large.
func isTooLarge(err error) bool {
	canceled, ok := errors.AsType[*types.TransactionCanceledException](err)
	return ok && slices.ContainsFunc(canceled.CancellationReasons, func(r types.CancellationReason) bool {
		return strings.Contains(aws.ToString(r.Message), "exceeded the maximum allowed size")
	})
}

// foreignWords are DynamoDB's for a table with other keys than ours.
var foreignWords = []string{"key element does not match the schema", "number of conditions on the keys is invalid", "Missing the key"}

// requestError is a request that DynamoDB refused because it, or a setting, is wrong: a
// missing permission, or a bug. It never fails open.
type requestError struct {
	op  string
	err error
}

// Error names the operation and the refusal.
func (e *requestError) Error() string { return "dynalimit: " + e.op + ": " + e.err.Error() }

// Unwrap returns the request's error.
func (e *requestError) Unwrap() error { return e.err }
