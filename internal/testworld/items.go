package testworld

import (
	"encoding/json"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Items reads a list of items in DynamoDB's own JSON, as the AWS command line prints them:
// {"PK": {"S": "ENTITY#a"}}. Fixtures are kept in it.
func Items(data []byte) ([]map[string]types.AttributeValue, error) {
	var raw []map[string]map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("read items: %w", err)
	}
	items := make([]map[string]types.AttributeValue, len(raw))
	for i, r := range raw {
		item, err := attributes(r)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		items[i] = item
	}
	return items, nil
}

// attributes decodes the attributes of an item or a map. The error names the first malformed one.
func attributes(raw map[string]map[string]json.RawMessage) (map[string]types.AttributeValue, error) {
	item := make(map[string]types.AttributeValue, len(raw))
	for name, typed := range raw {
		v, err := value(typed)
		if err != nil {
			return nil, fmt.Errorf("attribute %s: %w", name, err)
		}
		item[name] = v
	}
	return item, nil
}

// value decodes one typed value, such as {"S": "a"}. It fails for number sets, binary sets and
// unknown types.
func value(typed map[string]json.RawMessage) (types.AttributeValue, error) {
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
			return mapValue(data)
		case "L":
			return listValue(data)
		default:
			return nil, fmt.Errorf("has the type %q, which is not read", kind)
		}
	}
	return nil, nil // not reached: typed has one entry
}

// mapValue decodes the content of a value of type M.
func mapValue(data json.RawMessage) (types.AttributeValue, error) {
	var raw map[string]map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, err
	}
	m, err := attributes(raw)
	if err != nil {
		return nil, err
	}
	return &types.AttributeValueMemberM{Value: m}, nil
}

// listValue decodes the content of a value of type L.
func listValue(data json.RawMessage) (types.AttributeValue, error) {
	var raw []map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, err
	}
	l := &types.AttributeValueMemberL{Value: make([]types.AttributeValue, len(raw))}
	for i, r := range raw {
		v, err := value(r)
		if err != nil {
			return nil, err
		}
		l.Value[i] = v
	}
	return l, nil
}
