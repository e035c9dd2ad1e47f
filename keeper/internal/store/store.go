// Package store reads and writes the two tables of package budget: keys, attributes, complete
// reads, and retries of writes. It does not know the meaning of the items.
package store

import (
	"context"
	"iter"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
)

// Client sends the requests of a store; *dynamodb.Client implements it.
type Client interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

// Store is the two tables and their client. All reads are consistent.
type Store struct {
	Client  Client // sends every request
	Control string // the table of configuration and prices
	Usage   string // the table of counters, records and holds
}

// Get reads the item under key by a strongly consistent read. It returns nil without an error if the item does
// not exist. Its errors are marked by AsReadError.
func (s *Store) Get(ctx context.Context, table string, key Key) (Item, error) {
	out, err := s.Client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &table, Key: key.Attributes(), ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return nil, AsReadError(err)
	}
	return out.Item, nil
}

// BatchGet reads the items under keys and returns the existing ones by key. It retries unprocessed keys; if
// some stay unprocessed, it returns an error, so a missing entry means a missing item.
func (s *Store) BatchGet(ctx context.Context, table string, keys ...Key) (map[Key]Item, error) {
	found, err := ddb.Batches[Key]{Table: table, Backoff: Backoff, KeyOf: KeyOf}.Get(ctx, s.Client, keys)
	return found, AsReadError(err)
}

// Query calls each for every item of a partition with from <= SK <= to, in the order of SK, over all pages. An
// error of each ends it and is returned. If a page cannot be read, it returns an error: it never ends early
// without one.
func (s *Store) Query(ctx context.Context, table, pk, from, to string, each func(Item) error) error {
	in := &dynamodb.QueryInput{
		TableName:              &table,
		ConsistentRead:         aws.Bool(true),
		KeyConditionExpression: aws.String("#pk = :pk AND #sk BETWEEN :from AND :to"),
		ExpressionAttributeNames: map[string]string{
			"#pk": "PK", "#sk": "SK",
		},
		ExpressionAttributeValues: Item{":pk": String(pk), ":from": String(from), ":to": String(to)},
	}
	for {
		out, err := s.Client.Query(ctx, in)
		if err != nil {
			return AsReadError(err)
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

// ScanWithoutTTL returns an iterator over the pages of a table's scan: items without a time to live with text
// in their partition key. A page may be empty. After a failed page it yields the error and ends.
func (s *Store) ScanWithoutTTL(ctx context.Context, table, text string) iter.Seq2[[]Item, error] {
	return func(yield func([]Item, error) bool) {
		pages := dynamodb.NewScanPaginator(s.Client, &dynamodb.ScanInput{
			TableName: &table, ConsistentRead: aws.Bool(true),
			FilterExpression:         aws.String("contains(#pk, :text) AND attribute_not_exists(#ttl)"),
			ExpressionAttributeNames: map[string]string{"#pk": "PK", "#ttl": AttrTTL}, ExpressionAttributeValues: Item{":text": String(text)},
		})
		for pages.HasMorePages() {
			out, err := pages.NextPage(ctx)
			if err != nil {
				yield(nil, AsReadError(err))
				return
			}
			if !yield(out.Items, nil) {
				return
			}
		}
	}
}

// WithControlTimeout returns a copy of the store whose requests have the longer timeout of administrative
// changes. s stays unchanged. A client other than *ddb.Client keeps its timeout.
func (s *Store) WithControlTimeout() *Store {
	patient := *s
	if c, ok := s.Client.(*ddb.Client); ok {
		patient.Client = c.WithControlTimeout()
	}
	return &patient
}

// Put creates or replaces an item if the condition cond holds; names and values are its placeholders, and an
// empty cond always holds. If it fails, RefusedItem finds the stored item in the error. Put does not retry.
func (s *Store) Put(ctx context.Context, table string, item Item, cond string, names map[string]string, values Item) error {
	in := &dynamodb.PutItemInput{TableName: &table, Item: item}
	if cond != "" {
		in.ConditionExpression = &cond
		in.ExpressionAttributeNames, in.ExpressionAttributeValues = names, values
		in.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	}
	_, err := s.Client.PutItem(ctx, in, Once)
	return err
}

// Transact sends writes as one transaction, and repeats it under the same token while the store does not
// answer; DynamoDB applies it once. If a condition fails, nothing is written, and the error is the refusal.
func (s *Store) Transact(ctx context.Context, token string, writes []types.TransactWriteItem) error {
	return Retry(ctx, func() error {
		_, err := s.Client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
			ClientRequestToken: &token, TransactItems: writes,
		}, Once)
		return err
	})
}

// Delete deletes the item under key without a condition; the item need not exist. It repeats the request while
// the store does not answer, up to writeTries.
func (s *Store) Delete(ctx context.Context, table string, key Key) error {
	return Retry(ctx, func() error {
		_, err := s.Client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &table, Key: key.Attributes()}, Once)
		return err
	})
}
