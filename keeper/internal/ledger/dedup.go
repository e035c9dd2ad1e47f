package ledger

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// DedupKey returns the key in the usage table of the item that proves that a record was counted. request is the
// record's request id within its app.
func DedupKey(org, app, request string) store.Key {
	return store.Key{PK: "DEDUP#" + org + "#" + app + "#" + request, SK: RootSK}
}

// encodeItem returns the record's dedup item: payload hash, label, scope, day, cost, price version and expiry.
// writer is the id of the operation that counts it, shard the number of its counter's shard.
func (r *Record) encodeItem(writer string, shard int) store.Item {
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

// newPutIfAbsent returns a transaction write that stores item unless its key exists in the table. It sends
// nothing. If the key exists, the transaction fails and its error contains the stored item.
func newPutIfAbsent(table string, item store.Item) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{
		TableName: &table, Item: item, ConditionExpression: aws.String(store.IfAbsent),
		ExpressionAttributeNames:            map[string]string{"#pk": "PK"},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}}
}

// DecodeRecord decodes the dedup item of a counted record. A missing attribute gives a zero field; a malformed
// one gives an error that matches store.ErrMalformed.
func DecodeRecord(item store.Item) (Stored, error) {
	var d store.Decoder
	return Stored{
		Hash: d.String(item, attrHash), writer: d.String(item, store.AttrWriter), Cost: d.Picos(item, attrCost),
		Label: d.String(item, store.AttrLabel), Scope: d.String(item, store.AttrScope), Day: d.String(item, store.AttrDay),
		Shard: int(d.Int(item, attrShard)), PriceVersion: d.String(item, attrPrice),
	}, d.Err
}

// refusal is a failed condition of a transaction, with the stored item that made it fail.
type refusal struct {
	item     int
	stored   Stored // content of a dedup item
	adjusted *Adjustment
}

// resolveRefusals sets the verdicts of operations whose items exist already, by an own earlier try or another
// caller, and returns them as finished. The others, again, must be sent in another transaction. It wakes no
// caller.
func (t *transaction) resolveRefusals(refused []refusal) (finished, again []*Operation) {
	over := map[*Operation]bool{}
	for _, r := range refused {
		o := t.items[r.item].op
		o.applyRefusal(r)
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

// applyRefusal sets the operation's verdict from the stored item of the refusal. It sets Duplicate if another
// operation wrote that item, and then Conflict if its content differs. The item of an own earlier try counts as
// success.
func (o *Operation) applyRefusal(r refusal) {
	v := &o.Verdict
	if o.adjust != nil {
		v.Adjusted, v.Duplicate = r.adjusted, r.adjusted.writer != o.writer
		v.Conflict = v.Duplicate && !o.adjust.isRepeatOf(r.adjusted)
		return
	}
	v.Stored, v.Duplicate = r.stored, r.stored.writer != o.writer
	v.Conflict = v.Duplicate && r.stored.Hash != o.record.Hash
}
