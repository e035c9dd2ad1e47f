package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	attrMetadata, attrMetadataText = "metadata", "metadata_json"

	// MaxMetadata bounds an entity's metadata in bytes. They are stored as text and as a map, in the children
	// index too, and in the event of each change.
	MaxMetadata = 16 << 10
	// MaxMetadataDepth bounds the nesting of its values. DynamoDB takes 32 levels, and an event needs some
	// for itself.
	MaxMetadataDepth = 24
)

// CheckMetadata returns why metadata is invalid, as a text, or "". It refuses more than MaxMetadata bytes,
// other text than UTF-8 JSON, and deep nesting; empty metadata is valid.
func CheckMetadata(text json.RawMessage) string {
	switch {
	case len(text) == 0:
		return ""
	case len(text) > MaxMetadata:
		return fmt.Sprintf("has %d bytes; at most %d are allowed", len(text), MaxMetadata)
	case !utf8.Valid(text):
		return "is not UTF-8; encode it, for example as base64 in a string"
	case !json.Valid(text):
		return "is not JSON; give one value, such as {\"team\":\"search\"}"
	}
	if depth := nestingDepth(text); depth > MaxMetadataDepth {
		return fmt.Sprintf("is nested %d deep; at most %d levels are allowed", depth, MaxMetadataDepth)
	}
	return ""
}

// nestingDepth returns the nesting depth of the arrays and objects of a valid JSON text; 0 for a scalar.
func nestingDepth(text json.RawMessage) int {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	depth, deepest := 0, 0
	for {
		token, err := d.Token()
		if err != nil { // the end: it is valid
			return deepest
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
			deepest = max(deepest, depth)
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}

// metadataMap returns metadata as a DynamoDB map attribute, for tools that read it as a map. The map is empty
// unless the metadata is a JSON object.
func metadataMap(text json.RawMessage) types.AttributeValue {
	if len(text) > 0 {
		if m, ok := FromJSON(text).(*types.AttributeValueMemberM); ok {
			return m
		}
	}
	return &types.AttributeValueMemberM{Value: Item{}}
}

// decodeMetadata returns a record's metadata as the stored JSON text. If another tool stored only a map, it
// returns the map as JSON; nil without metadata.
func decodeMetadata(item Item) json.RawMessage {
	if text := Text(item, attrMetadataText); text != "" && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	m, ok := item[attrMetadata].(*types.AttributeValueMemberM)
	if !ok || len(m.Value) == 0 {
		return nil
	}
	if once, ok := unmarshalMap(m.Value); ok {
		m = once
	}
	if len(m.Value) == 0 {
		return nil
	}
	return ToJSON(m)
}

// unmarshalMap reverses the double marshalling of zae-limiter. Each value is then a map of one entry, named
// by a type: {"team": {"S": "search"}}. The map itself may be one too: {"M": {"team": {"S": "search"}}}. It
// returns false for any other map.
func unmarshalMap(values Item) (*types.AttributeValueMemberM, bool) {
	if inner, ok := values["M"].(*types.AttributeValueMemberM); ok && len(values) == 1 {
		if m, ok := unmarshalValues(inner.Value); ok {
			return m, true
		}
	}
	return unmarshalValues(values)
}

// unmarshalValues reverses the double marshalling of every value of a map. It returns false if one is not
// marshalled twice.
func unmarshalValues(values Item) (*types.AttributeValueMemberM, bool) {
	m := make(Item, len(values))
	for name, value := range values {
		v, ok := unmarshalValue(value)
		if !ok {
			return nil, false
		}
		m[name] = v
	}
	return &types.AttributeValueMemberM{Value: m}, true
}

// unmarshalValue reverses the double marshalling of one value; false if the value is not marshalled twice.
func unmarshalValue(value types.AttributeValue) (types.AttributeValue, bool) {
	m, ok := value.(*types.AttributeValueMemberM)
	if !ok || len(m.Value) != 1 {
		return nil, false
	}
	for kind, inner := range m.Value {
		return unmarshalKind(kind, inner)
	}
	return nil, false
}

// unmarshalKind returns the value that zae-limiter marshalled as {kind: inner}. It returns false if inner
// does not fit the kind.
func unmarshalKind(kind string, inner types.AttributeValue) (types.AttributeValue, bool) {
	switch v := inner.(type) {
	case *types.AttributeValueMemberS:
		if kind == "N" {
			return &types.AttributeValueMemberN{Value: v.Value}, storable(v.Value)
		}
		return v, kind == "S"
	case *types.AttributeValueMemberN:
		return v, kind == "N"
	case *types.AttributeValueMemberBOOL:
		if kind == "NULL" {
			return &types.AttributeValueMemberNULL{Value: true}, true
		}
		return v, kind == "BOOL"
	case *types.AttributeValueMemberNULL:
		return v, kind == "NULL"
	case *types.AttributeValueMemberM:
		if kind == "M" {
			return unmarshalValues(v.Value)
		}
	case *types.AttributeValueMemberL:
		if kind == "L" {
			return unmarshalList(v.Value)
		}
	}
	return nil, false
}

// unmarshalList reverses the double marshalling of every element of a list. It returns false if one is not
// marshalled twice.
func unmarshalList(values []types.AttributeValue) (types.AttributeValue, bool) {
	list := make([]types.AttributeValue, len(values))
	for i, value := range values {
		v, ok := unmarshalValue(value)
		if !ok {
			return nil, false
		}
		list[i] = v
	}
	return &types.AttributeValueMemberL{Value: list}, true
}
