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

// cause is the kind of thing that made a request fail.
type cause int

const (
	none cause = iota
	// denied: a permission is missing.
	denied
	// refusedCredentials: they are not known, have expired, or there are none.
	refusedCredentials
	// missing: there is no such table.
	missing
	// unknownOperation: the engine does not know the operation.
	unknownOperation
	// silent: no answer came.
	silent
	// throttled: DynamoDB is too busy.
	throttled
	// notDynamoDB: what answers is something else.
	notDynamoDB
	// answered: any other answer.
	answered
)

// causeOf tells what made a request fail; a lost network is never taken for a missing
// permission.
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

// causeOfUnsent tells why a request that no answer came to was not sent.
func causeOfUnsent(err error) cause {
	if strings.Contains(ddb.Explain(err), "credentials") || strings.Contains(err.Error(), "static credentials are empty") {
		return refusedCredentials
	}
	return silent
}

func causeOfCode(err error, api smithy.APIError) cause {
	code, explained := api.ErrorCode(), ddb.Explain(err)
	switch {
	case strings.HasPrefix(code, "AccessDenied") || code == "UnauthorizedOperation":
		return denied
	case strings.Contains(explained, "credentials"), strings.Contains(explained, "signature"):
		return refusedCredentials
	case code == "ResourceNotFoundException" || code == "TableNotFoundException":
		return missing
	case tables.Unknown(err), strings.Contains(strings.ToLower(api.ErrorMessage()), "not implemented"):
		return unknownOperation
	case strings.Contains(explained, "not DynamoDB"):
		return notDynamoDB
	}
	return answered
}

// responseOf is the answer that an error came with, nil for none.
func responseOf(err error) *http.Response {
	var r *awshttp.ResponseError
	if errors.As(err, &r) && r.Response != nil && r.Response.Response != nil && r.HTTPStatusCode() != 0 {
		return r.Response.Response
	}
	return nil
}

// why says in words what made a request fail.
func (v *visit) why(err error) string {
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
		return "there are no credentials that can be used: " + innermost(err)
	case missing:
		return fmt.Sprintf("there is no table %q in %s", v.table.Name(), v.Region)
	case unknownOperation:
		return "this engine does not know the operation"
	case silent:
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Sprintf("no answer within %v", v.Timeout)
		}
		return "no answer: " + innermost(err)
	case throttled:
		return "DynamoDB is too busy: it throttles"
	case notDynamoDB:
		return "what answers there is not DynamoDB"
	case answered:
	}
	return innermost(err)
}

// innermost is an error without what the SDK puts around it.
func innermost(err error) string {
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
