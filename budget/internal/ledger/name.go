package ledger

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/budget/internal/money"
	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

// Name is what is kept of a reservation under the id that its caller chose, so that the
// same reservation sent again is found, from any process. It stays when the hold ends.
type Name struct {
	Key      store.Key   // see NameKey
	Label    string      // it was made under
	Model    string      // the label's model id then
	Day      string      // the call is counted on
	Estimate money.Picos // as asked for
	Reserved int64       // when, in unix milliseconds
	ExpireMs int64       // the end of its first lease, in unix milliseconds
	TTL      int64       // when its item may go, in unix seconds
	Hold     *Hold       // what is held; nil: nothing is, enforcement is soft
	writer   string
}

// The attributes of a name beside those of records and holds.
const (
	attrModel    = "model_id"
	attrReserved = "reserved_at_ms"
	attrHold     = "hold"
)

// NameKey is the item of a reservation under its caller's id.
func NameKey(org, app, id string) store.Key {
	return store.Key{PK: "HOLDID#" + org + "#" + app + "#" + id, SK: RootSK}
}

func (n *Name) item(writer string) store.Item {
	item := n.Key.Attributes()
	for name, v := range map[string]string{
		store.AttrWriter: writer, store.AttrLabel: n.Label, attrModel: n.Model, store.AttrDay: n.Day,
	} {
		item[name] = store.String(v)
	}
	item[attrEstimate] = store.Picos(n.Estimate)
	item[attrReserved], item[attrExpires] = store.Int(n.Reserved), store.Int(n.ExpireMs)
	item[store.AttrTTL] = store.Int(n.TTL)
	if n.Hold != nil {
		item[attrHold] = &types.AttributeValueMemberM{Value: n.Hold.item(n.Hold.Keys[0])}
	}
	return item
}

func decodeName(item store.Item) (*Name, error) {
	var d store.Decoder
	n := &Name{
		Key: store.KeyOf(item), Label: d.String(item, store.AttrLabel), Model: d.String(item, attrModel), Day: d.String(item, store.AttrDay),
		Estimate: d.Picos(item, attrEstimate), Reserved: d.Int(item, attrReserved), ExpireMs: d.Int(item, attrExpires),
		TTL: d.Int(item, store.AttrTTL), writer: d.String(item, store.AttrWriter),
	}
	held, ok := item[attrHold].(*types.AttributeValueMemberM)
	if !ok || d.Err != nil {
		return n, d.Err
	}
	var err error
	if n.Hold, err = decodeHold(held.Value); err == nil {
		n.Hold.Name = n.Key
	}
	return n, err
}

// Named makes a reservation keep what it was under its caller's id. Sent again it is a
// duplicate, see Verdict.Named.
func (o *Operation) Named(n *Name) {
	o.Hold.Name = n.Key
	n.Hold, n.ExpireMs, n.TTL = o.Hold, o.Hold.ExpireMs, o.Hold.TTL
	o.name = n
}

// ReadName reads what is kept under an id; nil if nothing is.
func (l *Ledger) ReadName(ctx context.Context, key store.Key) (*Name, error) {
	item, err := l.Store.Get(ctx, l.Store.Usage, key)
	if err != nil || item == nil {
		return nil, err
	}
	return decodeName(item)
}

// PutName keeps a reservation that holds nothing. It returns what is kept under the id
// already, nil if that is this one.
func (l *Ledger) PutName(ctx context.Context, n *Name) (before *Name, err error) {
	writer := store.NewID()
	item := n.item(writer)
	err = store.Retry(ctx, func() error {
		return l.Store.Put(ctx, l.Store.Usage, item, store.IfAbsent, map[string]string{"#pk": "PK"}, nil)
	})
	if store.Diagnose(err) != ddb.Refused {
		return nil, err
	}
	if before, err = decodeName(store.RefusedItem(err)); err == nil && before.writer == writer {
		before = nil // an earlier try landed
	}
	return before, err
}

// Find reads a hold: where it was, or wherever it was moved since; nil if it has ended.
func (l *Ledger) Find(ctx context.Context, scope string, expireMs int64, id string) (*Hold, error) {
	item, err := l.Store.Get(ctx, l.Store.Usage, holdKey(scope, expireMs, id))
	if err == nil && item == nil {
		err = l.Store.Query(ctx, l.Store.Usage, holdPK(scope), "0", "~", func(other store.Item) error {
			if v, _ := other[attrHoldID].(*types.AttributeValueMemberS); v != nil && v.Value == id {
				item = other
			}
			return nil
		})
	}
	if err != nil || item == nil {
		return nil, err
	}
	h, err := decodeHold(item)
	if err != nil || h.Estimate.IsZero() {
		return nil, err
	}
	return h, nil
}

// Moved is a hold that was made under its caller's id, if that is kept elsewhere than where the
// hold may be as far as h says; nil if it is not, and of other holds.
func (l *Ledger) Moved(ctx context.Context, h *Hold) (*Hold, error) {
	if h.Name == (store.Key{}) {
		return nil, nil
	}
	n, err := l.ReadName(ctx, h.Name)
	if err != nil || n == nil || n.Hold == nil || slices.Contains(h.Keys, n.Hold.Keys[0]) {
		return nil, err
	}
	return n.Hold, nil
}

// renamed is the write that keeps where a named hold is.
func (h *Hold) renamed(table string, to store.Key) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{
		TableName: &table, Key: h.Name.Attributes(),
		UpdateExpression:    aws.String("SET #h.#sk = :sk, #h.#e = :e"),
		ConditionExpression: aws.String("attribute_exists(#h)"),
		ExpressionAttributeNames: map[string]string{
			"#h": attrHold, "#sk": "SK", "#e": attrExpires,
		},
		ExpressionAttributeValues: store.Item{":sk": store.String(to.SK), ":e": store.Int(h.ExpireMs)},
	}}
}
