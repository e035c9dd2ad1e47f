package ledger

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// sendOnce sends the transaction in one request without retries, and returns the error of that. DynamoDB
// applies repetitions with the same token within ten minutes once. nowSec becomes the counters' time of change,
// in Unix seconds.
func (t *transaction) sendOnce(ctx context.Context, s *store.Store, token string, nowSec int64) error {
	in := &dynamodb.TransactWriteItemsInput{
		ClientRequestToken: &token,
		TransactItems:      make([]types.TransactWriteItem, len(t.items)),
	}
	for i, it := range t.items {
		if it.kind == putEvent { // its key contains a unique id
			in.TransactItems[i].Put = &types.Put{TableName: &s.Control, Item: it.op.adjust.Event}
			continue
		}
		in.TransactItems[i] = t.encodeWrite(s.Usage, it, nowSec)
	}
	_, err := s.Client.TransactWriteItems(ctx, in, store.Once)
	return err
}

// encodeWrite returns one write of t, of any kind but putEvent, in DynamoDB's form for the usage table. It
// sends nothing. nowSec becomes a counter's time of change, in Unix seconds.
func (t *transaction) encodeWrite(table string, it write, nowSec int64) types.TransactWriteItem {
	switch it.kind {
	case putDedup:
		return newPutIfAbsent(table, it.op.record.encodeItem(it.op.writer, t.shardOf(it.op)))
	case putAudit:
		item := it.op.adjust.encodeItem(it.key)
		item[store.AttrTTL] = store.Int(it.op.expires)
		return newPutIfAbsent(table, item)
	case putMark:
		return types.TransactWriteItem{Put: &types.Put{TableName: &table, Item: it.markItem()}}
	case reopenDay:
		return types.TransactWriteItem{Update: &types.Update{
			TableName: &table, Key: it.key.Attributes(),
			UpdateExpression:          aws.String("SET #2 = if_not_exists(#2, :2) ADD #0 :0 REMOVE #1"),
			ExpressionAttributeNames:  map[string]string{"#0": attrReopened, "#1": AttrSeq, "#2": store.AttrTTL},
			ExpressionAttributeValues: store.Item{":0": store.Int(1), ":2": store.Int(t.ops[0].expires)},
		}}
	}
	update := counterUpdate(it.sum, nowSec, t.ops[0].expires)
	update.TableName, update.Key = &table, it.key.Attributes()
	return types.TransactWriteItem{Update: update}
}

// markItem returns the item that marks that a scope has spend under a label on a day. It expires marksKept and
// two days after the day. It stores nothing.
func (it write) markItem() store.Item {
	item := it.key.Attributes()
	item["org_id"], item[store.AttrScope] = store.String(it.op.Org), store.String(it.op.Scope)
	item[store.AttrTTL] = store.Int(expirySeconds(it.op.day, marksKept))
	return item
}

// counterUpdate returns an update, without table and key, that adds sum to a counter and sets its time of
// change to nowSec. It sets the expiry to expires unless one is set. Both times are Unix seconds.
func counterUpdate(sum Counter, nowSec, expires int64) *types.Update {
	names := map[string]string{"#t": attrUpdated, "#ttl": store.AttrTTL}
	values := store.Item{":t": store.Int(nowSec), ":ttl": store.Int(expires)}
	var add strings.Builder
	for i, v := range encodeCounter(sum) {
		if i > 0 {
			add.WriteString(", ")
		}
		k := strconv.Itoa(i)
		add.WriteString("#" + k + " :" + k)
		names["#"+k], values[":"+k] = v.name, v.value
	}
	return &types.Update{
		UpdateExpression:         aws.String("SET #t = :t, #ttl = if_not_exists(#ttl, :ttl) ADD " + add.String()),
		ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	}
}

// decodeRefusals returns the failed conditions of a cancelled transaction, each with the decoded record or
// adjustment that the store has. It returns err if no condition failed, or one that t cannot have, and an error
// for an undecodable item.
func (t *transaction) decodeRefusals(err error) ([]refusal, error) {
	d := ddb.Classify(err, context.Background())
	if d.Items == nil {
		return nil, err
	}
	var out []refusal
	for _, i := range slices.Sorted(maps.Keys(d.Items)) {
		if i >= len(t.items) {
			continue
		}
		r := refusal{item: i}
		var decodeErr error
		switch t.items[i].kind {
		case putDedup:
			r.stored, decodeErr = DecodeRecord(d.Items[i])
		case putAudit:
			r.adjusted, decodeErr = DecodeAdjustment(d.Items[i])
		default:
			return nil, err // the other kinds have no condition
		}
		if decodeErr != nil {
			return nil, decodeErr
		}
		out = append(out, r)
	}
	return out, nil
}
