package leanddb

import (
	"encoding/base64"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// appendUpdate appends the JSON body of an UpdateItem request to b, as the SDK writes it. It returns false for
// values that the SDK cannot write. in must pass isPlainUpdate.
func appendUpdate(b []byte, in *dynamodb.UpdateItemInput) (_ []byte, ok bool) {
	b = append(b, '{')
	if in.ConditionExpression != nil {
		b = appendString(append(b, `"ConditionExpression":`...), *in.ConditionExpression)
		b = append(b, ',')
	}
	if in.ExpressionAttributeNames != nil {
		b = append(b, `"ExpressionAttributeNames":{`...)
		for k, v := range in.ExpressionAttributeNames {
			b = append(appendString(b, k), ':')
			b = append(appendString(b, v), ',')
		}
		b = append(closeList(b, '}'), ',')
	}
	if in.ExpressionAttributeValues != nil {
		if b, ok = appendMap(append(b, `"ExpressionAttributeValues":`...), in.ExpressionAttributeValues); !ok {
			return b, false
		}
		b = append(b, ',')
	}
	if b, ok = appendMap(append(b, `"Key":`...), in.Key); !ok {
		return b, false
	}
	if in.ReturnValues != "" {
		b = appendString(append(b, `,"ReturnValues":`...), string(in.ReturnValues))
	}
	if in.ReturnValuesOnConditionCheckFailure != "" {
		b = appendString(append(b, `,"ReturnValuesOnConditionCheckFailure":`...), string(in.ReturnValuesOnConditionCheckFailure))
	}
	b = appendString(append(b, `,"TableName":`...), *in.TableName)
	if in.UpdateExpression != nil {
		b = appendString(append(b, `,"UpdateExpression":`...), *in.UpdateExpression)
	}
	return append(b, '}'), true
}

// closeList ends a list or object with a comma after each member: end replaces the last comma in place, or
// follows an empty list.
func closeList(b []byte, end byte) []byte {
	if b[len(b)-1] == ',' {
		b[len(b)-1] = end
		return b
	}
	return append(b, end)
}

// appendMap appends a map of attribute values to b in JSON, in random order. It returns false for a value that
// appendValue cannot write.
func appendMap(b []byte, m map[string]types.AttributeValue) (_ []byte, ok bool) {
	b = append(b, '{')
	for k, v := range m {
		b = append(appendString(b, k), ':')
		if b, ok = appendValue(b, v); !ok {
			return b, false
		}
		b = append(b, ',')
	}
	return closeList(b, '}'), true
}

// appendValue appends one attribute value with its type to b in JSON. It returns false for nil, an unknown
// type, or one of these inside a map or list.
func appendValue(b []byte, v types.AttributeValue) (_ []byte, ok bool) {
	switch v := v.(type) {
	case *types.AttributeValueMemberN:
		b = appendString(append(b, `{"N":`...), v.Value)
	case *types.AttributeValueMemberS:
		b = appendString(append(b, `{"S":`...), v.Value)
	case *types.AttributeValueMemberB:
		b = appendBlob(append(b, `{"B":`...), v.Value)
	case *types.AttributeValueMemberBOOL:
		b = appendBool(append(b, `{"BOOL":`...), v.Value)
	case *types.AttributeValueMemberNULL:
		b = appendBool(append(b, `{"NULL":`...), v.Value)
	case *types.AttributeValueMemberM:
		if b, ok = appendMap(append(b, `{"M":`...), v.Value); !ok {
			return b, false
		}
	case *types.AttributeValueMemberL:
		b = append(b, `{"L":[`...)
		for _, e := range v.Value {
			if b, ok = appendValue(b, e); !ok {
				return b, false
			}
			b = append(b, ',')
		}
		b = closeList(b, ']')
	case *types.AttributeValueMemberSS:
		b = appendStrings(append(b, `{"SS":[`...), v.Value)
	case *types.AttributeValueMemberNS:
		b = appendStrings(append(b, `{"NS":[`...), v.Value)
	case *types.AttributeValueMemberBS:
		b = append(b, `{"BS":[`...)
		for _, e := range v.Value {
			b = append(appendBlob(b, e), ',')
		}
		b = closeList(b, ']')
	default:
		return b, false
	}
	return append(b, '}'), true
}

// appendStrings appends strings in JSON and a closing bracket to b; the caller has appended the opening one.
func appendStrings(b []byte, list []string) []byte {
	for _, s := range list {
		b = append(appendString(b, s), ',')
	}
	return closeList(b, ']')
}

// appendBool appends true or false to b, as in JSON.
func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, "true"...)
	}
	return append(b, "false"...)
}

// appendBlob appends bytes to b as a JSON string in base64, or null for nil.
func appendBlob(b, v []byte) []byte {
	if v == nil {
		return append(b, "null"...)
	}
	return append(base64.StdEncoding.AppendEncode(append(b, '"'), v), '"')
}

// appendString appends s to b as a quoted JSON string, with the SDK's escapes. An invalid byte becomes U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c > '~' {
			b = append(b, s[:i]...)
			return appendEscaped(b, s[i:])
		}
	}
	return append(append(b, s...), '"')
}

const hexDigits = "0123456789abcdef"

// appendEscaped appends s, the rest of a string that has characters to escape, and the closing quotation mark
// to b.
func appendEscaped(b []byte, s string) []byte {
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\u2028' || c == '\u2029': // line ends of JavaScript
			b = append(b, '\\', 'u', '2', '0', '2', hexDigits[c&0xf])
		case c < ' ' || c == '\x7f':
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		default:
			b = utf8.AppendRune(b, c) // an invalid byte becomes U+FFFD
		}
	}
	return append(b, '"')
}
