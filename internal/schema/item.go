package schema

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Item is a DynamoDB item.
type Item = map[string]types.AttributeValue

// Text returns an attribute of text: "" for an absent one or another type.
func Text(item Item, name string) string {
	if s, ok := item[name].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// KeyOf returns the primary key of an item; its parts are "" if the item lacks them.
func KeyOf(item Item) Key { return Key{Text(item, PK), Text(item, SK)} }

// Attributes returns the key as a new item of its two attributes.
func (k Key) Attributes() Item { return Item{PK: String(k.PK), SK: String(k.SK)} }

// decoder reads attributes and remembers the first malformed one.
type decoder struct {
	item Item
	err  error
}

// counter returns an integer attribute, 0 if it is absent. Beyond 64 bits it returns the nearest int64; a
// malformed value sets d.err.
func (d *decoder) counter(name string) int64 {
	switch v := d.item[name].(type) {
	case nil:
		return 0
	case *types.AttributeValueMemberN:
		if n, err := strconv.ParseInt(v.Value, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
			return n
		}
	}
	n, _ := d.number(name) // malformed
	return n
}

// number returns an integer attribute and true; 0 and false if it is absent or not of type N. A malformed
// number also returns true. Anything malformed sets d.err, unless d.err is set.
func (d *decoder) number(name string) (int64, bool) {
	switch v := d.item[name].(type) {
	case nil:
		return 0, false
	case *types.AttributeValueMemberN:
		n, err := strconv.ParseInt(v.Value, 10, 64)
		if err != nil && d.err == nil {
			d.err = fmt.Errorf("attribute %s holds %q, want an integer of 64 bits", name, v.Value)
		}
		return n, true
	default:
		if d.err == nil {
			d.err = fmt.Errorf("attribute %s is a %T, want a number", name, v)
		}
		return 0, false
	}
}

// bytes returns a binary attribute, nil for an absent one or another type. It records no error.
func (d *decoder) bytes(name string) []byte {
	if v, ok := d.item[name].(*types.AttributeValueMemberB); ok {
		return v.Value
	}
	return nil
}

// Number returns n as a DynamoDB attribute value of type N.
func Number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// String returns s as a DynamoDB attribute value of type S.
func String(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// Bytes returns b as a DynamoDB attribute value of type B. It does not copy b.
func Bytes(b []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: b} }
