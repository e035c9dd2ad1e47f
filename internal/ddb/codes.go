package ddb

import (
	"errors"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// kind is the meaning of an error code.
type kind struct {
	verdict         Verdict
	silent, setting bool
}

var (
	isThrottled = kind{verdict: Throttled}
	isSilent    = kind{verdict: Unconfirmed, silent: true}
	isSetting   = kind{verdict: Failed, setting: true}
)

var codes = map[string]kind{
	"ConditionalCheckFailedException":      {verdict: Refused},
	"TransactionConflictException":         {verdict: Conflicted},
	"ReplicatedWriteConflictException":     {verdict: Conflicted},
	"TransactionInProgressException":       {verdict: Unconfirmed}, // an earlier try is still in flight
	"IdempotentParameterMismatchException": {verdict: TokenMismatch},

	"ProvisionedThroughputExceededException": isThrottled,
	"ThrottlingException":                    isThrottled,
	"Throttling":                             isThrottled,
	"ThrottledException":                     isThrottled,
	"RequestLimitExceeded":                   isThrottled,
	"TooManyRequestsException":               isThrottled,
	"LimitExceededException":                 isThrottled,

	"InternalServerError":          isSilent,
	"InternalServerErrorException": isSilent,
	"InternalFailure":              isSilent,
	"ServiceUnavailable":           isSilent,
	"ServiceUnavailableException":  isSilent,

	"ResourceNotFoundException":           isSetting,
	"AccessDeniedException":               isSetting,
	"AccessDenied":                        isSetting,
	"UnrecognizedClientException":         isSetting,
	"InvalidClientTokenId":                isSetting,
	"ExpiredTokenException":               isSetting,
	"ExpiredToken":                        isSetting,
	"RequestExpired":                      isSetting,
	"RequestTimeTooSkewed":                isSetting,
	"InvalidSignatureException":           isSetting,
	"SignatureDoesNotMatch":               isSetting,
	"IncompleteSignature":                 isSetting,
	"IncompleteSignatureException":        isSetting,
	"MissingAuthenticationToken":          isSetting,
	"MissingAuthenticationTokenException": isSetting,
	"AuthFailure":                         isSetting,
	"OptInRequired":                       isSetting,
	"UnknownOperationException":           isSetting, // another service's endpoint
}

// classifyCode returns the diagnosis of an answer with an error code of DynamoDB, "" without one, or else by
// its HTTP status. A failed condition's item is included.
func classifyCode(err error, code string) Diagnosis {
	k, known := codes[code]
	switch status := statusOf(err); {
	case known:
	case status >= http.StatusInternalServerError:
		k = isSilent
	case !isAWSCode(code) && refusesLoad(status): // from a proxy
		k = isThrottled
	case !isAWSCode(code): // a 4xx without a code of DynamoDB: another server
		k = isSetting
	default:
		k.verdict = Failed
	}
	d := Diagnosis{Verdict: k.verdict, Silent: k.silent, Answered: !k.silent, Setting: k.setting}
	var condition *types.ConditionalCheckFailedException
	if errors.As(err, &condition) {
		d.Item = condition.Item
	}
	return d
}

// isAWSCode reports whether a code is from a service of AWS. It is false for an empty code, and for the SDK's
// UnknownError.
func isAWSCode(code string) bool { return code != "" && code != "UnknownError" }

// refusesLoad reports whether an HTTP status alone, such as a proxy's, means that the request came at a time of
// too much load.
func refusesLoad(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooManyRequests
}

// statusOf returns the HTTP status of an answer, 0 without one.
func statusOf(err error) int {
	var response *smithyhttp.ResponseError
	if !errors.As(err, &response) || response.Response == nil || response.Response.Response == nil {
		return 0
	}
	return response.HTTPStatusCode()
}
