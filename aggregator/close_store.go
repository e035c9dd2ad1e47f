package aggregator

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

const opClose = "close usage"

// usageStore reads and writes the stored usage of a namespace. It retries while
// DynamoDB is busy or does not answer, until ctx ends.
type usageStore struct {
	client Storage // nil where nothing is written
	table  *table.Table
	keys   schema.Keys
	// atOnce bounds how many requests are made at once.
	atOnce int
}

// indexQuery returns the query of a partition in the index of entity configurations, which also lists usage by
// hour and by day.
func indexQuery(op, partition string) table.Query {
	return table.Query{Op: op, Index: schema.IndexEntityConfigs, Hash: schema.GSI3PK, Value: partition}
}

// readCursor reads the UsageCursor of the namespace: the hours up to which usage is closed and final. It is
// zero before the first closing.
func (s *usageStore) readCursor(ctx context.Context) (schema.UsageCursor, error) {
	var item schema.Item
	err := table.RetryThrottled(ctx, func() (err error) {
		item, err = s.table.Get(ctx, opClose, s.keys.UsageClosed())
		return err
	})
	if err != nil {
		return schema.UsageCursor{}, err
	}
	return schema.DecodeUsageCursor(item)
}

// moveCursor stores the cursor to, if the stored one is still from, and returns the stored cursor. That is
// another one if another closer moved it first.
func (s *usageStore) moveCursor(ctx context.Context, from, to schema.UsageCursor) (schema.UsageCursor, error) {
	moved, err := s.updateItem(ctx, s.keys.UsageClosed(), to.ReplaceCursor(from))
	if err != nil || moved {
		return to, err
	}
	return s.readCursor(ctx)
}

// getItems reads items in the order of their keys; a missing one is nil. It retries a few times while DynamoDB
// throttles or does not answer.
func (s *usageStore) getItems(ctx context.Context, keys []schema.Key) (items []schema.Item, err error) {
	err = table.RetryThrottled(ctx, func() (err error) {
		items, err = s.table.GetMany(ctx, opClose, keys)
		return err
	})
	return items, err
}

// listKeys returns the keys of several queries, in the order of the queries. It runs atOnce queries at a time,
// and retries each a few times while DynamoDB throttles or does not answer.
func (s *usageStore) listKeys(ctx context.Context, lists ...table.Query) ([]schema.Key, error) {
	return gatherAll(ctx, s.atOnce, lists, func(ctx context.Context, q table.Query) (keys []schema.Key, err error) {
		err = table.RetryThrottled(ctx, func() (err error) {
			keys, err = s.table.Keys(ctx, q)
			return err
		})
		return keys, err
	})
}

// hourPartitions returns the queries that list the snapshots of an hour, one for each shard.
func (s *usageStore) hourPartitions(hour time.Time) []table.Query {
	all := make([]table.Query, schema.UsageShards)
	for shard := range all {
		all[shard] = indexQuery(opClose, s.keys.UsageHour(hour, shard))
	}
	return all
}

// itemsInRange reads the items of a partition from the key first to the key last, both included. It retries a
// few times while DynamoDB throttles or does not answer.
func (s *usageStore) itemsInRange(ctx context.Context, first, last schema.Key) (items []schema.Item, err error) {
	q := keyRange(opClose, first.PK, first, last)
	err = table.RetryThrottled(ctx, func() error {
		items = nil
		for item, err := range s.table.Items(ctx, q) {
			if err != nil {
				return err
			}
			items = append(items, item)
		}
		return nil
	})
	return items, err
}

// isOurs reports whether an item is a snapshot of the namespace that this library wrote. It is false for a
// missing item.
func (s *usageStore) isOurs(item schema.Item) bool {
	if len(item) == 0 {
		return false
	}
	keys, _, _, _, ok := schema.UsageOf(schema.KeyOf(item))
	return ok && keys == s.keys && !schema.OthersUsage(item)
}

// gatherAll calls read for each element, at most atOnce at a time, and joins the results in the
// order of the elements. The first error ends the others.
func gatherAll[A, B any](ctx context.Context, atOnce int, of []A, read func(context.Context, A) ([]B, error)) ([]B, error) {
	found := make([][]B, len(of))
	group, ctx := guard.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, one := range of {
		group.Go(func() (err error) {
			found[i], err = read(ctx, one)
			return err
		})
	}
	err := group.Wait()
	return slices.Concat(found...), err
}

// keyRange returns the query of a partition's items from one sort key to another, both included.
func keyRange(op, partition string, from, to schema.Key) table.Query {
	return table.Query{Op: op, Hash: schema.PK, Value: partition, From: from.SK, To: to.SK, Whole: true}
}

// updateItem updates an item and retries until DynamoDB answers or ctx ends. It returns false if the
// condition does not hold, possibly because an earlier, unanswered try of this call has changed the item.
func (s *usageStore) updateItem(ctx context.Context, key schema.Key, st schema.Statement) (bool, error) {
	return s.writeUntilAnswered(ctx, func() error {
		_, err := s.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &s.table.Name, Key: key.Attributes(), UpdateExpression: &st.Update, ConditionExpression: &st.Condition,
			ExpressionAttributeNames: st.Names, ExpressionAttributeValues: st.Values,
		}, ddb.WithoutRetries)
		return err
	})
}

// putSum puts a sum, with retries until DynamoDB answers, unless a newer or final one is stored. If only a
// newer time kept it out, later is the time at which the stored sum was made, in Unix ms; otherwise 0.
func (s *usageStore) putSum(ctx context.Context, sum schema.UsageSum) (later int64, err error) {
	st := sum.PutCondition()
	_, err = s.writeUntilAnswered(ctx, func() error {
		_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: &s.table.Name, Item: sum.Item(s.keys), ConditionExpression: &st.Condition,
			ExpressionAttributeNames: st.Names, ExpressionAttributeValues: st.Values,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}, ddb.WithoutRetries)
		if condition, refused := errors.AsType[*types.ConditionalCheckFailedException](err); refused {
			later = sum.LaterMadeTime(condition.Item)
		}
		return err
	})
	return later, err
}

// putRanking puts a ranking, with retries until DynamoDB answers or ctx ends. It writes nothing, without an
// error, if a later one is stored.
func (s *usageStore) putRanking(ctx context.Context, ranking schema.UsageRanking) error {
	st := ranking.PutCondition()
	_, err := s.writeUntilAnswered(ctx, func() error {
		_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: &s.table.Name, Item: ranking.Item(s.keys), ConditionExpression: &st.Condition,
			ExpressionAttributeNames: st.Names, ExpressionAttributeValues: st.Values,
		}, ddb.WithoutRetries)
		return err
	})
	return err
}

// writeUntilAnswered sends a write, which must be safe to repeat, until DynamoDB answers or ctx ends. It
// returns false if the condition does not hold. It fails at once for an error that a retry cannot cure.
func (s *usageStore) writeUntilAnswered(ctx context.Context, send func() error) (bool, error) {
	for try := 0; ; try++ {
		err := send()
		verdict := ddb.Classify(err, ctx)
		if verdict.Verdict == ddb.Landed || verdict.Verdict == ddb.Refused {
			return verdict.Verdict == ddb.Landed, nil
		}
		if verdict.Setting || !verdict.Verdict.Unavailable() || !pauses.Pause(ctx, try) {
			return false, ddb.WithEnd(ctx, s.table.Failure(opClose, err))
		}
	}
}
