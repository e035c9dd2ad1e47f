package aggregator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// writeFold adds a fold, changes of one bucket in one hour, to its stored snapshot, and returns how many it
// counted and their gaps. It drops changes that the snapshot has, and adds the gap since its last record. It
// retries until DynamoDB answers or ctx ends.
func (p *Processor) writeFold(ctx context.Context, f usage.Fold) outcome {
	unconfirmed := false // the write may have landed
	for try := 0; ; {
		stored, err := p.updateFold(ctx, &f.UsageFold)
		if err != nil {
			verdict := ddb.Classify(err, ctx)
			if verdict.Setting || !verdict.Verdict.Unavailable() || !pauses.Pause(ctx, try) {
				return failedOutcome(err)
			}
			try++
			unconfirmed = unconfirmed || verdict.Verdict == ddb.Unconfirmed
			continue
		}
		if stored == nil || unconfirmed && stored.Seq == f.To {
			return outcome{counted: len(f.Changes), gaps: gapsOf(f)}
		}
		rest, some := f.After(stored.Seq)
		if !some {
			return outcome{}
		}
		f, unconfirmed = rest, false
		f.UsageFold = f.AddGaps(stored)
	}
}

// updateFold sends the update of a fold once. It returns nil after a success, and the stored snapshot if the
// condition fails: a zero one if none exists. It returns a *badItem for a stored snapshot that this version
// cannot extend.
func (p *Processor) updateFold(ctx context.Context, f *schema.UsageFold) (*schema.UsageSnapshot, error) {
	st := f.Statement()
	_, err := boundRequest(ctx, p.client.UpdateItem, &dynamodb.UpdateItemInput{
		TableName: &p.table, Key: f.Key().Attributes(), UpdateExpression: &st.Update, ConditionExpression: &st.Condition,
		ExpressionAttributeNames: st.Names, ExpressionAttributeValues: st.Values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, ddb.WithoutRetries)
	condition, refused := errors.AsType[*types.ConditionalCheckFailedException](err)
	switch {
	case !refused && isWrongType(err):
		key := f.Key()
		return nil, &badItem{fmt.Errorf("item %q, %q: %w; correct the item, or delete it", key.PK, key.SK, err)}
	case !refused:
		return nil, err
	case len(condition.Item) == 0:
		return &schema.UsageSnapshot{}, nil
	}
	stored, err := schema.DecodeUsage(condition.Item)
	if err != nil {
		return nil, &badItem{err}
	}
	return &stored, nil
}

// outcome is the outcome of a fold.
type outcome struct {
	counted int // of its last changes
	gaps    []Gap
	err     error
	// unreadable means that no retry can succeed, because of the stored item.
	unreadable bool
}

// failedOutcome returns the outcome of a fold that was not written because of err. It is unreadable if err is a
// *badItem.
func failedOutcome(err error) outcome {
	_, bad := errors.AsType[*badItem](err)
	return outcome{err: err, unreadable: bad}
}

// badItem is the error of a snapshot that nothing can be added to as it is.
type badItem struct{ err error }

// Error returns the reason that the stored snapshot cannot be extended.
func (e *badItem) Error() string { return "aggregator: " + e.err.Error() }

// Unwrap returns the error of the decoding, or DynamoDB's.
func (e *badItem) Unwrap() error { return e.err }

// isWrongType reports whether DynamoDB refused to add to an attribute because it is not a number.
func isWrongType(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && api.ErrorCode() == "ValidationException" && strings.Contains(api.ErrorMessage(), "incorrect data type")
}
