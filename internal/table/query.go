package table

import (
	"cmp"
	"context"
	"iter"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// PageSize is how many items one query asks for: as many as one batch reads.
const PageSize = ddb.MaxBatchGet

// Query is a read of one partition of the table or of an index.
type Query struct {
	// Op names the operation in errors.
	Op string
	// Index is "" for the table itself, which is read consistently.
	Index string
	// Hash is the partition's key attribute, and Value its value.
	Hash, Value string
	// Sort is the sort key's attribute, which Prefix, From and To speak of: PK's is SK.
	Sort string
	// Prefix is the beginning of the wanted sort keys.
	Prefix string
	// From and To restrict the sort key to a range, both ends included, if To is set.
	From, To string
	// Count asks for the number of items alone.
	Count bool
	// Whole requests all attributes of the table; otherwise only keys. An index
	// returns its projected attributes.
	Whole bool
	// Newest begins with the end of the range.
	Newest bool
	// Page is how many items one request asks for. Defaults to PageSize.
	Page int32
}

// firstRequest returns the request for the first page of the query in the named table. The table itself is read
// consistently, an index is not; without Whole only the table's keys are read.
func (q Query) firstRequest(table string) *dynamodb.QueryInput {
	in := &dynamodb.QueryInput{
		TableName:                 &table,
		KeyConditionExpression:    aws.String("#0 = :0"),
		ExpressionAttributeNames:  map[string]string{"#0": q.Hash},
		ExpressionAttributeValues: schema.Item{":0": schema.String(q.Value)},
	}
	if q.Count {
		in.Select = types.SelectCount
	} else {
		in.Limit = aws.Int32(cmp.Or(q.Page, PageSize))
	}
	if q.Newest {
		in.ScanIndexForward = aws.Bool(false)
	}
	if q.Index != "" {
		in.IndexName = &q.Index
	} else {
		in.ConsistentRead = aws.Bool(true)
	}
	q.restrictSortKey(in)
	if q.Index == "" && !q.Whole && !q.Count {
		in.ProjectionExpression = aws.String("#0, #1")
		in.ExpressionAttributeNames["#1"] = schema.SK
	}
	return in
}

// restrictSortKey adds the condition on the sort key to in: the range From to To, or the prefix. It adds nothing
// without either.
func (q Query) restrictSortKey(in *dynamodb.QueryInput) {
	sort := q.Sort
	if sort == "" {
		sort = schema.SK
	}
	switch {
	case q.To != "":
		in.KeyConditionExpression = aws.String("#0 = :0 AND #1 BETWEEN :1 AND :2")
		in.ExpressionAttributeValues[":1"], in.ExpressionAttributeValues[":2"] = schema.String(q.From), schema.String(q.To)
	case q.Prefix != "":
		in.KeyConditionExpression = aws.String("#0 = :0 AND begins_with(#1, :1)")
		in.ExpressionAttributeValues[":1"] = schema.String(q.Prefix)
	default:
		return
	}
	in.ExpressionAttributeNames["#1"] = sort
}

// Pages yields the answers of a query, page after page, to its end, after a check that the table is readable.
// At the first error, or ctx's error once ctx has ended, it yields that with a nil page and ends.
func (t *Table) Pages(ctx context.Context, q Query) iter.Seq2[*dynamodb.QueryOutput, error] {
	return func(yield func(*dynamodb.QueryOutput, error) bool) {
		in := q.firstRequest(t.Name)
		if err := t.checkReadable(ctx); err != nil {
			yield(nil, err)
			return
		}
		for {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			out, err := t.Client.Query(ctx, in)
			if err != nil {
				yield(nil, t.Failure(q.Op, err))
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

// Items yields the items of a query, page by page, as Pages reads them. The first error is yielded with a nil
// item and ends it.
func (t *Table) Items(ctx context.Context, q Query) iter.Seq2[schema.Item, error] {
	return func(yield func(schema.Item, error) bool) {
		for page, err := range t.Pages(ctx, q) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !YieldAll(page.Items, yield) {
				return
			}
		}
	}
}

// Keys returns the primary keys of all items that a query finds, in its order and all in memory. At the first
// error it returns that alone.
func (t *Table) Keys(ctx context.Context, q Query) ([]schema.Key, error) {
	var keys []schema.Key
	for item, err := range t.Items(ctx, q) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, schema.KeyOf(item))
	}
	return keys, nil
}

// YieldAll yields every value with a nil error. It returns false if yield stopped the iteration.
func YieldAll[T any](values []T, yield func(T, error) bool) bool {
	for _, v := range values {
		if !yield(v, nil) {
			return false
		}
	}
	return true
}
