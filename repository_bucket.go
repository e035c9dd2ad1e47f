package dynalimit

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// withoutRetries are the options of a write that must not be sent again blindly.
var withoutRetries = []func(*dynamodb.Options){ddb.WithoutRetries}

// withoutThrottleRetries are the options of a read of a bucket: its lane backs off.
var withoutThrottleRetries = []func(*dynamodb.Options){ddb.WithoutThrottleRetries}

// errWithoutItem is the error of a bucket that could not be made because it is there, by an
// answer that does not show it. No other try could do better.
var errWithoutItem = errors.New("dynalimit: create the bucket: the endpoint refuses a condition without the item " +
	"(ReturnValuesOnConditionCheckFailure), which DynamoDB sends; use DynamoDB, or an engine that sends it")

// buckets is a repository as a limiter's lanes see it.
type buckets struct {
	repo *Repository
	// fallback are the limiter's own limits, nil for none.
	fallback *fallbackLimits
}

// Update sends a conditional update of one bucket, once.
func (b buckets) Update(ctx context.Context, key schema.Item, st schema.Statement, hint *schema.LimitSet, slot int) lane.Answer {
	r := b.repo
	out, err := r.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                           &r.table,
		Key:                                 key,
		UpdateExpression:                    &st.Update,
		ConditionExpression:                 &st.Condition,
		ExpressionAttributeNames:            st.Names,
		ExpressionAttributeValues:           st.Values,
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, withoutRetries...)
	if err != nil {
		return r.refusal("write the bucket", err, hint, slot)
	}
	image, err := r.sets.DecodeBucket(out.Attributes, hint, slot)
	if err != nil {
		return lane.Answer{Verdict: landed, Err: r.layout.Malformed(err)}
	}
	return lane.Answer{Verdict: landed, Image: image, Seen: true}
}

// Create makes a bucket that must not exist yet, in whichever layout.
func (b buckets) Create(ctx context.Context, c *schema.Create, hint *schema.LimitSet, slot int) lane.Answer {
	r := b.repo
	if a, turned := r.takeover.beforeCreate(ctx, c.Entity, c.Resource, hint, slot); turned {
		return a
	}
	st := c.Statement()
	_, err := r.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                           &r.table,
		Key:                                 c.Keys.Bucket(c.Entity, c.Resource).Attributes(),
		UpdateExpression:                    &st.Update,
		ConditionExpression:                 &st.Condition,
		ExpressionAttributeNames:            st.Names,
		ExpressionAttributeValues:           st.Values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, withoutRetries...)
	if err != nil {
		a := r.refusal("create the bucket", err, hint, slot)
		if a.Verdict == refused && a.Image == nil {
			return lane.Answer{Verdict: failed, Err: errWithoutItem}
		}
		return a
	}
	image, err := r.sets.DecodeBucket(c.Item(), hint, slot)
	return lane.Answer{Verdict: landed, Image: image, Seen: err == nil, Err: err}
}

// readBucket reads one bucket consistently. The SDK may retry it: reads are
// idempotent.
func (r *Repository) readBucket(ctx context.Context, key schema.Item, hint *schema.LimitSet, slot int) (*schema.Image, error) {
	out, err := r.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &r.table, Key: key, ConsistentRead: aws.Bool(true)}, withoutThrottleRetries...)
	if err != nil {
		return nil, r.store.Failure("read the bucket", err)
	}
	image, err := r.sets.DecodeBucket(out.Item, hint, slot)
	if err != nil {
		return nil, r.layout.Malformed(err)
	}
	return image, nil
}

// bucketTransaction is a transaction that charges several buckets.
type bucketTransaction struct {
	items []types.TransactWriteItem
	// creates are the buckets that it makes, by their places among the items. sent means
	// that it was sent before.
	creates map[int]*schema.Create
	sent    bool
	// token lets DynamoDB recognise a repetition, for ten minutes.
	token string
}

// join adds the write of a bucket to a transaction.
func (r *Repository) join(t *bucketTransaction, at *lane.Lane, w *plan.Write, o schema.Op) {
	var st schema.Statement
	switch w.Kind {
	case plan.Create:
		w.Create.Keys, w.Create.Entity, w.Create.Resource, w.Create.OpID = r.keys, at.Entity, at.Resource, o.ID
		if t.creates == nil {
			t.creates = map[int]*schema.Create{}
		}
		t.creates[len(t.items)] = w.Create
		st = w.Create.Statement()
	case plan.Spend:
		w.Spend.Op = o
		st = w.Spend.Statement()
	default:
		w.Claim.Op = o
		st = w.Claim.Statement()
	}
	t.items = append(t.items, types.TransactWriteItem{Update: &types.Update{
		TableName: &r.table, Key: at.Key(), UpdateExpression: &st.Update, ConditionExpression: &st.Condition,
		ExpressionAttributeNames: st.Names, ExpressionAttributeValues: st.Values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}})
}

