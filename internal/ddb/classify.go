package ddb

import (
	"context"
	"errors"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Classify says what an error of a request means; nil means that it landed.
// The context is the one the request was made with, or the caller's: a context
// that ended other than by Bound's timeout is the caller's own end, and says
// nothing about DynamoDB.
//
// A host name that does not resolve is a wrong setting here. Whoever knows that
// the table has answered before takes it for silence, as Call.End does.
func Classify(err error, caller context.Context) Diagnosis {
	if err == nil { // the usual case makes no garbage
		return Diagnosis{Verdict: Landed, Answered: true}
	}
	var known *requestError
	if errors.As(err, &known) {
		return known.diagnosis
	}
	d := classify(err, caller)
	d.Err = err
	return d
}

func classify(err error, caller context.Context) Diagnosis {
	if errors.Is(err, ErrUnprocessed) {
		return Diagnosis{Verdict: Throttled, Answered: true}
	}
	var canceled *types.TransactionCanceledException
	if errors.As(err, &canceled) {
		return classifyReasons(canceled.CancellationReasons)
	}
	if fromCredentials(err) {
		return classifyCredentials(err, caller)
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		return classifyCode(err, api.ErrorCode())
	}
	if status := statusOf(err); status >= http.StatusBadRequest { // of a proxy: DynamoDB's have a code
		return classifyCode(err, "")
	}
	return classifyTransport(err, caller)
}

// kind is what an error code means.
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
	"TransactionInProgressException":       {verdict: Unconfirmed}, // an earlier try is still under way
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

func classifyCode(err error, code string) Diagnosis {
	k, known := codes[code]
	switch status := statusOf(err); {
	case known:
	case status >= http.StatusInternalServerError:
		k = isSilent
	case code == "" || code == "UnknownError": // a 4xx that is not DynamoDB's: another server
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

// reasons is what the codes of a cancelled transaction mean. Any other code says
// that the transaction is wrong.
var reasons = map[string]Verdict{
	"": Landed, "None": Landed,
	"ConditionalCheckFailed":        Refused,
	"TransactionConflict":           Conflicted,
	"ThrottlingError":               Throttled,
	"ProvisionedThroughputExceeded": Throttled,
	"RequestLimitExceeded":          Throttled,
}

// classifyReasons reads a cancelled transaction. A failed condition decides,
// then what is wrong for good, then throttling; a conflict alone is a conflict.
func classifyReasons(all []types.CancellationReason) Diagnosis {
	d := Diagnosis{Verdict: Conflicted, Answered: true}
	for i, reason := range all {
		v, known := reasons[aws.ToString(reason.Code)]
		switch {
		case v == Refused:
			if d.Items == nil {
				d.Items = map[int]Item{}
			}
			d.Items[i] = reason.Item
		case !known:
			d.Verdict = Failed
			d.Setting = d.Setting || codes[aws.ToString(reason.Code)].setting
		case v == Throttled && d.Verdict == Conflicted:
			d.Verdict = Throttled
		}
	}
	if d.Items != nil {
		d.Verdict, d.Setting = Refused, false
	}
	return d
}

// statusOf is the HTTP status of an answer, 0 without one.
func statusOf(err error) int {
	var response *smithyhttp.ResponseError
	if !errors.As(err, &response) || response.Response == nil || response.Response.Response == nil {
		return 0
	}
	return response.HTTPStatusCode()
}
