package budget

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
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
var once = ddb.WithoutRetries

// trouble is what an error of a request means to the keeper.
type trouble = ddb.Verdict

const (
	troubleNone      = ddb.Landed
	troubleRefused   = ddb.Refused
	troubleConflict  = ddb.Conflicted
	troubleThrottled = ddb.Throttled
	troubleUnsent    = ddb.Unsent
	troubleAmbiguous = ddb.Ambiguous
	troubleMismatch  = ddb.TokenMismatch
)

// diagnose says what an error of a request means.
func diagnose(err error) trouble { return ddb.Classify(err, context.Background()).Verdict }

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
func refusedImage(err error) attrs { return ddb.Classify(err, context.Background()).Item }

// failure wraps a store error for the caller: unavailable, or a bug.
func failure(operation string, err error) error {
	if err == nil || unavailable(err) || errors.Is(err, ErrClosed) || errors.Is(err, ErrNotFound) {
		return err
	}
	if diagnose(err).Unavailable() {
		return &UnavailableError{Operation: operation, Err: err, Ambiguous: inDoubt(err), RetryAfter: ddb.Classify(err, context.Background()).RetryAfter}
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

// backoff is the wait between the tries of a request.
var backoff = ddb.Backoff{First: 4 * time.Millisecond, Most: 200 * time.Millisecond}

// giveUp waits before the next try of a request that failed with err; true when
// there is to be none, as while the store is known not to answer.
func giveUp(ctx context.Context, n int, err error) bool {
	return n == writeTries || ddb.IsOpen(err) || !backoff.Pause(ctx, n)
}

// retry runs a write that is safe to send again until it is answered. One that
// may have been applied stays so, whatever the last try failed with.
func retry(ctx context.Context, write func() error) error {
	var doubt error
	for n := 0; ; n++ {
		err := write()
		switch trouble := diagnose(err); {
		case !trouble.Unavailable():
			return err
		case trouble == troubleAmbiguous:
			doubt = err
		}
		if giveUp(ctx, n, err) {
			return cmp.Or(doubt, err)
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
					return nil, reading(ddb.ErrUnprocessed)
				}
				if !backoff.Pause(ctx, n) {
					return nil, reading(fmt.Errorf("%w: %w", ddb.ErrUnprocessed, ctx.Err()))
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