// transactBuckets sends one transaction, once. It returns the items of failed conditions
// as images, by their index in the transaction.
func (r *Repository) transactBuckets(ctx context.Context, t *bucketTransaction, slot int) (verdict, map[int]*schema.Image, error) {
	if !t.sent {
		if v, images, err := r.takeover.beforeCreates(ctx, t.creates, slot); v != landed {
			return v, images, err
		}
		t.sent = true
	}
	_, err := r.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: t.items, ClientRequestToken: &t.token}, withoutRetries...)
	if err == nil {
		return landed, nil, nil
	}
	d := ddb.Classify(err, ctx)
	images := make(map[int]*schema.Image, len(d.Items))
	for i, item := range d.Items {
		image, decodeErr := r.sets.DecodeBucket(item, nil, slot)
		if decodeErr != nil {
			return failed, nil, r.layout.Malformed(decodeErr)
		}
		if images[i] = image; image == nil && t.creates[i] != nil {
			return failed, nil, errWithoutItem
		}
	}
	if d.Verdict == ddb.TokenMismatch { // tokens are drawn at random: this is a bug of ours
		d.Verdict = failed
	}
	return d.Verdict, images, r.store.Failure("charge in a transaction", err)
}

// refusal turns the error of a write into an answer.
func (r *Repository) refusal(op string, err error, hint *schema.LimitSet, slot int) lane.Answer {
	d := ddb.Classify(err, context.Background())
	if d.Verdict != refused {
		return lane.Answer{Verdict: d.Verdict, Err: r.store.Failure(op, err)}
	}
	image, decodeErr := r.sets.DecodeBucket(d.Item, hint, slot)
	if decodeErr != nil {
		return lane.Answer{Verdict: failed, Err: r.layout.Malformed(decodeErr)}
	}
	return lane.Answer{Verdict: refused, Image: image, Seen: true}
}

// decodeBucket reads a bucket item that came with its configuration.
func (r *Repository) decodeBucket(item schema.Item, slot int) (*schema.Image, error) {
	image, err := r.sets.DecodeBucket(item, nil, slot)
	if err != nil {
		return nil, r.layout.Malformed(err)
	}
	return image, nil
}

// Read reads one bucket consistently.
func (b buckets) Read(ctx context.Context, key schema.Item, hint *schema.LimitSet, slot int) (*schema.Image, error) {
	return b.repo.readBucket(ctx, key, hint, slot)
}

// Probe asks DynamoDB to prove that a bucket can be written. It writes nothing.
func (b buckets) Probe(ctx context.Context, key schema.Item) error { return b.repo.probe(ctx, key) }

// setPause writes when a bucket's pause ends, or that it has ended. A bucket that does not exist is
// not made.
func (b buckets) setPause(ctx context.Context, key schema.Item, st schema.Statement, action string) error {
	r := b.repo
	_, err := r.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &r.table, Key: key, UpdateExpression: &st.Update, ConditionExpression: &st.Condition,
		ExpressionAttributeNames: st.Names, ExpressionAttributeValues: st.Values,
	})
	if err == nil || judge(err) == refused {
		return nil
	}
	return r.store.Failure(action, err)
}

// RereadConfig reads the limits of a bucket, whatever is cached.
func (b buckets) RereadConfig(ctx context.Context, entity, resource string, group bool) (*plan.Config, error) {
	resolved, err := b.repo.rereadConfig(ctx, givenKey{configKey: configKey{entity, resource, group}})
	var wrong *ValidationError
	switch {
	case errors.As(err, &wrong):
		return nil, &lane.Failure{Reason: lane.Misconfigured, Err: err}
	case err != nil:
		return nil, err
	}
	return b.fallback.compile(resolved, false), nil
}

// ForgetConfig makes the next use of a configuration read it again.
func (b buckets) ForgetConfig(entity, resource string, group bool) {
	b.repo.configs.drop(configKey{entity, resource, group})
}
