package leanddb

import (
	"encoding/base64"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// decodeUpdate decodes the JSON body of a success. It returns false for a body that DynamoDB does not send to a
// plain request, or with anything unusual; the SDK then reads it.
func decodeUpdate(body []byte) (*dynamodb.UpdateItemOutput, bool) {
	out := &dynamodb.UpdateItemOutput{}
	d := newDecoder(body)
	ok := d.readObject(func(name string) bool {
		return name == "Attributes" && out.Attributes == nil && d.readItem(&out.Attributes)
	})
	return out, ok && d.atEnd()
}

// failedCondition is the code of a failed condition.
const failedCondition = "ConditionalCheckFailedException"

// decodeFailedCondition decodes the error of a failed condition, with its item. It returns false for any other
// body.
func decodeFailedCondition(body []byte) (*types.ConditionalCheckFailedException, bool) {
	failed, code := &types.ConditionalCheckFailedException{}, ""
	d := newDecoder(body)
	ok := d.readObject(func(name string) bool {
		switch {
		case name == "__type" && code == "":
			return d.readString(&code)
		case (name == "message" || name == "Message") && failed.Message == nil:
			failed.Message = new(string)
			return d.readString(failed.Message)
		case name == "Item" && failed.Item == nil:
			return d.readItem(&failed.Item)
		}
		return false
	})
	if _, name, ok := strings.Cut(code, "#"); ok { // after the name of the service
		code = name
	}
	return failed, ok && d.atEnd() && code == failedCondition
}

// decoder reads the JSON that DynamoDB writes. It fails for escapes, null and anything unusual, which
// are the SDK's business. Decoded strings are parts of one string.
type decoder struct {
	text string
	at   int
	// numbers and strings are room for the next values.
	numbers []types.AttributeValueMemberN
	strings []types.AttributeValueMemberS
	depth   int
}

const (
	// deepest bounds the nesting of values, as DynamoDB does.
	deepest = 32
	// atOnce is how many values of a kind are allocated together.
	atOnce = 8
)

// newDecoder returns a decoder at the start of a copy of body. It has room for the numbers and strings of a body
// without spaces.
func newDecoder(body []byte) *decoder {
	text := string(body)
	return &decoder{
		text:    text,
		numbers: make([]types.AttributeValueMemberN, strings.Count(text, `{"N":`)),
		strings: make([]types.AttributeValueMemberS, strings.Count(text, `{"S":`)),
	}
}

// skipSpace skips white space and returns the next byte; 0 at the end.
func (d *decoder) skipSpace() byte {
	for ; d.at < len(d.text); d.at++ {
		switch c := d.text[d.at]; c {
		case ' ', '\n', '\r', '\t':
		default:
			return c
		}
	}
	return 0
}

// skipByte skips white space and then c, and returns true. It returns false, after the white space, if another
// byte is next.
func (d *decoder) skipByte(c byte) bool {
	if d.skipSpace() != c {
		return false
	}
	d.at++
	return true
}

// atEnd skips white space, and reports whether the text ends there.
func (d *decoder) atEnd() bool { d.skipSpace(); return d.at == len(d.text) }

// readObject reads an object and calls member with each name in order, to read the value. It returns false if
// the next text is not an object, or if member does.
func (d *decoder) readObject(member func(name string) bool) bool {
	if !d.skipByte('{') {
		return false
	}
	if d.skipByte('}') {
		return true
	}
	for {
		var name string
		if !d.readString(&name) || !d.skipByte(':') || !member(name) {
			return false
		}
		if d.skipByte('}') {
			return true
		}
		if !d.skipByte(',') {
			return false
		}
	}
}

// readList reads a list and calls element to read each value in order. It returns false if the next text is not
// a list, or if element does.
func (d *decoder) readList(element func() bool) bool {
	if !d.skipByte('[') {
		return false
	}
	if d.skipByte(']') {
		return true
	}
	for {
		if !element() {
			return false
		}
		if d.skipByte(']') {
			return true
		}
		if !d.skipByte(',') {
			return false
		}
	}
}

// readString reads a string of printable ASCII without escapes into v. It returns false for anything else.
func (d *decoder) readString(v *string) bool {
	if !d.skipByte('"') {
		return false
	}
	for i := d.at; i < len(d.text); i++ {
		switch c := d.text[i]; {
		case c == '"':
			*v = d.text[d.at:i]
			d.at = i + 1
			return true
		case c == '\\' || c < ' ' || c > '~':
			return false
		}
	}
	return false
}

// readBool reads true or false into v. It returns false for anything else, and then leaves v as it was.
func (d *decoder) readBool(v *bool) bool {
	d.skipSpace()
	rest := d.text[d.at:]
	for _, word := range [...]string{"true", "false"} {
		if strings.HasPrefix(rest, word) {
			*v = word == "true"
			d.at += len(word)
			return true
		}
	}
	return false
}

// readBlob reads a string in base64 into v, decoded. It returns false for anything else.
func (d *decoder) readBlob(v *[]byte) bool {
	var text string
	if !d.readString(&text) {
		return false
	}
	var err error
	*v, err = base64.StdEncoding.DecodeString(text)
	return err == nil
}

// readItem reads an item, or the content of a map, into a new Go map of attribute values, which it stores in
// *m. It returns false for anything else.
func (d *decoder) readItem(m *map[string]types.AttributeValue) bool {
	*m = make(map[string]types.AttributeValue, 2*atOnce)
	return d.readObject(func(name string) bool {
		v, ok := d.readValue()
		(*m)[name] = v
		return ok
	})
}

// readValue reads one attribute value with its type. It returns false for an unknown type or two types, and for
// more than 32 levels of nesting.
func (d *decoder) readValue() (v types.AttributeValue, ok bool) {
	if d.depth++; d.depth > deepest {
		return nil, false
	}
	ok = d.readObject(func(kind string) bool {
		if v != nil {
			return false
		}
		switch kind {
		case "N":
			n := takeValue(&d.numbers)
			v = n
			return d.readString(&n.Value)
		case "S":
			s := takeValue(&d.strings)
			v = s
			return d.readString(&s.Value)
		}
		return d.readOtherValue(kind, &v)
	})
	d.depth--
	return v, ok && v != nil
}

// readOtherValue reads the content of a value of type kind, neither a number nor a string, into a new *v. It
// returns false for an unknown kind or malformed content.
func (d *decoder) readOtherValue(kind string, v *types.AttributeValue) bool {
	switch kind {
	case "B":
		b := &types.AttributeValueMemberB{}
		*v = b
		return d.readBlob(&b.Value)
	case "BOOL":
		b := &types.AttributeValueMemberBOOL{}
		*v = b
		return d.readBool(&b.Value)
	case "NULL":
		n := &types.AttributeValueMemberNULL{}
		*v = n
		return d.readBool(&n.Value)
	case "M":
		m := &types.AttributeValueMemberM{}
		*v = m
		return d.readItem(&m.Value)
	case "L":
		l := &types.AttributeValueMemberL{Value: []types.AttributeValue{}}
		*v = l
		return d.readList(func() bool {
			e, ok := d.readValue()
			l.Value = append(l.Value, e)
			return ok
		})
	case "SS":
		s := &types.AttributeValueMemberSS{}
		*v = s
		return d.readStrings(&s.Value)
	case "NS":
		s := &types.AttributeValueMemberNS{}
		*v = s
		return d.readStrings(&s.Value)
	case "BS":
		s := &types.AttributeValueMemberBS{Value: [][]byte{}}
		*v = s
		return d.readList(func() bool {
			var b []byte
			ok := d.readBlob(&b)
			s.Value = append(s.Value, b)
			return ok
		})
	}
	return false
}

// readStrings reads a list of strings into list. It returns false for anything else.
func (d *decoder) readStrings(list *[]string) bool {
	*list = []string{}
	return d.readList(func() bool {
		var s string
		ok := d.readString(&s)
		*list = append(*list, s)
		return ok
	})
}

// takeValue returns the next unused value of the room, and removes it there. It allocates eight at once when
// the room is used up.
func takeValue[T any](room *[]T) *T {
	if len(*room) == 0 {
		*room = make([]T, atOnce)
	}
	v := &(*room)[0]
	*room = (*room)[1:]
	return v
}
