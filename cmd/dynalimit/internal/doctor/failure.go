package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/tables"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

// cause is the reason that a request failed.
type cause int

const (
	none cause = iota
	// denied: a permission is missing.
	denied
	// refusedCredentials: they are unknown, expired or missing.
	refusedCredentials
	// missing: the table does not exist.
	missing
	// unknownOperation: the engine does not know the operation.
	unknownOperation
	// silent: the request got no answer.
	silent
	// throttled: DynamoDB throttled the request.
	throttled
	// notDynamoDB: the answer came from another program.
	notDynamoDB
	// answered: any other answer.
	answered
)

// causeOf classifies the error of a request to AWS or an engine, by its code, its answer or the lack of one;
// none for nil. A lost network is never denied, which means a missing permission.
func causeOf(err error) cause {
	if err == nil {
		return none
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		if c := causeOfCode(err, api); c != answered {
			return c
		}
	}
	d := ddb.Classify(err, context.Background())
	switch {
	case d.Silent, errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ECONNREFUSED):
		return silent
	case d.Verdict == ddb.Throttled:
		return throttled
	case api != nil:
		return answered
	case strings.Contains(ddb.Explain(err), "not DynamoDB"):
		return notDynamoDB
	case responseOf(err) != nil: //nolint:bodyclose // the SDK closed it
		return answered
	}
	return causeOfUnsent(err)
}

// causeOfUnsent returns the cause of a request without an answer, by its text: refusedCredentials if
// credentials are missing, else silent.
func causeOfUnsent(err error) cause {
	if strings.Contains(ddb.Explain(err), "credentials") || strings.Contains(err.Error(), "static credentials are empty") {
		return refusedCredentials
	}
	return silent
}

// causeOfCode returns the cause by the error code and message of an answer, api; err is the whole error. It
// returns answered for unknown codes.
func causeOfCode(err error, api smithy.APIError) cause {
	code, explained := api.ErrorCode(), ddb.Explain(err)
	switch {
	case strings.HasPrefix(code, "AccessDenied") || code == "UnauthorizedOperation":
		return denied
	case strings.Contains(explained, "credentials"), strings.Contains(explained, "signature"):
		return refusedCredentials
	case code == "ResourceNotFoundException" || code == "TableNotFoundException":
		return missing
	case tables.IsUnknown(err), strings.Contains(strings.ToLower(api.ErrorMessage()), "not implemented"):
		return unknownOperation
	case strings.Contains(explained, "not DynamoDB"):
		return notDynamoDB
	}
	return answered
}

// responseOf returns the HTTP response inside an error, or nil if the request got no answer. The SDK has closed
// its body.
func responseOf(err error) *http.Response {
	var r *awshttp.ResponseError
	if errors.As(err, &r) && r.Response != nil && r.Response.Response != nil && r.HTTPStatusCode() != 0 {
		return r.Response.Response
	}
	return nil
}

// explainError returns a sentence for people about the reason of a failed request, without the SDK's details.
// It returns "" for nil.
func (v *visit) explainError(err error) string {
	var api smithy.APIError
	_ = errors.As(err, &api)
	switch causeOf(err) {
	case none:
		return ""
	case denied:
		return "it is not permitted: " + api.ErrorMessage()
	case refusedCredentials:
		if reason := ddb.Explain(err); reason != "" && api != nil {
			return reason
		}
		return "there are no credentials that can be used: " + innermostText(err)
	case missing:
		return fmt.Sprintf("there is no table %q in %s", v.table.Name(), v.Region)
	case unknownOperation:
		return "this engine does not know the operation"
	case silent:
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Sprintf("no answer within %v", v.Timeout)
		}
		return "no answer: " + innermostText(err)
	case throttled:
		return "DynamoDB is too busy: it throttles"
	case notDynamoDB:
		return "the server there is not DynamoDB"
	case answered:
	}
	return innermostText(err)
}

// innermostText returns an error's text without the SDK's additions: "CODE: MESSAGE" of an answer with a
// message, else the text of the innermost error.
func innermostText(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorMessage() != "" {
		return api.ErrorCode() + ": " + api.ErrorMessage()
	}
	var op *smithy.OperationError
	for errors.As(err, &op) {
		err = op.Err
	}
	text := err.Error()
	if i := strings.LastIndex(text, "request send failed, "); i >= 0 {
		text = text[i+len("request send failed, "):]
	}
	return text
}
