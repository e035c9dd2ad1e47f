package ledger

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// The attributes of counters and records.
const (
	attrCost      = "cost_picos"
	attrCredit    = "credit_picos"
	attrUsed      = "used_picos"
	AttrSeq       = "n"
	attrRequests  = "requests"
	attrUpdated   = "updated_at_epoch"
	attrHash      = "payload_hash"
	attrShard     = "shard"
	attrPrice     = "price_version"
	attrReopened  = "reopened"
	attrTokensEnd = "_tokens"
)

// DecodeCounter reads a counter, a closed total, or nothing.
func DecodeCounter(item store.Item) (Counter, error) {
	var d store.Decoder
	row := Counter{
		Writes: d.Int(item, AttrSeq), Cost: d.Picos(item, attrCost), credit: d.Picos(item, attrCredit),
		Used: d.Picos(item, attrUsed), Requests: d.Int(item, attrRequests),
	}
	_, row.Hard = item[attrUsed]
	for i, name := range TokenClasses {
		row.Tokens[i] = d.Int(item, name+attrTokensEnd)
	}
	return row, d.Err
}

// encodeCounter is the attributes a counter's write adds to, in a fixed order.
func encodeCounter(row Counter) []namedValue {
	out := []namedValue{{AttrSeq, store.Int(row.Writes)}}
	if !row.Cost.IsZero() {
		out = append(out, namedValue{attrCost, store.Picos(row.Cost)})
	}
	if !row.credit.IsZero() {
		out = append(out, namedValue{attrCredit, store.Picos(row.credit)})
	}
	if row.Hard {
		out = append(out, namedValue{attrUsed, store.Picos(row.Used)})
	}
	if row.Requests != 0 {
		out = append(out, namedValue{attrRequests, store.Int(row.Requests)})
	}
	for i, name := range TokenClasses {
		if n := row.Tokens[i]; n != 0 {
			out = append(out, namedValue{name + attrTokensEnd, store.Int(n)})
		}
	}
	return out
}

type namedValue struct {
	name  string
	value types.AttributeValue
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

// The attributes of a hold.
const (
	attrHoldID   = "hold_id"
	attrApp      = "app_id"
	attrEstimate = "estimate_picos"
	attrExpires  = "expires_at_ms"
	attrCounters = "counters"
)

// item is the hold as stored: it names every counter it debits, so that anyone
// can give it back.
func (h *Hold) item(key store.Key) store.Item {
	item := key.Attributes()
	item[attrHoldID], item[attrApp] = store.String(h.ID), store.String(h.App)
	item[store.AttrScope] = store.String(h.Scope)
	item[store.AttrLabel] = store.String(h.Label)
	item[store.AttrDay] = store.String(h.Day)
	item[attrEstimate] = store.Picos(h.Estimate)
	item[attrExpires] = store.Int(h.ExpireMs)
	item[store.AttrTTL] = store.Int(h.TTL)
	counters := &types.AttributeValueMemberL{}
	for _, d := range h.Debits {
		counters.Value = append(counters.Value, &types.AttributeValueMemberM{Value: store.Item{
			"pk": store.String(d.PK), "prefix": store.String(d.Prefix), "bare": store.Bool(d.Bare),
		}})
	}
	item[attrCounters] = counters
	return item
}

func decodeHold(item store.Item) (*Hold, error) {
	var d store.Decoder
	h := &Hold{
		ID: d.String(item, attrHoldID), App: d.String(item, attrApp), Keys: []store.Key{store.KeyOf(item)}, Scope: d.String(item, store.AttrScope),
		Label: d.String(item, store.AttrLabel), Day: d.String(item, store.AttrDay), Estimate: d.Picos(item, attrEstimate),
		ExpireMs: d.Int(item, attrExpires), TTL: d.Int(item, store.AttrTTL),
	}
	counters, _ := item[attrCounters].(*types.AttributeValueMemberL)
	if counters == nil {
		d.Fail(attrCounters)
		return nil, d.Err
	}
	for _, v := range counters.Value {
		m, _ := v.(*types.AttributeValueMemberM)
		if m == nil {
			d.Fail(attrCounters)
			break
		}
		h.Debits = append(h.Debits, Debit{
			CounterRef: CounterRef{d.String(m.Value, "pk"), d.String(m.Value, "prefix"), 1},
			Hard:       true, Bare: d.Bool(m.Value, "bare"),
		})
	}
	h.Lane = h.lane()
	return h, d.Err
}
