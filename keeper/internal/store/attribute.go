package store

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/money"
)

// Names of attributes that several kinds of items have. They are always addressed
// through aliases: some are reserved words.
const (
	AttrTTL    = "ttl_epoch" // unix seconds
	AttrWriter = "writer"
	AttrLabel  = "label"
	AttrScope  = "scope"
	AttrDay    = "day"
)

// String is a string attribute.
func String(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// Int is a whole number.
func Int(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// Picos is an exact amount of money.
func Picos(p money.Picos) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: p.String()}
}

// Bool is a truth value.
func Bool(b bool) types.AttributeValue { return &types.AttributeValueMemberBOOL{Value: b} }

// Attributes returns the key as an item.
func (k Key) Attributes() Item { return Item{"PK": String(k.PK), "SK": String(k.SK)} }

// KeyOf is the key of a stored item.
func KeyOf(item Item) Key {
	var d Decoder
	return Key{d.String(item, "PK"), d.String(item, "SK")}
}

// Decoder reads attributes and keeps the first error. Absent attributes are
// zero.
type Decoder struct {
	Err error // the first; nil while all could be read
}

// ErrMalformed says that an item is not as it is written here.
var ErrMalformed = errors.New("malformed item")

// Fail notes an attribute that cannot be read.
func (d *Decoder) Fail(name string) {
	if d.Err == nil {
		d.Err = fmt.Errorf("%w: attribute %s", ErrMalformed, name)
	}
}

// String reads a string.
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

// Int reads a whole number.
func (d *Decoder) Int(item Item, name string) int64 {
	n, err := strconv.ParseInt(d.number(item, name), 10, 64)
	if err != nil {
		d.Fail(name)
	}
	return n
}

// Picos reads an exact amount of money.
func (d *Decoder) Picos(item Item, name string) money.Picos {
	p, err := money.Parse(d.number(item, name))
	if err != nil {
		d.Fail(name)
	}
	return p
}

// Bool reads a truth value; another type is false.
func (d *Decoder) Bool(item Item, name string) bool {
	b, _ := item[name].(*types.AttributeValueMemberBOOL)
	return b != nil && b.Value
}
