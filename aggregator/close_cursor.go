package aggregator

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

const opClose = "close usage"

// namespaces are those whose hours are closed. What is being purged is left alone.
func (c *Closer) namespaces(ctx context.Context) ([]string, error) {
	if len(c.options.Namespaces) > 0 {
		return c.options.Namespaces, nil
	}
	var keys []schema.Key
	list := table.Query{Op: opClose, Index: schema.IndexEntityConfigs, Hash: schema.GSI3PK, Value: schema.Keys{}.Namespaces()}
	for item, err := range c.table.Items(ctx, list) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, schema.KeyOf(item))
	}
	records, err := c.table.GetMany(ctx, opClose, keys)
	if err != nil {
		return nil, err
	}
	names := []string{""}
	for _, item := range records {
		if n, ok := schema.DecodeNamespace(item); ok && (n.State == schema.NamespaceActive || n.State == schema.NamespaceDeleted) {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (c *Closer) cursor(ctx context.Context, keys schema.Keys) (schema.UsageCursor, error) {
	var item schema.Item
	err := table.Patiently(ctx, func() (err error) {
		item, err = c.table.Get(ctx, opClose, keys.UsageClosed())
		return err
	})
	if err != nil {
		return schema.UsageCursor{}, err
	}
	return schema.DecodeUsageCursor(item)
}

// move moves the cursor on. It returns where it is then: somewhere else if another closer
// moved it meanwhile.
func (c *Closer) move(ctx context.Context, keys schema.Keys, from, to schema.UsageCursor) (schema.UsageCursor, error) {
	moved, err := c.update(ctx, keys.UsageClosed(), to.Follows(from))
	if err != nil || moved {
		return to, err
	}
	return c.cursor(ctx, keys)
}

// update updates an item. It is false if the statement's condition does not hold, which may
// be because a try before the last one changed the item, and its answer was lost.
func (c *Closer) update(ctx context.Context, key schema.Key, st schema.Statement) (bool, error) {
	return c.write(ctx, func() error {
		_, err := c.store.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &c.table.Name, Key: key.Attributes(), UpdateExpression: &st.Update, ConditionExpression: &st.Condition,
			ExpressionAttributeNames: st.Names, ExpressionAttributeValues: st.Values,
		}, ddb.WithoutRetries)
		return err
	})
}

// put puts a sum, unless a newer one is there. Where that one seems to have been read later,
// it returns when, in milliseconds since 1970; 0 else.
func (c *Closer) put(ctx context.Context, keys schema.Keys, sum schema.UsageSum) (later int64, err error) {
	st := sum.Newest()
	_, err = c.write(ctx, func() error {
		_, err := c.store.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: &c.table.Name, Item: keys.EncodeUsageSum(sum), ConditionExpression: &st.Condition,
			ExpressionAttributeNames: st.Names, ExpressionAttributeValues: st.Values,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}, ddb.WithoutRetries)
		if condition, refused := errors.AsType[*types.ConditionalCheckFailedException](err); refused {
			later = sum.Later(condition.Item)
		}
		return err
	})
	return later, err
}

// write makes a write that may be made twice, until DynamoDB serves it or ctx ends; false
// if its condition does not hold.
func (c *Closer) write(ctx context.Context, send func() error) (bool, error) {
	for try := 0; ; try++ {
		err := send()
		verdict := ddb.Classify(err, ctx)
		if verdict.Verdict == ddb.Landed || verdict.Verdict == ddb.Refused {
			return verdict.Verdict == ddb.Landed, nil
		}
		if verdict.Setting || !verdict.Verdict.Unavailable() || !pauses.Pause(ctx, try) {
			return false, c.table.Failure(opClose, err)
		}
	}
}
