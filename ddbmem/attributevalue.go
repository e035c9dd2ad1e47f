package ddbmem

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
)

type attributeValue = types.AttributeValue

// toSDKMap returns a new map with the attributes of m in the SDK's types. nil stays nil.
func toSDKMap(m value.Map) map[string]types.AttributeValue {
	if m == nil {
		return nil
	}
	out := make(map[string]types.AttributeValue, len(m))
	for name, v := range m {
		out[name] = toSDK(v)
	}
	return out
}

// toSDK converts one attribute value to the SDK's type, and copies lists, maps, sets and binaries. It returns
// nil for a nil value.
func toSDK(v value.Value) types.AttributeValue {
	switch v := v.(type) {
	case value.String:
		return &types.AttributeValueMemberS{Value: string(v)}
	case value.Number:
		return &types.AttributeValueMemberN{Value: v.String()}
	case value.Binary:
		return &types.AttributeValueMemberB{Value: []byte(v)}
	case value.Bool:
		return &types.AttributeValueMemberBOOL{Value: bool(v)}
	case value.Null:
		return &types.AttributeValueMemberNULL{Value: true}
	case value.List:
		return &types.AttributeValueMemberL{Value: mapSlice(v, toSDK)}
	case value.Map:
		return &types.AttributeValueMemberM{Value: toSDKMap(v)}
	case value.StringSet:
		return &types.AttributeValueMemberSS{Value: mapSlice(v, func(s string) string { return s })}
	case value.NumberSet:
		return &types.AttributeValueMemberNS{Value: mapSlice(v, value.Number.String)}
	case value.BinarySet:
		return &types.AttributeValueMemberBS{Value: mapSlice(v, func(s string) []byte { return []byte(s) })}
	}
	return nil
}

// fromSDKMap returns a new map, never nil, with attributes of the SDK's types converted. A number that DynamoDB
// would refuse becomes 0, and an unknown type becomes Null.
func fromSDKMap(m map[string]types.AttributeValue) value.Map {
	out := make(value.Map, len(m))
	for name, v := range m {
		out[name] = fromSDK(v)
	}
	return out
}

// fromSDK converts one attribute value from the SDK's type. nil and unknown types become Null; a number that
// DynamoDB would refuse becomes 0.
func fromSDK(v types.AttributeValue) value.Value {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return value.String(v.Value)
	case *types.AttributeValueMemberN:
		return parseOrZero(v.Value)
	case *types.AttributeValueMemberB:
		return value.Binary(v.Value)
	case *types.AttributeValueMemberBOOL:
		return value.Bool(v.Value)
	case *types.AttributeValueMemberL:
		return value.List(mapSlice(v.Value, fromSDK))
	case *types.AttributeValueMemberM:
		return fromSDKMap(v.Value)
	case *types.AttributeValueMemberSS:
		return value.StringSet(v.Value)
	case *types.AttributeValueMemberNS:
		return value.NumberSet(mapSlice(v.Value, parseOrZero))
	case *types.AttributeValueMemberBS:
		return value.BinarySet(mapSlice(v.Value, func(b []byte) string { return string(b) }))
	}
	return value.Null{}
}

// parseOrZero returns the number that s spells, and 0 if s is not a number that DynamoDB accepts.
func parseOrZero(s string) value.Number {
	n, err := value.ParseNumber(s)
	if err != nil {
		return value.Number{}
	}
	return n
}

// mapSlice returns a new slice with the results of calling one for every element of in, in its order. It is
// never nil.
func mapSlice[T, U any](in []T, one func(T) U) []U {
	out := make([]U, len(in))
	for i, v := range in {
		out[i] = one(v)
	}
	return out
}
