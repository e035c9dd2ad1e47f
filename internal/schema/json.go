package schema

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// FromJSON turns a JSON value into an attribute that is readable in the table. A number beyond DynamoDB's
// precision becomes its text, and so does an object with a nameless entry. Malformed JSON becomes text too.
func FromJSON(text json.RawMessage) types.AttributeValue {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return String(string(text))
	}
	return attributeOf(v)
}

// attributeOf converts a decoded JSON value to a DynamoDB attribute. A number that DynamoDB would round becomes
// its text, and an object with an empty name its JSON text.
func attributeOf(v any) types.AttributeValue {
	switch v := v.(type) {
	case nil:
		return &types.AttributeValueMemberNULL{Value: true}
	case bool:
		return &types.AttributeValueMemberBOOL{Value: v}
	case json.Number:
		if !storable(v.String()) {
			return String(v.String())
		}
		return &types.AttributeValueMemberN{Value: v.String()}
	case []any:
		list := make([]types.AttributeValue, len(v))
		for i := range v {
			list[i] = attributeOf(v[i])
		}
		return &types.AttributeValueMemberL{Value: list}
	case map[string]any:
		if _, unnamed := v[""]; unnamed { // not allowed as a name in DynamoDB
			text, _ := json.Marshal(v) // it was read from JSON
			return String(string(text))
		}
		m := make(Item, len(v))
		for name, value := range v {
			m[name] = attributeOf(value)
		}
		return &types.AttributeValueMemberM{Value: m}
	case string:
		return String(v)
	}
	return String("")
}

// mostDigits is the number of significant digits of a DynamoDB number, mostExponent a bound of its exponent
// that leaves room for the digits.
const mostDigits, mostExponent = 38, 80

var jsonNumber = regexp.MustCompile(`^-?([0-9]+)(?:\.([0-9]+))?(?:[eE]([-+]?[0-9]+))?$`)

// storable reports whether DynamoDB surely stores a JSON number with all its digits. It takes at most 38
// digits, and an exponent of at most 80 either way.
func storable(number string) bool {
	parts := jsonNumber.FindStringSubmatch(number)
	if parts == nil || len(parts[1])+len(parts[2]) > mostDigits {
		return false
	}
	if parts[3] == "" {
		return true
	}
	exponent, err := strconv.Atoi(strings.TrimPrefix(parts[3], "+"))
	return err == nil && exponent <= mostExponent && exponent >= -mostExponent
}

// ToJSON returns a DynamoDB attribute as JSON, the reverse of FromJSON. Sets become lists and binary values
// base64. It returns nil for nil or if the value cannot be marshalled.
func ToJSON(v types.AttributeValue) json.RawMessage {
	if v == nil {
		return nil
	}
	text, err := json.Marshal(valueOf(v))
	if err != nil {
		return nil
	}
	return text
}

// valueOf returns a DynamoDB attribute as a Go value for encoding/json. Sets become slices; it returns nil for
// NULL and unknown types.
func valueOf(v types.AttributeValue) any {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberN:
		return json.Number(v.Value)
	case *types.AttributeValueMemberBOOL:
		return v.Value
	case *types.AttributeValueMemberB:
		return v.Value
	case *types.AttributeValueMemberL:
		list := make([]any, len(v.Value))
		for i := range v.Value {
			list[i] = valueOf(v.Value[i])
		}
		return list
	case *types.AttributeValueMemberM:
		m := make(map[string]any, len(v.Value))
		for name, value := range v.Value {
			m[name] = valueOf(value)
		}
		return m
	}
	return setValues(v)
}

// setValues returns the elements of a DynamoDB set as a slice for encoding/json; nil for any other type.
func setValues(v types.AttributeValue) any {
	switch v := v.(type) {
	case *types.AttributeValueMemberSS:
		return v.Value
	case *types.AttributeValueMemberBS:
		return v.Value
	case *types.AttributeValueMemberNS:
		list := make([]json.Number, len(v.Value))
		for i := range v.Value {
			list[i] = json.Number(v.Value[i])
		}
		return list
	}
	return nil
}
