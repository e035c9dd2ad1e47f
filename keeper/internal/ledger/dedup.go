package ledger

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// DedupKey is the item of a record: it says that the record was counted.
func DedupKey(org, app, request string) store.Key {
	return store.Key{PK: "DEDUP#" + org + "#" + app + "#" + request, SK: RootSK}
}

func (r *Record) item(writer string, shard int) store.Item {
	item := r.Key.Attributes()
	for name, v := range map[string]string{
		attrHash: r.Hash, store.AttrWriter: writer, store.AttrLabel: r.label, store.AttrScope: r.scope,
		store.AttrDay: r.day, attrPrice: r.PriceVersion,
	} {
		item[name] = store.String(v)
	}
	item[attrCost] = store.Picos(r.Cost)
	item[attrShard] = store.Int(int64(shard))
	item[store.AttrTTL] = store.Int(r.Expires)
	return item
}

func putAbsent(table string, item store.Item) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{
		TableName: &table, Item: item, ConditionExpression: aws.String(store.IfAbsent),
		ExpressionAttributeNames:            map[string]string{"#pk": "PK"},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}}
}

// DecodeRecord reads the item of a record.
func DecodeRecord(item store.Item) (Stored, error) {
	var d store.Decoder
	return Stored{
		Hash: d.String(item, attrHash), writer: d.String(item, store.AttrWriter), Cost: d.Picos(item, attrCost),
		Label: d.String(item, store.AttrLabel), Scope: d.String(item, store.AttrScope), Day: d.String(item, store.AttrDay),
		Shard: int(d.Int(item, attrShard)), PriceVersion: d.String(item, attrPrice),
	}, d.Err
}

// refusal is a condition of a transaction that did not hold, with what the item contains
// instead.
type refusal struct {
	item     int
	stored   Stored // of a dedup item
	adjusted *Adjustment
}

// resolve decides about the operations of a refused transaction. An operation whose item
// is there already was written before, by an earlier try of its own or by another who used
// its id: then it is a duplicate, and is finished. The others are tried again. Every
// refusal finishes one operation, so the tries come to an end.
func (t *transaction) resolve(refused []refusal) (finished, again []*Operation) {
	over := map[*Operation]bool{}
	for _, r := range refused {
		o := t.items[r.item].op
		o.refused(r)
		over[o] = true
	}
	for _, o := range t.ops {
		if over[o] {
			finished = append(finished, o)
		} else {
			again = append(again, o)
		}
	}
	return finished, again
}

// refused takes in what the operation's own item says.
func (o *Operation) refused(r refusal) {
	v := &o.Verdict
	if o.adjust != nil {
		v.Adjusted, v.Duplicate = r.adjusted, r.adjusted.writer != o.writer
		v.Conflict = v.Duplicate && !o.adjust.repeats(r.adjusted)
		return
	}
	v.Stored, v.Duplicate = r.stored, r.stored.writer != o.writer
	v.Conflict = v.Duplicate && r.stored.Hash != o.record.Hash
}
