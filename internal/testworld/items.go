package testworld

import (
	"encoding/json"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// DecodeItems decodes a list of items in DynamoDB's own JSON, as the AWS command line prints them: {"PK": {"S":
// "ENTITY#a"}}. It fails for number sets, binary sets and unknown types.
func DecodeItems(data []byte) ([]map[string]types.AttributeValue, error) {
	var raw []map[string]map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("read items: %w", err)
	}
	items := make([]map[string]types.AttributeValue, len(raw))
	for i, r := range raw {
		item, err := decodeAttributes(r)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		items[i] = item
	}
	return items, nil
}

// decodeAttributes decodes the attributes of an item or a map. The error names a malformed one.
func decodeAttributes(raw map[string]map[string]json.RawMessage) (map[string]types.AttributeValue, error) {
	item := make(map[string]types.AttributeValue, len(raw))
	for name, typed := range raw {
		v, err := decodeValue(typed)
		if err != nil {
			return nil, fmt.Errorf("attribute %s: %w", name, err)
		}
		item[name] = v
	}
	return item, nil
}

// decodeValue decodes one typed value, such as {"S": "a"}. It fails for number sets, binary sets and unknown
// types.
func decodeValue(typed map[string]json.RawMessage) (types.AttributeValue, error) {
	if len(typed) != 1 {
		return nil, fmt.Errorf("has %d types, want 1", len(typed))
	}
	for kind, data := range typed {
		switch kind {
		case "S":
			v := &types.AttributeValueMemberS{}
			return v, json.Unmarshal(data, &v.Value)
		case "N":
			v := &types.AttributeValueMemberN{}
			return v, json.Unmarshal(data, &v.Value)
		case "B":
			v := &types.AttributeValueMemberB{}
			return v, json.Unmarshal(data, &v.Value)
		case "BOOL":
			v := &types.AttributeValueMemberBOOL{}
			return v, json.Unmarshal(data, &v.Value)
		case "NULL":
			v := &types.AttributeValueMemberNULL{}
			return v, json.Unmarshal(data, &v.Value)
		case "SS":
			v := &types.AttributeValueMemberSS{}
			return v, json.Unmarshal(data, &v.Value)
		case "M":
			return decodeMap(data)
		case "L":
			return decodeList(data)
		default:
			return nil, fmt.Errorf("has the type %q, which is not read", kind)
		}
	}
	return nil, nil // not reached: typed has one entry
}

// decodeMap decodes the content of a value of type M and the values in it.
func decodeMap(data json.RawMessage) (types.AttributeValue, error) {
	var raw map[string]map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, err
	}
	m, err := decodeAttributes(raw)
	if err != nil {
		return nil, err
	}
	return &types.AttributeValueMemberM{Value: m}, nil
}

// decodeList decodes the content of a value of type L and the values in it.
func decodeList(data json.RawMessage) (types.AttributeValue, error) {
	var raw []map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, err
	}
	l := &types.AttributeValueMemberL{Value: make([]types.AttributeValue, len(raw))}
	for i, r := range raw {
		v, err := decodeValue(r)
		if err != nil {
			return nil, err
		}
		l.Value[i] = v
	}
	return l, nil
}
