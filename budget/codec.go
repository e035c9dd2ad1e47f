package budget

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/budget/internal/money"
)

// The attributes of counters and records. They are always addressed through
// aliases: some are reserved words.
const (
	attrCost      = "cost_picos"
	attrCredit    = "credit_picos"
	attrUsed      = "used_picos"
	attrSeq       = "n"
	attrRequests  = "requests"
	attrUpdated   = "updated_at_epoch"
	attrTTL       = "ttl_epoch"
	attrHash      = "payload_hash"
	attrWriter    = "writer"
	attrLabel     = "label"
	attrScope     = "scope"
	attrDay       = "day"
	attrShard     = "shard"
	attrPrice     = "price_version"
	attrReopened  = "reopened"
	attrTokensEnd = "_tokens"
)

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func num(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}
func picosValue(p money.Picos) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: p.String()}
}
func flag(b bool) types.AttributeValue { return &types.AttributeValueMemberBOOL{Value: b} }

func (k itemKey) attrs() attrs { return attrs{"PK": str(k.pk), "SK": str(k.sk)} }

func keyOf(item attrs) itemKey {
	var d decoder
	return itemKey{d.str(item, "PK"), d.str(item, "SK")}
}

// decoder reads attributes and keeps the first error. Absent attributes are
// zero.
type decoder struct{ err error }

var errItem = errors.New("malformed item")

func (d *decoder) fail(name string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: attribute %s", errItem, name)
	}
}

func (d *decoder) str(item attrs, name string) string {
	switch v := item[name].(type) {
	case nil:
	case *types.AttributeValueMemberS:
		return v.Value
	default:
		d.fail(name)
	}
	return ""
}

func (d *decoder) number(item attrs, name string) string {
	switch v := item[name].(type) {
	case nil:
	case *types.AttributeValueMemberN:
		return v.Value
	default:
		d.fail(name)
	}
	return "0"
}

func (d *decoder) int(item attrs, name string) int64 {
	n, err := strconv.ParseInt(d.number(item, name), 10, 64)
	if err != nil {
		d.fail(name)
	}
	return n
}

func (d *decoder) picos(item attrs, name string) money.Picos {
	p, err := money.Parse(d.number(item, name))
	if err != nil {
		d.fail(name)
	}
	return p
}

func (d *decoder) bool(item attrs, name string) bool {
	b, _ := item[name].(*types.AttributeValueMemberBOOL)
	return b != nil && b.Value
}

// decodeCounter reads a counter, a closed total, or nothing.
func decodeCounter(item attrs) (counterRow, error) {
	var d decoder
	row := counterRow{
		n: d.int(item, attrSeq), cost: d.picos(item, attrCost), credit: d.picos(item, attrCredit),
		used: d.picos(item, attrUsed), requests: d.int(item, attrRequests),
	}
	_, row.hard = item[attrUsed]
	for _, c := range tokenClasses {
		*c.count(&row.tokens) = d.int(item, c.name+attrTokensEnd)
	}
	return row, d.err
}

// encodeCounter is the attributes a counter's write adds to, in a fixed order.
func encodeCounter(row counterRow) []namedValue {
	out := []namedValue{{attrSeq, num(row.n)}}
	if !row.cost.IsZero() {
		out = append(out, namedValue{attrCost, picosValue(row.cost)})
	}
	if !row.credit.IsZero() {
		out = append(out, namedValue{attrCredit, picosValue(row.credit)})
	}
	if row.hard {
		out = append(out, namedValue{attrUsed, picosValue(row.used)})
	}
	if row.requests != 0 {
		out = append(out, namedValue{attrRequests, num(row.requests)})
	}
	for _, c := range tokenClasses {
		if n := *c.count(&row.tokens); n != 0 {
			out = append(out, namedValue{c.name + attrTokensEnd, num(n)})
		}
	}
	return out
}

type namedValue struct {
	name  string
	value types.AttributeValue
}

func decodeRecord(item attrs) (storedRecord, error) {
	var d decoder
	return storedRecord{
		hash: d.str(item, attrHash), writer: d.str(item, attrWriter), cost: d.picos(item, attrCost),
		label: d.str(item, attrLabel), scope: d.str(item, attrScope), day: d.str(item, attrDay),
		shard: int(d.int(item, attrShard)), priceVersion: d.str(item, attrPrice),
	}, d.err
}

func (r *record) item(writer string, shard int) attrs {
	item := r.key.attrs()
	for name, v := range map[string]string{
		attrHash: r.hash, attrWriter: writer, attrLabel: r.label, attrScope: r.scope,
		attrDay: r.day, attrPrice: r.priceVersion,
	} {
		item[name] = str(v)
	}
	item[attrCost] = picosValue(r.cost)
	item[attrShard] = num(int64(shard))
	item[attrTTL] = num(r.expires)
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
func (h *holdRef) item(key itemKey) attrs {
	item := key.attrs()
	item[attrHoldID] = str(h.id)
	item[attrScope] = str(h.scope)
	item[attrLabel] = str(h.label)
	item[attrDay] = str(h.day)
	item[attrEstimate] = picosValue(h.estimate)
	item[attrExpires] = num(h.expireMs)
	item[attrTTL] = num(h.ttl)
	counters := &types.AttributeValueMemberL{}
	for _, d := range h.debits {
		counters.Value = append(counters.Value, &types.AttributeValueMemberM{Value: attrs{
			"pk": str(d.pk), "prefix": str(d.prefix), "bare": flag(d.bare),
		}})
	}
	item[attrCounters] = counters
	return item
}

func decodeHold(item attrs) (*holdRef, error) {
	var d decoder
	h := &holdRef{
		id: d.str(item, attrHoldID), keys: []itemKey{keyOf(item)}, scope: d.str(item, attrScope),
		label: d.str(item, attrLabel), day: d.str(item, attrDay), estimate: d.picos(item, attrEstimate),
		expireMs: d.int(item, attrExpires), ttl: d.int(item, attrTTL),
	}
	counters, _ := item[attrCounters].(*types.AttributeValueMemberL)
	if counters == nil {
		d.fail(attrCounters)
		return nil, d.err
	}
	for _, v := range counters.Value {
		m, _ := v.(*types.AttributeValueMemberM)
		if m == nil {
			d.fail(attrCounters)
			break
		}
		h.debits = append(h.debits, debit{
			counterRef: counterRef{d.str(m.Value, "pk"), d.str(m.Value, "prefix"), 1},
			hard:       true, bare: d.bool(m.Value, "bare"),
		})
	}
	return h, d.err
}
