package ledger

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// The attributes of counters and records.
const (
	attrCost      = "cost_picos"
	attrCredit    = "credit_picos"
	AttrSeq       = "n"
	attrRequests  = "requests"
	attrUpdated   = "updated_at_epoch"
	attrHash      = "payload_hash"
	attrShard     = "shard"
	attrShards    = "shards" // shards beside the first; only the first shard's item has it
	attrPrice     = "price_version"
	attrReopened  = "reopened"
	attrTokensEnd = "_tokens"
)

// DecodeCounter decodes the item of a counter's shard, or a stored total of a day. A nil item gives the zero
// Counter. A malformed attribute gives an error.
func DecodeCounter(item store.Item) (Counter, error) {
	var d store.Decoder
	row := Counter{
		Writes: d.Int(item, AttrSeq), Cost: d.Picos(item, attrCost), credit: d.Picos(item, attrCredit),
		Requests: d.Int(item, attrRequests),
	}
	for i, name := range TokenClasses {
		row.Tokens[i] = d.Int(item, name+attrTokensEnd)
	}
	return row, d.Err
}

// encodeCounter returns the names and values of row's attributes, in a fixed order: the number of writes, and
// each further number that is not 0.
func encodeCounter(row Counter) []namedValue {
	out := []namedValue{{AttrSeq, store.Int(row.Writes)}}
	if !row.Cost.IsZero() {
		out = append(out, namedValue{attrCost, store.Picos(row.Cost)})
	}
	if !row.credit.IsZero() {
		out = append(out, namedValue{attrCredit, store.Picos(row.credit)})
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
