package ddb

import (
	"context"
	"errors"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/dynalimit/dynalimit/internal/guard"
)

// Classify returns the meaning of an error of a request; nil means that the request landed. The context must
// be the request's or its caller's. A context that ended otherwise than by Bound's timeout is the caller's
// own end, and no sign of an outage.
//
// An unknown host name is a wrong setting here. Call.End treats it as silence if the table has answered
// before.
func Classify(err error, caller context.Context) Diagnosis {
	if err == nil { // the usual case makes no garbage
		return Diagnosis{Verdict: Landed, Answered: true}
	}
	var known *requestError
	if errors.As(err, &known) {
		return known.diagnosis
	}
	d := classifyError(err, caller)
	d.Err = err
	return d
}

// classifyError returns the meaning of an error without a diagnosis of its own, as Classify does. It leaves Err
// empty.
func classifyError(err error, caller context.Context) Diagnosis {
	switch {
	case errors.Is(err, ErrUnprocessed):
		return Diagnosis{Verdict: Throttled, Answered: true}
	case errors.Is(err, ErrForeign), errors.As(err, new(*guard.Ended)): // its outcome is unknown
		return Diagnosis{Verdict: Unconfirmed}
	}
	var canceled *types.TransactionCanceledException
	if errors.As(err, &canceled) {
		return classifyReasons(canceled.CancellationReasons)
	}
	if failedForCredentials(err) {
		return classifyCredentials(err, caller)
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		return classifyCode(err, api.ErrorCode())
	}
	if status := statusOf(err); status >= http.StatusBadRequest && !isCut(err) { // from a proxy: DynamoDB's errors have a code
		return classifyCode(err, "")
	}
	return classifyTransport(err, caller)
}

// reasons has the meaning of the codes of a cancelled transaction. Any other code means that the transaction
// is wrong.
var reasons = map[string]Verdict{
	"": Landed, "None": Landed,
	"ConditionalCheckFailed":        Refused,
	"TransactionConflict":           Conflicted,
	"ThrottlingError":               Throttled,
	"ProvisionedThroughputExceeded": Throttled,
	"RequestLimitExceeded":          Throttled,
}

// classifyReasons returns the diagnosis of a cancelled transaction by its reasons, with the items of failed
// conditions by their place. A failed condition decides first, then a permanent error, then throttling.
// Conflicts alone are a conflict.
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

// ErrForeign is the error of a success that does not come from DynamoDB, but from a proxy, a health check or
// another service. The outcome of the request is unknown.
var ErrForeign = errors.New("the server at the endpoint is not DynamoDB; check the endpoint")

// errTimeout is the cause of a context that Bound's timeout ended.
var errTimeout = errors.New("no answer within the request timeout")

// errHeldBack is the cause of a request that this process failed to send in time.
var errHeldBack = errors.New("this process held the request back, and DynamoDB has no part in it; see the client's retry mode (AWS_RETRY_MODE)")

// timedOut reports whether Bound's timeout ended the context, and not the caller.
func timedOut(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errTimeout) }
