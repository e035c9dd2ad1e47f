package budget

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// Client is the part of *dynamodb.Client the keeper uses.
type Client interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	UpdateTimeToLive(context.Context, *dynamodb.UpdateTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error)
	DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error)
}

var _ Client = (*dynamodb.Client)(nil)

// store is the two tables.
type store struct {
	client Client
	tables Tables
}

type attrs = map[string]types.AttributeValue

// once stops the SDK from resending a write on its own: what an unanswered
// write may do again is decided here, per operation.
func once(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

// trouble is what an SDK error means to the keeper.
type trouble int

const (
	troubleNone      trouble = iota
	troubleRefused           // a condition did not hold
	troubleConflict          // another transaction is on the item; nothing applied
	troubleThrottled         // nothing applied
	troubleAmbiguous         // may have been applied
	troubleMismatch          // the token was used with other parameters
	troubleFatal             // a bad request, a missing table, no permission: never "unavailable"
)

func (t trouble) unavailable() bool {
	return t == troubleConflict || t == troubleThrottled || t == troubleAmbiguous
}

// diagnose translates an SDK error; the only place that looks at one.
func diagnose(err error) trouble {
	if err == nil {
		return troubleNone
	}
	var canceled *types.TransactionCanceledException
	if errors.As(err, &canceled) {
		return diagnoseReasons(canceled.CancellationReasons)
	}
	if errors.Is(err, errItem) {
		return troubleFatal
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return troubleAmbiguous // the network, a timeout, a cancelled context
	}
	switch api.ErrorCode() {
	case "ConditionalCheckFailedException":
		return troubleRefused
	case "TransactionConflictException":
		return troubleConflict
	case "TransactionInProgressException":
		return troubleAmbiguous
	case "IdempotentParameterMismatchException":
		return troubleMismatch
	case "ProvisionedThroughputExceededException", "ThrottlingException", "Throttling",
		"RequestLimitExceeded", "TooManyRequestsException", "LimitExceededException":
		return troubleThrottled
	case "InternalServerError", "InternalServerErrorException", "ServiceUnavailable", "ServiceUnavailableException":
		return troubleAmbiguous
	}
	var response *awshttp.ResponseError
	if errors.As(err, &response) && response.HTTPStatusCode() >= 500 {
		return troubleAmbiguous
	}
	return troubleFatal
}

// diagnoseReasons reads a cancelled transaction: any failed condition decides,
// a conflict or throttling alone does not.
func diagnoseReasons(reasons []types.CancellationReason) trouble {
	worst := troubleConflict
	for _, r := range reasons {
		switch aws.ToString(r.Code) {
		case "", "None", "TransactionConflict":
		case "ConditionalCheckFailed":
			return troubleRefused
		case "ThrottlingError", "ProvisionedThroughputExceeded", "RequestLimitExceeded":
			worst = max(worst, troubleThrottled)
		default:
			worst = troubleFatal
		}
	}
	return worst
}

// readError marks what a read failed with: it cannot have changed anything.
type readError struct{ error }

func (e readError) Unwrap() error { return e.error }

func reading(err error) error {
	if err == nil {
		return nil
	}
	return readError{err}
}

// inDoubt says that err leaves open whether a write was applied.
func inDoubt(err error) bool {
	return diagnose(err) == troubleAmbiguous && !errors.As(err, new(readError))
}

// refusedImage is what the item holds that refused a single write.
func refusedImage(err error) attrs {
	var failed *types.ConditionalCheckFailedException
	if errors.As(err, &failed) {
		return failed.Item
	}
	return nil
}

// failure wraps a store error for the caller: unavailable, or a bug.
func failure(operation string, err error) error {
	if err == nil || unavailable(err) || errors.Is(err, ErrClosed) || errors.Is(err, ErrNotFound) {
		return err
	}
	if diagnose(err).unavailable() {
		return &UnavailableError{Operation: operation, Err: err, Ambiguous: inDoubt(err)}
	}
	return fmt.Errorf("budget: %s: %w", operation, err)
}

// unavailable says that err is a failure of the store.
func unavailable(err error) bool {
	var u *UnavailableError
	return errors.As(err, &u)
}

const (
	writeTries = 12
	batchTries = 8
)

// pause waits before the n-th retry: exponential with full jitter, 200 ms at
// most.
func pause(ctx context.Context, n int) error {
	return pauseUpTo(ctx, n, 200*time.Millisecond)
}

func pauseUpTo(ctx context.Context, n int, longest time.Duration) error {
	limit := min(longest, 4*time.Millisecond<<min(n, 10))
	timer := time.NewTimer(rand.N(limit) + time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// retry runs a write that is safe to send again until it is answered.
func retry(ctx context.Context, write func() error) error {
	for n := 0; ; n++ {
		err := write()
		if err == nil || !diagnose(err).unavailable() || n == writeTries {
			return err
		}
		if pause(ctx, n) != nil {
			return err
		}
	}
}

// get reads one item consistently; nil when there is none.
func (s *store) get(ctx context.Context, table string, key itemKey) (attrs, error) {
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &table, Key: key.attrs(), ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return nil, reading(err)
	}
	return out.Item, nil
}

var errUnprocessed = errors.New("keys stayed unprocessed")

// batchGet reads items consistently. Keys that stay unprocessed are an error,
// never absent items.
func (s *store) batchGet(ctx context.Context, table string, keys ...itemKey) (map[itemKey]attrs, error) {
	found := map[itemKey]attrs{}
	for chunk := range slices.Chunk(keys, 100) {
		request := make([]attrs, len(chunk))
		for i, key := range chunk {
			request[i] = key.attrs()
		}
		for n := 0; len(request) > 0; n++ {
			if n > 0 {
				if n == batchTries {
					return nil, reading(errUnprocessed)
				}
				if err := pause(ctx, n); err != nil {
					return nil, reading(fmt.Errorf("%w: %w", errUnprocessed, err))
				}
			}
			out, err := s.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
				RequestItems: map[string]types.KeysAndAttributes{
					table: {Keys: request, ConsistentRead: aws.Bool(true)},
				},
			})
			if err != nil {
				return nil, reading(err)
			}
			for _, item := range out.Responses[table] {
				found[keyOf(item)] = item
			}
			request = out.UnprocessedKeys[table].Keys
		}
	}
	return found, nil
}

