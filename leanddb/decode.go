package leanddb

import (
	"encoding/base64"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// decodeUpdate decodes the body of a success. It returns false for a body that DynamoDB does not send to a
// plain request; the SDK then judges it.
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

// newDecoder returns a decoder at the start of a copy of body.
func newDecoder(body []byte) *decoder { return &decoder{text: string(body)} }

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

// skip skips white space and then c, and returns true. It returns false if another byte is next.
func (d *decoder) skip(c byte) bool {
	if d.skipSpace() != c {
		return false
	}
	d.at++
	return true
}

// atEnd skips white space, and reports whether the text ends there.
func (d *decoder) atEnd() bool { d.skipSpace(); return d.at == len(d.text) }

// readObject reads an object, and calls member for each name, to read the value. It returns false if the next
// text is something else, or if member fails.
func (d *decoder) readObject(member func(name string) bool) bool {
	if !d.skip('{') {
		return false
	}
	if d.skip('}') {
		return true
	}
	for {
		var name string
		if !d.readString(&name) || !d.skip(':') || !member(name) {
			return false
		}
		if d.skip('}') {
			return true
		}
		if !d.skip(',') {
			return false
		}
	}
}

// readList reads a list, and calls element to read each value. It returns false if the next text is no such
// list, or if element fails.
func (d *decoder) readList(element func() bool) bool {
	if !d.skip('[') {
		return false
	}
	if d.skip(']') {
		return true
	}
	for {
		if !element() {
			return false
		}
		if d.skip(']') {
			return true
		}
		if !d.skip(',') {
			return false
		}
	}
}

// readString reads a string of printable ASCII without escapes into v. It returns false for anything else.
func (d *decoder) readString(v *string) bool {
	if !d.skip('"') {
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

// readWord reads true or false into v. It returns false for anything else.
func (d *decoder) readWord(v *bool) bool {
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

// readItem reads an item, or the content of a map, into a new Go map of attribute values. It returns false for
// anything else.
func (d *decoder) readItem(m *map[string]types.AttributeValue) bool {
	*m = make(map[string]types.AttributeValue, 2*atOnce)
	return d.readObject(func(name string) bool {
		v, ok := d.readValue()
		(*m)[name] = v
		return ok
	})
}

// readValue reads one attribute value. ok is false for an unknown type, and for more than 32 levels of nesting.
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
			n := nextOf(&d.numbers)
			v = n
			return d.readString(&n.Value)
		case "S":
			s := nextOf(&d.strings)
			v = s
			return d.readString(&s.Value)
		}
		return d.readRare(kind, &v)
	})
	d.depth--
	return v, ok && v != nil
}

// readRare reads the content of a value that is neither a number nor a string into v. It returns false for an
// unknown kind.
func (d *decoder) readRare(kind string, v *types.AttributeValue) bool {
	switch kind {
	case "B":
		b := &types.AttributeValueMemberB{}
		*v = b
		return d.readBlob(&b.Value)
	case "BOOL":
		b := &types.AttributeValueMemberBOOL{}
		*v = b
		return d.readWord(&b.Value)
	case "NULL":
		n := &types.AttributeValueMemberNULL{}
		*v = n
		return d.readWord(&n.Value)
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

// nextOf returns the next value of the room, which it fills anew when it is used up.
func nextOf[T any](room *[]T) *T {
	if len(*room) == 0 {
		*room = make([]T, atOnce)
	}
	v := &(*room)[0]
	*room = (*room)[1:]
	return v
}
