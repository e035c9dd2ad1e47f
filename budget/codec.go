package budget

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// The attributes of counters and records.
const (
	attrCost      = "cost_picos"
	attrCredit    = "credit_picos"
	attrUsed      = "used_picos"
	attrSeq       = "n"
	attrRequests  = "requests"
	attrUpdated   = "updated_at_epoch"
	attrHash      = "payload_hash"
	attrShard     = "shard"
	attrPrice     = "price_version"
	attrReopened  = "reopened"
	attrTokensEnd = "_tokens"
)

// decodeCounter reads a counter, a closed total, or nothing.
func decodeCounter(item store.Item) (counterRow, error) {
	var d store.Decoder
	row := counterRow{
		n: d.Int(item, attrSeq), cost: d.Picos(item, attrCost), credit: d.Picos(item, attrCredit),
		used: d.Picos(item, attrUsed), requests: d.Int(item, attrRequests),
	}
	_, row.hard = item[attrUsed]
	for _, c := range tokenClasses {
		*c.count(&row.tokens) = d.Int(item, c.name+attrTokensEnd)
	}
	return row, d.Err
}

// encodeCounter is the attributes a counter's write adds to, in a fixed order.
func encodeCounter(row counterRow) []namedValue {
	out := []namedValue{{attrSeq, store.Int(row.n)}}
	if !row.cost.IsZero() {
		out = append(out, namedValue{attrCost, store.Picos(row.cost)})
	}
	if !row.credit.IsZero() {
		out = append(out, namedValue{attrCredit, store.Picos(row.credit)})
	}
	if row.hard {
		out = append(out, namedValue{attrUsed, store.Picos(row.used)})
	}
	if row.requests != 0 {
		out = append(out, namedValue{attrRequests, store.Int(row.requests)})
	}
	for _, c := range tokenClasses {
		if n := *c.count(&row.tokens); n != 0 {
			out = append(out, namedValue{c.name + attrTokensEnd, store.Int(n)})
		}
	}
	return out
}

type namedValue struct {
	name  string
	value types.AttributeValue
}

func decodeRecord(item store.Item) (storedRecord, error) {
	var d store.Decoder
	return storedRecord{
		hash: d.String(item, attrHash), writer: d.String(item, store.AttrWriter), cost: d.Picos(item, attrCost),
		label: d.String(item, store.AttrLabel), scope: d.String(item, store.AttrScope), day: d.String(item, store.AttrDay),
		shard: int(d.Int(item, attrShard)), priceVersion: d.String(item, attrPrice),
	}, d.Err
}

func (r *record) item(writer string, shard int) store.Item {
	item := r.key.Item()
	for name, v := range map[string]string{
		attrHash: r.hash, store.AttrWriter: writer, store.AttrLabel: r.label, store.AttrScope: r.scope,
		store.AttrDay: r.day, attrPrice: r.priceVersion,
	} {
		item[name] = store.String(v)
	}
	item[attrCost] = store.Picos(r.cost)
	item[attrShard] = store.Int(int64(shard))
	item[store.AttrTTL] = store.Int(r.expires)
	return item
}

// The attributes of a hold.
const (
	attrHoldID   = "hold_id"
	attrEstimate = "estimate_picos"
	attrExpires  = "expires_at_ms"
	attrCounters = "counters"
)

// item is the hold as stored: it names every counter it debits, so that anyone
// can give it back.
func (h *holdRef) item(key store.Key) store.Item {
	item := key.Item()
	item[attrHoldID] = store.String(h.id)
	item[store.AttrScope] = store.String(h.scope)
	item[store.AttrLabel] = store.String(h.label)
	item[store.AttrDay] = store.String(h.day)
	item[attrEstimate] = store.Picos(h.estimate)
	item[attrExpires] = store.Int(h.expireMs)
	item[store.AttrTTL] = store.Int(h.ttl)
	counters := &types.AttributeValueMemberL{}
	for _, d := range h.debits {
		counters.Value = append(counters.Value, &types.AttributeValueMemberM{Value: store.Item{
			"pk": store.String(d.pk), "prefix": store.String(d.prefix), "bare": store.Bool(d.bare),
		}})
	}
	item[attrCounters] = counters
	return item
}

func decodeHold(item store.Item) (*holdRef, error) {
	var d store.Decoder
	h := &holdRef{
		id: d.String(item, attrHoldID), keys: []store.Key{store.KeyOf(item)}, scope: d.String(item, store.AttrScope),
		label: d.String(item, store.AttrLabel), day: d.String(item, store.AttrDay), estimate: d.Picos(item, attrEstimate),
		expireMs: d.Int(item, attrExpires), ttl: d.Int(item, store.AttrTTL),
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
		h.debits = append(h.debits, debit{
			counterRef: counterRef{d.String(m.Value, "pk"), d.String(m.Value, "prefix"), 1},
			hard:       true, bare: d.Bool(m.Value, "bare"),
		})
	}
	return h, d.Err
}
