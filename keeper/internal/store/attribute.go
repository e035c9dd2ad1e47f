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

// Int returns a DynamoDB number attribute with the value n.
func Int(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// Picos returns a DynamoDB number attribute with the amount p in pico-dollars, without rounding.
func Picos(p money.Picos) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: p.String()}
}

// Bool returns a DynamoDB boolean attribute.
func Bool(b bool) types.AttributeValue { return &types.AttributeValueMemberBOOL{Value: b} }

// Attributes returns a new item with only the key's attributes, PK and SK. Callers may add attributes to it.
func (k Key) Attributes() Item { return Item{"PK": String(k.PK), "SK": String(k.SK)} }

// KeyOf returns the key of an item from its attributes PK and SK. A missing or malformed one becomes "",
// without an error.
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

// Fail sets d.Err to an error that names the attribute and matches ErrMalformed. If d.Err is set already, it
// does nothing.
func (d *Decoder) Fail(name string) {
	if d.Err == nil {
		d.Err = fmt.Errorf("%w: attribute %s", ErrMalformed, name)
	}
}

// String returns the text of the item's attribute with a name, or "" if it is missing. For another type it
// returns "" and records an error in d.Err.
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

// number returns the decimal text of the item's number attribute with a name, or "0" if it is missing. For
// another type it returns "0" and records an error in d.Err.
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

// Int returns the item's number attribute with a name, or 0 if it is missing. For another type, or a number
// that is not an int64, it records an error in d.Err.
func (d *Decoder) Int(item Item, name string) int64 {
	n, err := strconv.ParseInt(d.number(item, name), 10, 64)
	if err != nil {
		d.Fail(name)
	}
	return n
}

// Picos returns the item's amount of money, stored in pico-dollars, or 0 if it is missing. For another type or
// a malformed amount it records an error in d.Err.
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
