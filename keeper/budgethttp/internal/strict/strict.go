// Package strict decodes JSON without ambiguity. encoding/json accepts duplicate names (and
// takes the last), names in another case, unknown fields, and null for anything. So two readers
// of the same body may see different requests.
package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"
)

const (
	// MaxDepth is the maximal nesting of objects and arrays.
	MaxDepth = 16
	// MaxValues is the maximal number of values in a document, because a value of two bytes
	// takes a hundred in memory. A full batch has 1,900.
	MaxValues = 4000
)

// Error is a fault of a document.
type Error struct {
	// Field is the path of the fault, such as tokens.input. Empty for the whole document.
	Field string
	// Reason is the fault.
	Reason string
}

// Error returns the field and the reason.
func (e *Error) Error() string {
	if e.Field == "" {
		return e.Reason
	}
	return e.Field + " " + e.Reason
}

// refuseAt returns an *Error about the part of the document at a place.
func refuseAt(at *place, format string, args ...any) error {
	return &Error{at.String(), fmt.Sprintf(format, args...)}
}

// place is the path of a value in a document. It is formatted only for an error, because the
// paths of all values would take too much memory.
type place struct {
	above *place // nil for the whole document
	name  string // of a field
	index int    // of an element, if array is set
	array bool
}

// atField returns the place of the field with a name in the object at p.
func (p *place) atField(name string) *place { return &place{above: p, name: name} }

// atElement returns the place of the element with index i in the array at p.
func (p *place) atElement(i int) *place { return &place{above: p, index: i, array: true} }

// String returns a path such as tokens.input or many[1].count, or "" for the whole document.
func (p *place) String() string {
	switch {
	case p == nil:
		return ""
	case p.array:
		return fmt.Sprintf("%s[%d]", p.above.String(), p.index)
	}
	if above := p.above.String(); above != "" {
		return above + "." + p.name
	}
	return p.name
}

// Unmarshal decodes one document into v, a pointer. In addition to encoding/json it refuses,
// with an *Error: a byte order mark, invalid UTF-8, nesting deeper than MaxDepth, more than
// MaxValues values, a duplicate name in an object, null, data after the document, unknown
// names, and names in another case. A json.Unmarshaler within v gets its part unchanged. A
// whole number may have a fraction or an exponent.
func Unmarshal(data []byte, v any) error { return UnmarshalApart(data, v, "") }

// UnmarshalApart is Unmarshal with an exception for the elements of one array field: they may
// contain null and duplicate names. The caller decodes each of them separately.
func UnmarshalApart(data []byte, v any, field string) error {
	if err := checkDocument(data, field); err != nil {
		return err
	}
	data = wholeNumbers(data)
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return refuseAt(nil, "is no JSON")
	}
	if err := checkNames(reflect.TypeOf(v), tree, nil); err != nil {
		return err
	}
	return typeError(json.Unmarshal(data, v))
}

// typeError returns an *Error for an error of json.Unmarshal, without the names of Go's types. It is nil for
// nil.
func typeError(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return &Error{wrong.Field, "cannot be " + wrong.Value}
	}
	return refuseAt(nil, "has a value that cannot be read")
}

// Check returns an *Error for a document that Unmarshal would refuse into any type, and nil for any other.
func Check(data []byte) error { return checkDocument(data, "") }

// checkDocument returns an *Error for a document that is not one JSON value, or is ambiguous, too deep or too
// large. The elements of the array field named apart may have null and duplicate names.
func checkDocument(data []byte, apart string) error {
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		return refuseAt(nil, "begins with a byte order mark")
	case !utf8.Valid(data):
		return refuseAt(nil, "is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	c := &checker{Decoder: dec, left: MaxValues, apart: apart}
	if err := c.checkValue(nil, 0); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return refuseAt(nil, "has data after its end")
	}
	return nil
}

// checker checks a document in one pass, without storing it.
type checker struct {
	*json.Decoder
	left  int    // remaining number of values
	apart string // field whose elements are decoded separately; empty for none
}

