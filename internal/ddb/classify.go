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
	switch {
	case errors.Is(err, ErrUnprocessed):
		return Diagnosis{Verdict: Throttled, Answered: true}
	case errors.Is(err, ErrForeign), errors.As(err, new(*guard.Ended)): // nobody knows what became of it
		return Diagnosis{Verdict: Unconfirmed}
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
	if status := statusOf(err); status >= http.StatusBadRequest && !isCut(err) { // of a proxy: DynamoDB's have a code
		return classifyCode(err, "")
	}
	return classifyTransport(err, caller)
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
