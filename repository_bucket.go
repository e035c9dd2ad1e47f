package dynalimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// answer is what came of a request about one bucket.
type answer struct {
	verdict verdict
	// image is the bucket after a landed write, or as it was when a condition
	// failed; nil when there is no item. seen says that the answer showed it.
	image *schema.Image
	seen  bool
	err   error
	// tries is how many requests it took.
	tries int
}

// withoutRetries turns off the SDK's blind retry: an ADD that landed and is
// sent again counts twice.
var withoutRetries = []func(*dynamodb.Options){func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }}

// maxReadBackoff bounds the waits between the tries of a read.
const maxReadBackoff = 400 * time.Millisecond

// quickRetries leaves reads to the client's retryer, which is idempotent, but
// with short waits: an acquire that cannot read should say so within a second,
// not after the SDK's backoff of up to 20 s.
var quickRetries = []func(*dynamodb.Options){func(o *dynamodb.Options) {
	o.Retryer = retry.AddWithMaxBackoffDelay(o.Retryer, maxReadBackoff)
}}

// updateBucket sends a conditional update of one bucket, once.
func (r *Repository) updateBucket(ctx context.Context, key schema.Item, st schema.Statement, hint *schema.LimitSet, slot int) answer {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	asked := r.clock.source()
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
		return r.refusal("write the bucket", err, asked, hint, slot)
	}
	r.observeDate(out.ResultMetadata, asked)
	image, err := r.sets.DecodeBucket(out.Attributes, hint, slot)
	if err != nil {
		return answer{verdict: landed, err: r.malformed(err)}
	}
	return answer{verdict: landed, image: image, seen: true}
}

// createBucket puts a bucket that must not exist yet.
func (r *Repository) createBucket(ctx context.Context, c *schema.Create, hint *schema.LimitSet, slot int) answer {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	asked := r.clock.source()
	item := c.Item()
	out, err := r.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName:                           &r.table,
		Item:                                item,
		ConditionExpression:                 aws.String(schema.CreateCondition),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, withoutRetries...)
	if err != nil {
		return r.refusal("create the bucket", err, asked, hint, slot)
	}
	r.observeDate(out.ResultMetadata, asked)
	image, err := r.sets.DecodeBucket(item, hint, slot)
	return answer{verdict: landed, image: image, seen: err == nil, err: err}
}

// readBucket reads one bucket consistently. Reads are idempotent: the SDK may
// retry them.
func (r *Repository) readBucket(ctx context.Context, key schema.Item, hint *schema.LimitSet, slot int) (*schema.Image, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	asked := r.clock.source()
	out, err := r.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &r.table, Key: key, ConsistentRead: aws.Bool(true)}, quickRetries...)
	if err != nil {
		return nil, r.translate("read the bucket", err)
	}
	r.observeDate(out.ResultMetadata, asked)
	image, err := r.sets.DecodeBucket(out.Item, hint, slot)
	if err != nil {
		return nil, r.malformed(err)
	}
	return image, nil
}

// transactBuckets sends one transaction, once. The items of failed conditions
// come back as images by their place.
func (r *Repository) transactBuckets(ctx context.Context, items []types.TransactWriteItem, token string, slot int) (verdict, map[int]*schema.Image, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	asked := r.clock.source()
	out, err := r.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: items, ClientRequestToken: &token}, withoutRetries...)
	if err == nil {
		r.observeDate(out.ResultMetadata, asked)
		return landed, nil, nil
	}
	r.observeErrorDate(err, asked)
	v, failedItems := judgeTransaction(err)
	images := make(map[int]*schema.Image, len(failedItems))
	for i, item := range failedItems {
		image, decodeErr := r.sets.DecodeBucket(item, nil, slot)
		if decodeErr != nil {
			return failed, nil, r.malformed(decodeErr)
		}
		images[i] = image
	}
	return v, images, r.translate("charge in a transaction", err)
}

// refusal reads an error of a write.
func (r *Repository) refusal(op string, err error, asked time.Time, hint *schema.LimitSet, slot int) answer {
	r.observeErrorDate(err, asked)
	v, item := judge(err)
	if v != refused {
		return answer{verdict: v, err: r.translate(op, err)}
	}
	image, decodeErr := r.sets.DecodeBucket(item, hint, slot)
	if decodeErr != nil {
		return answer{verdict: failed, err: r.malformed(decodeErr)}
	}
	return answer{verdict: refused, image: image, seen: true}
}

// decodeBucket reads a bucket item that came with its configuration.
func (r *Repository) decodeBucket(item schema.Item, slot int) (*schema.Image, error) {
	image, err := r.sets.DecodeBucket(item, nil, slot)
	if err != nil {
		return nil, r.malformed(err)
	}
	return image, nil
}

// forgetConfig makes the next use of a configuration read it again.
func (r *Repository) forgetConfig(entity, resource string) {
	r.configs.drop(configKey{entity, resource})
}

func (r *Repository) malformed(err error) error {
	return fmt.Errorf("dynalimit: a bucket of table %q is malformed: %w; delete the item and it is made anew", r.table, err)
}

func (r *Repository) observeDate(meta middleware.Metadata, asked time.Time) {
	if !r.clock.correct {
		return
	}
	if date, ok := awsmiddleware.GetServerTime(meta); ok {
		r.clock.observe(date, asked, r.clock.source())
	}
}

func (r *Repository) observeErrorDate(err error, asked time.Time) {
	var response *smithyhttp.ResponseError
	if !r.clock.correct || !errors.As(err, &response) || response.Response == nil {
		return
	}
	if date, parseErr := http.ParseTime(response.Response.Header.Get("Date")); parseErr == nil {
		r.clock.observe(date, asked, r.clock.source())
	}
}
