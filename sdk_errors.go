package dynalimit

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// verdict is what an answer says about a write.
type verdict uint8

const (
	// landed: the write was applied.
	landed verdict = iota
	// refused: its condition failed; nothing was applied.
	refused
	// conflicted: a transaction was in the way; nothing was applied.
	conflicted
	// throttled: DynamoDB had no capacity, or could not be reached at all;
	// nothing was applied.
	throttled
	// ambiguous: no answer came, so the write may have been applied.
	ambiguous
	// failed: the request was refused as wrong; nothing was applied.
	failed
)

// String names the outcome for the observer.
func (v verdict) String() string {
	return [...]string{"landed", "refused", "conflicted", "throttled", "unknown", "failed"}[v]
}

// judge says what an SDK error means for a write, and returns the item of a
// failed condition.
func judge(err error) (verdict, schema.Item) {
	if err == nil {
		return landed, nil
	}
	var condition *types.ConditionalCheckFailedException
	if errors.As(err, &condition) {
		return refused, condition.Item
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		return judgeCode(api.ErrorCode(), statusOf(err)), nil
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return throttled, nil // never sent
	}
	var sent *smithyhttp.RequestSendError
	var garbled *smithy.DeserializationError
	var timeout net.Error
	if errors.As(err, &sent) || errors.As(err, &garbled) || errors.As(err, &timeout) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return ambiguous, nil
	}
	return failed, nil
}

func judgeCode(code string, status int) verdict {
	switch code {
	case "TransactionConflictException", "TransactionInProgressException":
		return conflicted
	case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded", "Throttling":
		return throttled
	}
	if status >= 500 || code == "InternalServerError" || code == "ServiceUnavailable" {
		return ambiguous
	}
	return failed
}

func statusOf(err error) int {
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) {
		return response.HTTPStatusCode()
	}
	return 0
}

// judgeTransaction says what an SDK error means for a transaction, and returns
// the item of each failed condition by its place. A condition decides; a
// conflict or throttling alone is retried.
func judgeTransaction(err error) (verdict, map[int]schema.Item) {
	var canceled *types.TransactionCanceledException
	if !errors.As(err, &canceled) {
		v, _ := judge(err)
		return v, nil
	}
	v, items := throttled, map[int]schema.Item{}
	for i, reason := range canceled.CancellationReasons {
		switch aws.ToString(reason.Code) {
		case "ConditionalCheckFailed":
			items[i] = reason.Item
		case "ValidationError", "ItemCollectionSizeLimitExceeded":
			return failed, nil
		case "TransactionConflict":
			v = conflicted
		}
	}
	if len(items) > 0 {
		return refused, items
	}
	return v, nil
}

// translate turns an SDK error into one of ours: a missing or foreign table is a
// *TableError, a store failure an *UnavailableError, anything else is wrapped.
// A context's own error stays recognisable.
func (r *Repository) translate(op string, err error) error {
	if err == nil {
		return nil
	}
	var missing *types.ResourceNotFoundException
	if errors.As(err, &missing) {
		return &TableError{Table: r.table, Err: err, Reason: "does not exist here; check the name, region and endpoint, or create it with Repository.CreateTable"}
	}
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() == "ValidationException" && foreignTable(api.ErrorMessage()) {
		return &TableError{Table: r.table, Err: err, Reason: "has other keys than PK and SK (strings); name another table, or create one with Repository.CreateTable"}
	}
	if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrTable) {
		return err
	}
	v, _ := judge(err)
	var canceled *types.TransactionCanceledException
	if errors.As(err, &canceled) {
		v, _ = judgeTransaction(err)
	}
	switch v {
	case conflicted, throttled, ambiguous:
		return &UnavailableError{Op: op, Err: err}
	default:
		return &storeError{op: op, err: err}
	}
}

// foreignTable recognises DynamoDB's words for a key that is not the table's.
func foreignTable(message string) bool {
	for _, words := range []string{"key element does not match the schema", "number of conditions on the keys is invalid", "Missing the key", "does not have the specified index"} {
		if strings.Contains(message, words) {
			return true
		}
	}
	return false
}

// storeError is a request that DynamoDB refused as wrong: a missing permission,
// a bug. It never fails open.
type storeError struct {
	op  string
	err error
}

func (e *storeError) Error() string { return "dynalimit: " + e.op + ": " + e.err.Error() }

func (e *storeError) Unwrap() error { return e.err }
