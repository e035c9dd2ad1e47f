package table

import (
	"context"
	"errors"
	"iter"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Scan is a read of the whole table, with all partitions.
type Scan struct {
	// Op names the operation in errors.
	Op string
	// Filter is the condition of the wanted keys. Other items are read, and
	// charged for, all the same.
	Filter schema.Statement
}

// ScanKeys reads the table to its end, consistently, and yields the wanted keys, one page for each request,
// even if a page has none. The first error, or ctx's once that ends, is yielded and ends it.
func (t *Table) ScanKeys(ctx context.Context, s Scan) iter.Seq2[ScanPage, error] {
	in := &dynamodb.ScanInput{
		TableName: &t.Name, ConsistentRead: aws.Bool(true), ProjectionExpression: aws.String("#pk, #sk"),
		FilterExpression: &s.Filter.Condition, ExpressionAttributeValues: s.Filter.Values,
		ExpressionAttributeNames: map[string]string{"#pk": schema.PK, "#sk": schema.SK},
	}
	for place, name := range s.Filter.Names {
		in.ExpressionAttributeNames[place] = name
	}
	return func(yield func(ScanPage, error) bool) {
		if err := t.checkReadable(ctx); err != nil {
			yield(ScanPage{}, err)
			return
		}
		for {
			out, err := t.scanPage(ctx, s.Op, in)
			if err != nil {
				yield(ScanPage{}, err)
				return
			}
			page := ScanPage{Read: int64(out.ScannedCount), Keys: make([]schema.Key, len(out.Items))}
			for i, item := range out.Items {
				page.Keys[i] = schema.KeyOf(item)
			}
			if !yield(page, nil) || len(out.LastEvaluatedKey) == 0 {
				return
			}
			next := *in
			next.ExclusiveStartKey = out.LastEvaluatedKey
			in = &next
		}
	}
}

// ScanPage is the result of one request of a Scan.
type ScanPage struct {
	// Keys are those that match the filter.
	Keys []schema.Key
	// Read is how many items were read.
	Read int64
}

// scanPage makes one request of a scan. While DynamoDB throttles it or does not answer, it repeats the
// request, up to Tries times. It returns the last error as Failure formulates it.
func (t *Table) scanPage(ctx context.Context, op string, in *dynamodb.ScanInput) (out *dynamodb.ScanOutput, err error) {
	err = RetryThrottled(ctx, func() (err error) {
		if err = ctx.Err(); err != nil {
			return err
		}
		out, err = t.Client.Scan(ctx, in)
		return t.Failure(op, err)
	})
	return out, err
}

// RetryThrottled calls try at most Tries times, with pauses, while DynamoDB throttles it or does not answer. It
// returns the last error, and stops once ctx has ended; the error then says so.
func RetryThrottled(ctx context.Context, try func() error) error {
	for n := 1; ; n++ {
		err := try()
		if !errors.Is(err, fault.ErrUnavailable) || n == Tries || !Backoff.Pause(ctx, n) {
			return ddb.WithEnd(ctx, err)
		}
	}
}
