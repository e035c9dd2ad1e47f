package dynalimit

import (
	"context"
	"iter"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// pageSize is how many items one query asks for: as many as one batch reads.
const pageSize = ddb.MaxBatchGet

// query is a read of one partition of the table or of an index.
type query struct {
	// op names what is being done in errors.
	op string
	// index is "" for the table itself, which is read consistently.
	index string
	// hash is the partition's key attribute and value.
	hash, value string
	// sortPrefix restricts the sort key of the table; an index is read whole.
	sortPrefix string
	// count asks for the number of items alone.
	count bool
}

func (q query) input(table string) *dynamodb.QueryInput {
	in := &dynamodb.QueryInput{
		TableName:                 &table,
		KeyConditionExpression:    aws.String("#0 = :0"),
		ExpressionAttributeNames:  map[string]string{"#0": q.hash},
		ExpressionAttributeValues: schema.Item{":0": schema.String(q.value)},
	}
	switch {
	case q.count:
		in.Select = types.SelectCount
	default:
		in.Limit = aws.Int32(pageSize)
	}
	if q.index != "" {
		in.IndexName = &q.index
		return in
	}
	in.ConsistentRead = aws.Bool(true)
	in.KeyConditionExpression = aws.String("#0 = :0 AND begins_with(#1, :1)")
	in.ProjectionExpression = aws.String("#0, #1")
	in.ExpressionAttributeNames["#1"] = schema.SK
	in.ExpressionAttributeValues[":1"] = schema.String(q.sortPrefix)
	return in
}

// pages follows a query to its end. It stops with ctx's error once that ends.
// The SDK may retry: reads are idempotent.
func (r *Repository) pages(ctx context.Context, q query) iter.Seq2[*dynamodb.QueryOutput, error] {
	return func(yield func(*dynamodb.QueryOutput, error) bool) {
		in := q.input(r.table)
		for {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			out, err := r.client.Query(ctx, in)
			if err != nil {
				yield(nil, r.translate(q.op, err))
				return
			}
			if !yield(out, nil) || len(out.LastEvaluatedKey) == 0 {
				return
			}
			next := *in
			next.ExclusiveStartKey = out.LastEvaluatedKey
			in = &next
		}
	}
}

// yieldAll yields every value, until yield wants no more; then it is false.
func yieldAll[T any](values []T, yield func(T, error) bool) bool {
	for _, v := range values {
		if !yield(v, nil) {
			return false
		}
	}
	return true
}

// queryKeys returns the primary keys a query finds.
func (r *Repository) queryKeys(ctx context.Context, q query) ([]schema.Key, error) {
	var keys []schema.Key
	for page, err := range r.pages(ctx, q) {
		if err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			keys = append(keys, schema.KeyOf(item))
		}
	}
	return keys, nil
}

// getItem reads one item consistently; nil when it does not exist.
func (r *Repository) getItem(ctx context.Context, op string, key schema.Key) (schema.Item, error) {
	out, err := r.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &r.table, Key: key.Attributes(), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, r.translate(op, err)
	}
	if len(out.Item) == 0 {
		return nil, nil
	}
	return out.Item, nil
}

// batches are the table's requests of many items.
func (r *Repository) batches() ddb.Batches[schema.Key] {
	return ddb.Batches[schema.Key]{Table: r.table, Backoff: adminBackoff, KeyOf: schema.KeyOf}
}

// batchGet reads items consistently; an absent one has no entry.
func (r *Repository) batchGet(ctx context.Context, op string, keys []schema.Key) (map[schema.Key]schema.Item, error) {
	found, err := r.batches().Get(ctx, r.client, keys)
	return found, r.translate(op, err)
}

// batchDelete removes items, which need not exist.
func (r *Repository) batchDelete(ctx context.Context, op string, keys []schema.Key) error {
	return r.translate(op, r.batches().Delete(ctx, r.client, keys))
}
