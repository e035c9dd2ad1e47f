package ddbmem

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
	"github.com/dynalimit/dynalimit/ddbmem/internal/wire"
)

// Error is an error answer of the API, as a Fault injects it.
type Error struct {
	// Code is the name of the exception, such as "ThrottlingException".
	Code string
	// Message defaults to DynamoDB's text for the code.
	Message string
	// Status is the HTTP status. Defaults to 500 for InternalServerError, 503 for
	// ServiceUnavailable and 400 for all others.
	Status int
	// Item is the item of a ConditionalCheckFailedException.
	Item map[string]types.AttributeValue
	// Reasons are the reasons of a TransactionCanceledException, one per item of the
	// transaction and in its order.
	Reasons []Reason

	item value.Map
}

// Reason is why one item of a transaction was refused.
type Reason struct {
	// Code is "None", "ConditionalCheckFailed", "TransactionConflict",
	// "ThrottlingError" and so on. Defaults to "None".
	Code string
	// Message defaults to none.
	Message string
	// Item is the item of a failed condition. Defaults to nil.
	Item map[string]types.AttributeValue

	item value.Map
}

// Error returns the code and the message, separated by a colon.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// newError returns an error of the API with an exception's name as its code and a formatted message.
func newError(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// validationError returns a ValidationException with a formatted message.
func validationError(format string, args ...any) *Error {
	return newError("ValidationException", format, args...)
}

// unsupportedError returns the ValidationException for a feature that ddbmem lacks.
func unsupportedError(what string) *Error { return validationError("ddbmem does not support %s", what) }

// noTableError returns the ResourceNotFoundException that names a missing table.
func noTableError(name string) *Error {
	return newError("ResourceNotFoundException", "Requested resource not found: Table: %s not found", name)
}

var errNoResource = newError("ResourceNotFoundException", "Requested resource not found")

// asError turns a handler's error into the error that the API answers. An *Error stays; an invalid value
// becomes ValidationException, malformed JSON SerializationException, any other InternalServerError.
func asError(err error) *Error {
	var api *Error
	var invalid *value.InvalidError
	switch {
	case errors.As(err, &api):
		return api
	case errors.As(err, &invalid):
		return validationError("%s", invalid.Message)
	case errors.Is(err, wire.ErrSyntax):
		return newError("SerializationException", "%v", err)
	}
	return newError("InternalServerError", "%v", err)
}

// defaultMessages are DynamoDB's texts for errors that only faults cause.
var defaultMessages = map[string]string{
	"ThrottlingException":                    "Throughput exceeds the current throughput limit for your account. Please contact AWS Support at https://aws.amazon.com/support request a limit increase",
	"ProvisionedThroughputExceededException": "The level of configured provisioned throughput for the table was exceeded. Consider increasing your provisioning level with the UpdateTable API.",
	"RequestLimitExceeded":                   "Throughput exceeds the current throughput limit for your account. Please contact AWS Support at https://aws.amazon.com/support request a limit increase",
	"InternalServerError":                    "Internal server error",
	"ServiceUnavailable":                     "Service is unavailable",
	"TransactionConflictException":           "Transaction is ongoing for the item",
	"TransactionInProgressException":         "The transaction with the given request token is already in progress.",
	"ConditionalCheckFailedException":        "The conditional request failed",
}

// withDefaults returns a copy of e with its message and HTTP status filled in by its code, unless they are
// set.
func (e *Error) withDefaults() *Error {
	d := *e
	if d.Message == "" {
		d.Message = defaultMessages[d.Code]
	}
	if d.Code == "TransactionCanceledException" && d.Message == "" {
		codes := make([]string, len(d.Reasons))
		for i, r := range d.Reasons {
			codes[i] = r.code()
		}
		d.Message = "Transaction cancelled, please refer cancellation reasons for specific reasons [" + strings.Join(codes, ", ") + "]"
	}
	if d.Status == 0 {
		switch d.Code {
		case "InternalServerError", "InternalServerErrorException":
			d.Status = http.StatusInternalServerError
		case "ServiceUnavailable", "ServiceUnavailableException":
			d.Status = http.StatusServiceUnavailable
		default:
			d.Status = http.StatusBadRequest
		}
	}
	return &d
}

// code returns the reason's code, and "None" if it has none.
func (r Reason) code() string {
	if r.Code == "" {
		return "None"
	}
	return r.Code
}

// append appends the JSON body of the error's answer to b: the exception's type, its message, and the item or
// cancellation reasons it has.
func (e *Error) append(b []byte) []byte {
	kind := "com.amazonaws.dynamodb.v20120810#"
	switch e.Code {
	case "ValidationException", "ThrottlingException":
		kind = "com.amazon.coral.validate#"
	case "SerializationException", "UnknownOperationException":
		kind = "com.amazon.coral.service#"
	}
	b = wire.AppendString(wire.Field(append(b, '{'), "__type"), kind+e.Code)
	key := "message"
	if e.Code == "TransactionCanceledException" {
		key = "Message"
	}
	b = wire.AppendString(wire.Field(b, key), e.Message)
	if item := shownItem(e.item, e.Item); item != nil {
		b = value.AppendMap(wire.Field(b, "Item"), item)
	}
	if e.Code == "TransactionCanceledException" {
		b = append(wire.Field(b, "CancellationReasons"), '[')
		for _, r := range e.Reasons {
			b = r.append(wire.Comma(b))
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

// append appends the reason to b as a JSON element of CancellationReasons, without a missing message or item.
func (r Reason) append(b []byte) []byte {
	b = wire.AppendString(wire.Field(append(b, '{'), "Code"), r.code())
	if r.Message != "" {
		b = wire.AppendString(wire.Field(b, "Message"), r.Message)
	}
	if item := shownItem(r.item, r.Item); item != nil {
		b = value.AppendMap(wire.Field(b, "Item"), item)
	}
	return append(b, '}')
}

// shownItem returns item if an operation set it, or else the item that a Fault gives, converted. It is nil
// without either.
func shownItem(item value.Map, given map[string]types.AttributeValue) value.Map {
	if item == nil && given != nil {
		return fromSDKMap(given)
	}
	return item
}

// requireMember returns a validation error that names the member, unless given is true.
func requireMember(given bool, member string) error {
	if given {
		return nil
	}
	return validationError("1 validation error detected: Value null at '%s' failed to satisfy constraint: Member must not be null", member)
}
