// Package store sends the requests about buckets: for lanes (it is their Store), for transactions, and for
// buckets in the table's older layout.
package store

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/layout"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// withoutThrottleRetries are the options of a read of a bucket, because its lane backs off itself.
var withoutThrottleRetries = []func(*dynamodb.Options){ddb.WithoutThrottleRetries}

// errWithoutItem is the error of a bucket that could not be made because it exists, while the answer does not
// show it. Another try would not help.
var errWithoutItem = errors.New("dynalimit: create the bucket: the endpoint refuses a condition without the item " +
	"(ReturnValuesOnConditionCheckFailure), which DynamoDB sends; use DynamoDB, or an engine that sends it")

// neverHolds is a condition that is false for every item, and for an absent item.
const neverHolds = "attribute_exists(" + schema.PK + ") AND attribute_not_exists(" + schema.PK + ")"

// Buckets reads and writes the buckets of a table. It implements lane.Store. Its fields are set
// once, before it is used.
type Buckets struct {
	// Table sends the requests. Writes that must not be repeated blindly go to Once instead, a client of the
	// same table that the SDK does not retry.
	Table *table.Table
	Once  table.Client
	// Keys are the keys of the table's namespace.
	Keys schema.Keys
	// Layout words the error of an item that cannot be read.
	Layout *layout.Layout
	// Sets are the shared sets of limits of images.
	Sets *schema.LimitSets
	// Takeover turns buckets of the older layout into buckets of the present one.
	Takeover *Takeover
}

// Update sends a conditional update of one bucket, once, and returns the verdict with the bucket's image, after
// a failed condition the current one. A landed update with an unreadable bucket has an error and no image. The
// hint is the limit set of an earlier image, which decoding can reuse; slot is the op slot of this process.
func (b *Buckets) Update(ctx context.Context, key schema.Item, st schema.Statement, hint *schema.LimitSet, slot int) lane.Answer {
	out, err := b.Once.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                           &b.Table.Name,
		Key:                                 key,
		UpdateExpression:                    &st.Update,
		ConditionExpression:                 &st.Condition,
		ExpressionAttributeNames:            st.Names,
		ExpressionAttributeValues:           st.Values,
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if err != nil {
		return b.failedAnswer("write the bucket", err, hint, slot)
	}
	image, err := b.Sets.DecodeBucket(out.Attributes, hint, slot)
	if err != nil {
		return lane.Answer{Verdict: ddb.Landed, Err: b.Layout.MalformedError(err)}
	}
	return lane.Answer{Verdict: ddb.Landed, Image: image, Seen: true}
}

// Create creates a bucket if it exists in neither layout, and returns its image, computed from c. If it exists,
// the verdict is Refused, with its image. If it exists in the older layout only, Create converts and logs it,
// and the verdict is Refused with the converted image.
func (b *Buckets) Create(ctx context.Context, c *schema.Create, hint *schema.LimitSet, slot int) lane.Answer {
	if !b.Layout.CompositeOnly() {
		if a, turned := b.Takeover.convertInsteadOfCreate(ctx, c.Entity, c.Resource, hint, slot); turned {
			return a
		}
	}
	st, item := c.Statement()
	_, err := b.Once.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                           &b.Table.Name,
		Key:                                 c.Keys.Bucket(c.Entity, c.Resource).Attributes(),
		UpdateExpression:                    &st.Update,
		ConditionExpression:                 &st.Condition,
		ExpressionAttributeNames:            st.Names,
		ExpressionAttributeValues:           st.Values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if err != nil {
		a := b.failedAnswer("create the bucket", err, hint, slot)
		if a.Verdict == ddb.Refused && a.Image == nil {
			return lane.Answer{Verdict: ddb.Failed, Err: errWithoutItem}
		}
		return a
	}
	image, err := b.Sets.DecodeBucket(item, b.Sets.Created(c), slot)
	return lane.Answer{Verdict: ddb.Landed, Image: image, Seen: err == nil, Err: err}
}

// failedAnswer turns the error of a write into an answer with its verdict. After a failed condition the answer
// has the image of the bucket from the error; an unreadable one is a failure. The op names the write in errors.
func (b *Buckets) failedAnswer(op string, err error, hint *schema.LimitSet, slot int) lane.Answer {
	d := ddb.Classify(err, context.Background())
	if d.Verdict != ddb.Refused {
		return lane.Answer{Verdict: d.Verdict, Err: b.Table.Failure(op, err)}
	}
	image, decodeErr := b.Sets.DecodeBucket(d.Item, hint, slot)
	if decodeErr != nil {
		return lane.Answer{Verdict: ddb.Failed, Err: b.Layout.MalformedError(decodeErr)}
	}
	return lane.Answer{Verdict: ddb.Refused, Image: image, Seen: true}
}

// Read reads one bucket consistently, and returns its image, nil if it does not exist; hint and slot are as in
// Update. Its errors can be shown to users. The SDK may retry it: reads are idempotent.
func (b *Buckets) Read(ctx context.Context, key schema.Item, hint *schema.LimitSet, slot int) (*schema.Image, error) {
	in := &dynamodb.GetItemInput{TableName: &b.Table.Name, Key: key, ConsistentRead: aws.Bool(true)}
	out, err := b.Table.Client.GetItem(ctx, in, withoutThrottleRetries...)
	if err != nil {
		return nil, b.Table.Failure("read the bucket", err)
	}
	return b.Decode(out.Item, hint, slot)
}

// Decode decodes a bucket's item, and returns nil for a nil item; hint and slot are as in Update. Its error can
// be shown to users.
func (b *Buckets) Decode(item schema.Item, hint *schema.LimitSet, slot int) (*schema.Image, error) {
	image, err := b.Sets.DecodeBucket(item, hint, slot)
	if err != nil {
		return nil, b.Layout.MalformedError(err)
	}
	return image, nil
}

// WritePause writes the end of a bucket's pause, or removes the pause, as st says. It does not create a missing
// bucket, and returns nil if the condition of st fails. op names the change in errors.
func (b *Buckets) WritePause(ctx context.Context, op string, key schema.Item, st schema.Statement) error {
	_, err := b.Table.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &b.Table.Name, Key: key, UpdateExpression: &st.Update, ConditionExpression: &st.Condition,
		ExpressionAttributeNames: st.Names, ExpressionAttributeValues: st.Values,
	})
	if err == nil || table.VerdictOf(err) == ddb.Refused {
		return nil
	}
	return b.Table.Failure(op, err)
}

// Probe checks that DynamoDB takes writes of one bucket. It sends an update with a condition that never holds,
// so that it writes nothing. The expected result is the error of a failed condition; a success is ErrForeign.
func (b *Buckets) Probe(ctx context.Context, key schema.Item) error {
	_, err := b.Once.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &b.Table.Name, Key: key, ConditionExpression: aws.String(neverHolds),
	})
	if err == nil {
		return ddb.ErrForeign
	}
	return err
}

// ProbeTable checks that the table takes writes, with an error as Probe has it. It probes a bucket that never
// exists, so that it disturbs no caller. The bucket differs each time, so that the probes reach every
// partition.
func (b *Buckets) ProbeTable(ctx context.Context) error {
	return b.Probe(ctx, b.Keys.Bucket("probe-"+rand.Text(), "probe").Attributes())
}