// query walks all pages of the items of one partition with from <= SK <= to. A
// page that cannot be read is an error, never an end.
func (s *store) query(ctx context.Context, table, pk, from, to string, each func(attrs) error) error {
	in := &dynamodb.QueryInput{
		TableName:              &table,
		ConsistentRead:         aws.Bool(true),
		KeyConditionExpression: aws.String("#pk = :pk AND #sk BETWEEN :from AND :to"),
		ExpressionAttributeNames: map[string]string{
			"#pk": "PK", "#sk": "SK",
		},
		ExpressionAttributeValues: attrs{":pk": str(pk), ":from": str(from), ":to": str(to)},
	}
	for {
		out, err := s.client.Query(ctx, in)
		if err != nil {
			return reading(err)
		}
		for _, item := range out.Items {
			if err := each(item); err != nil {
				return err
			}
		}
		if len(out.LastEvaluatedKey) == 0 {
			return nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// put writes an item if cond holds (empty: always).
func (s *store) put(ctx context.Context, table string, item attrs, cond string, names map[string]string, values attrs) error {
	in := &dynamodb.PutItemInput{TableName: &table, Item: item}
	if cond != "" {
		in.ConditionExpression = &cond
		in.ExpressionAttributeNames, in.ExpressionAttributeValues = names, values
		in.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	}
	_, err := s.client.PutItem(ctx, in, once)
	return err
}

func (s *store) delete(ctx context.Context, table string, key itemKey) error {
	return retry(ctx, func() error {
		_, err := s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &table, Key: key.attrs()}, once)
		return err
	})
}