// isApart reports whether a place is within an element of the array field that the caller decodes
// separately.
func (c *checker) isApart(at *place) bool {
	for ; c.apart != "" && at != nil; at = at.above {
		if at.array && at.above != nil && at.above.above == nil && at.above.name == c.apart {
			return true
		}
	}
	return false
}

// checkValue reads the next value with everything in it, and returns an *Error for an invalid one. at is its
// path. depth is the number of objects and arrays around it.
func (c *checker) checkValue(at *place, depth int) error {
	token, err := c.nextToken()
	if err != nil {
		return err
	}
	if c.left--; c.left < 0 {
		return refuseAt(nil, "has more than %d values", MaxValues)
	}
	switch {
	case token == nil && !c.isApart(at):
		return refuseAt(at, "is null: leave it out instead")
	case token == json.Delim('{'):
		return c.checkObject(at, depth+1)
	case token == json.Delim('['):
		return c.checkArray(at, depth+1)
	}
	return nil
}

// nextToken reads the next token. It returns an *Error with the byte offset if the text is not
// JSON.
func (c *checker) nextToken() (json.Token, error) {
	token, err := c.Token()
	if err != nil {
		return nil, refuseAt(nil, "is no JSON, from byte %d on", c.InputOffset())
	}
	return token, nil
}

// checkObject checks the members of an object up to its closing brace, and refuses a duplicate
// name. The opening brace is read; depth counts this object.
func (c *checker) checkObject(at *place, depth int) error {
	if depth > MaxDepth {
		return refuseAt(nil, "is nested deeper than %d", MaxDepth)
	}
	seen := map[string]bool{}
	for c.More() {
		token, err := c.nextToken()
		if err != nil {
			return err
		}
		name, ok := token.(string)
		if !ok {
			return refuseAt(at, "has a name that is no string")
		}
		if seen[name] && !c.isApart(at) {
			return refuseAt(at.atField(name), "is there twice")
		}
		seen[name] = true
		if err := c.checkValue(at.atField(name), depth); err != nil {
			return err
		}
	}
	_, err := c.nextToken()
	return err
}

// checkArray checks the elements of an array up to its closing bracket. The opening bracket is
// read; depth counts this array.
func (c *checker) checkArray(at *place, depth int) error {
	if depth > MaxDepth {
		return refuseAt(nil, "is nested deeper than %d", MaxDepth)
	}
	for i := 0; c.More(); i++ {
		if err := c.checkValue(at.atElement(i), depth); err != nil {
			return err
		}
	}
	_, err := c.nextToken()
	return err
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// checkNames refuses names in the objects of a decoded tree that are not fields of the type t. It
// skips types that decode themselves. at is the path of the tree.
func checkNames(t reflect.Type, tree any, at *place) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		return nil
	}
	switch tree := tree.(type) {
	case map[string]any:
		return checkObjectNames(t, tree, at)
	case []any:
		if t.Kind() != reflect.Slice {
			return nil
		}
		for i, element := range tree {
			if err := checkNames(t.Elem(), element, at.atElement(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkObjectNames refuses a name that is not a field of the struct t, and checks the values below each name.
// It accepts any name if t is a map, and everything if t is of another kind.
func checkObjectNames(t reflect.Type, tree map[string]any, at *place) error {
	for name, element := range tree {
		var of reflect.Type
		switch t.Kind() {
		case reflect.Map:
			of = t.Elem()
		case reflect.Struct:
			of = fieldType(t, name)
			if of == nil {
				return refuseAt(at.atField(name), "is not known here")
			}
		default:
			return nil
		}
		if err := checkNames(of, element, at.atField(name)); err != nil {
			return err
		}
	}
	return nil
}

// fieldType returns the type of the exported field with a JSON name in struct t, embedded structs included; nil
// without such a field.
func fieldType(t reflect.Type, name string) reflect.Type {
	for _, f := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && tag == name && tag != "-" {
			return f.Type
		}
	}
	return nil
}
