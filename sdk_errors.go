package dynalimit

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/dynalimit/dynalimit/internal/ddb"
)

// verdict is what an answer says about a write.
type verdict = ddb.Verdict

const (
	landed     = ddb.Landed
	refused    = ddb.Refused
	conflicted = ddb.Conflicted
	throttled  = ddb.Throttled
	unsent     = ddb.Unsent
	ambiguous  = ddb.Ambiguous
	failed     = ddb.Failed
)

// withoutRetries are the options of a write that must not be sent again blindly.
var withoutRetries = []func(*dynamodb.Options){ddb.WithoutRetries}

// judge says what an error of one of our requests means for a write.
func judge(err error) verdict { return ddb.Classify(err, context.Background()).Verdict }

// translate turns an error of one of our requests into one of ours: a missing or
// foreign table is a *TableError, a store failure an *UnavailableError, anything
// else is wrapped. A context's own error stays recognisable.
func (r *Repository) translate(op string, err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrTable) {
		return err
	}
	if reason := tableFault(err); reason != "" {
		return &TableError{Table: r.table, Err: err, Reason: reason}
	}
	if judge(err).Unavailable() {
		return r.unavailable(op, err)
	}
	return &storeError{op: op, err: err}
}

// unavailable is the error of a request that the store did not serve.
func (r *Repository) unavailable(op string, err error) *UnavailableError {
	return &UnavailableError{Op: op, Err: err, RetryAfter: r.breaker.RetryAfter()}
}

// tableFault says what is wrong with the table that err was met on, "" for
// nothing.
func tableFault(err error) string {
	var missing *types.ResourceNotFoundException
	if errors.As(err, &missing) {
		return "does not exist here; check the name, region and endpoint, or create it with Repository.CreateTable"
	}
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != "ValidationException" {
		return ""
	}
	for words, reason := range foreignWords {
		if strings.Contains(api.ErrorMessage(), words) {
			return reason
		}
	}
	return ""
}

const (
	foreignKeys  = "has other keys than PK and SK (strings); name another table, or create one with Repository.CreateTable"
	missingIndex = "lacks an index; add those of Repository.TableInput"
)

// foreignWords are DynamoDB's for a table that is not one of ours.
var foreignWords = map[string]string{
	"key element does not match the schema":       foreignKeys,
	"number of conditions on the keys is invalid": foreignKeys,
	"Missing the key":                             foreignKeys,
	"does not have the specified index":           missingIndex,
}

// storeError is a request that DynamoDB refused as wrong, or a setting that is:
// a missing permission, a bug. It never fails open.
type storeError struct {
	op  string
	err error
}

func (e *storeError) Error() string { return "dynalimit: " + e.op + ": " + e.err.Error() }

func (e *storeError) Unwrap() error { return e.err }
