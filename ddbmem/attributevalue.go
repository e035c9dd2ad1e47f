package ddbmem

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
)

type attributeValue = types.AttributeValue

// toSDKMap is m in the SDK's types, nil for nil.
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

// fromSDKMap is m as stored; a number the SDK's types hold but DynamoDB would not
// counts as 0.
func fromSDKMap(m map[string]types.AttributeValue) value.Map {
	out := make(value.Map, len(m))
	for name, v := range m {
		out[name] = fromSDK(v)
	}
	return out
}

func fromSDK(v types.AttributeValue) value.Value {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return value.String(v.Value)
	case *types.AttributeValueMemberN:
		return parsedNumber(v.Value)
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
		return value.NumberSet(mapSlice(v.Value, parsedNumber))
	case *types.AttributeValueMemberBS:
		return value.BinarySet(mapSlice(v.Value, func(b []byte) string { return string(b) }))
	}
	return value.Null{}
}

func parsedNumber(s string) value.Number {
	n, err := value.ParseNumber(s)
	if err != nil {
		return value.Number{}
	}
	return n
}

func mapSlice[T, U any](in []T, one func(T) U) []U {
	out := make([]U, len(in))
	for i, v := range in {
		out[i] = one(v)
	}
	return out
}
