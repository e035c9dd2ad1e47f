package store

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/money"
)

// Names of attributes that several kinds of items share. Expressions address them through
// aliases, because some are reserved words.
const (
	AttrTTL    = "ttl_epoch" // unix seconds
	AttrWriter = "writer"
	AttrLabel  = "label"
	AttrScope  = "scope"
	AttrDay    = "day"
)

// String returns a DynamoDB string attribute.
func String(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// Int returns a DynamoDB number attribute.
func Int(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// Picos returns a DynamoDB number attribute with an exact amount of money, in pico-dollars.
func Picos(p money.Picos) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: p.String()}
}

// Bool returns a DynamoDB boolean attribute.
func Bool(b bool) types.AttributeValue { return &types.AttributeValueMemberBOOL{Value: b} }

// Attributes returns the key as an item.
func (k Key) Attributes() Item { return Item{"PK": String(k.PK), "SK": String(k.SK)} }

// KeyOf returns the key of a stored item.
func KeyOf(item Item) Key {
	var d Decoder
	return Key{d.String(item, "PK"), d.String(item, "SK")}
}

// Decoder reads attributes and records the first error. An absent attribute decodes to zero.
type Decoder struct {
	Err error // the first error, or nil
}

// ErrMalformed means that a stored item does not have the expected form.
var ErrMalformed = errors.New("malformed item")

// Fail records in d.Err that the attribute with a name cannot be decoded, unless an earlier error is recorded.
// The error matches ErrMalformed.
func (d *Decoder) Fail(name string) {
	if d.Err == nil {
		d.Err = fmt.Errorf("%w: attribute %s", ErrMalformed, name)
	}
}

// String returns a text attribute, or "" if it is missing. For another type it records an error
// in d.Err.
func (d *Decoder) String(item Item, name string) string {
	switch v := item[name].(type) {
	case nil:
	case *types.AttributeValueMemberS:
		return v.Value
	default:
		d.Fail(name)
	}
	return ""
}

// number returns the text of a number attribute, or "0" if the item has none. For an attribute of
// another type it records an error.
func (d *Decoder) number(item Item, name string) string {
	switch v := item[name].(type) {
	case nil:
	case *types.AttributeValueMemberN:
		return v.Value
	default:
		d.Fail(name)
	}
	return "0"
}

// Int returns a whole number, or 0 if it is missing. For anything else it records an error in
// d.Err.
func (d *Decoder) Int(item Item, name string) int64 {
	n, err := strconv.ParseInt(d.number(item, name), 10, 64)
	if err != nil {
		d.Fail(name)
	}
	return n
}

// Picos returns an exact amount of money, or 0 if it is missing. For anything else it records an
// error in d.Err.
func (d *Decoder) Picos(item Item, name string) money.Picos {
	p, err := money.ParsePicos(d.number(item, name))
	if err != nil {
		d.Fail(name)
	}
	return p
}

// Bool returns a boolean attribute, or false if it is missing. It returns false for another type too, and
// records no error.
func (d *Decoder) Bool(item Item, name string) bool {
	b, _ := item[name].(*types.AttributeValueMemberBOOL)
	return b != nil && b.Value
}
