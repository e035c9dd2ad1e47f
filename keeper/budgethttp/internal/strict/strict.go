// Package strict reads JSON that can be read in one way only: encoding/json takes the
// last of two equal names, names in another case, fields that nobody knows and null for
// anything, and so two readers of one body may see different requests.
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
	// MaxDepth is how deep objects and arrays may be nested.
	MaxDepth = 16
	// MaxValues is how many values a document may have: one of two bytes takes a hundred when
	// it has been read. A full batch has 1,900.
	MaxValues = 4000
)

// Error says what is wrong with a document.
type Error struct {
	// Field is where, such as tokens.input; empty for the whole document.
	Field string
	// Reason is what is wrong.
	Reason string
}

// Error says where and what.
func (e *Error) Error() string {
	if e.Field == "" {
		return e.Reason
	}
	return e.Field + " " + e.Reason
}

func refused(at *place, format string, args ...any) error {
	return &Error{at.String(), fmt.Sprintf(format, args...)}
}

// place is where in a document a value stands. It is written out for an error alone: a
// document has more values than it has room for all their paths.
type place struct {
	above *place // nil: the whole document
	name  string // of a field
	index int    // of an element, if the place is one
	array bool
}

func (p *place) field(name string) *place { return &place{above: p, name: name} }
func (p *place) element(i int) *place     { return &place{above: p, index: i, array: true} }

// String is the place as in tokens.input and many[1].count; empty for the whole document.
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

// Unmarshal reads one document into v, a pointer. Beside what encoding/json refuses, it
// refuses with an *Error: a byte order mark, bytes that are no UTF-8, nesting deeper than
// MaxDepth, more than MaxValues values, a name twice in an object, null, data after the document, names that are no
// field of v or are one in another case. Types of v that read themselves are given what
// they stand for as it is. A whole number may be written with a fraction or an exponent.
func Unmarshal(data []byte, v any) error { return UnmarshalApart(data, v, "") }

// UnmarshalApart reads as Unmarshal, but for the elements of one field, an array: they may
// have null and names twice, for whoever reads each of them then.
func UnmarshalApart(data []byte, v any, field string) error {
	if err := check(data, field); err != nil {
		return err
	}
	data = whole(data)
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return refused(nil, "is no JSON")
	}
	if err := names(reflect.TypeOf(v), tree, nil); err != nil {
		return err
	}
	return typed(json.Unmarshal(data, v))
}

// typed says of a value of the wrong type what is wrong, without naming Go's types.
func typed(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return &Error{wrong.Field, "cannot be " + wrong.Value}
	}
	return refused(nil, "has a value that cannot be read")
}

// Check refuses what Unmarshal refuses of any document, whatever it is read into.
func Check(data []byte) error { return check(data, "") }

func check(data []byte, apart string) error {
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		return refused(nil, "begins with a byte order mark")
	case !utf8.Valid(data):
		return refused(nil, "is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	c := &checker{Decoder: dec, left: MaxValues, apart: apart}
	if err := c.value(nil, 0); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return refused(nil, "has data after its end")
	}
	return nil
}

// checker reads a document once, and keeps nothing of it.
type checker struct {
	*json.Decoder
	left  int    // values that it may have yet
	apart string // the field whose elements are read apart; empty: none
}

// isApart reports whether a place is within an element that is read apart.
func (c *checker) isApart(at *place) bool {
	for ; c.apart != "" && at != nil; at = at.above {
		if at.array && at.above != nil && at.above.above == nil && at.above.name == c.apart {
			return true
		}
	}
	return false
}

func (c *checker) value(at *place, depth int) error {
	token, err := c.next()
	if err != nil {
		return err
	}
	if c.left--; c.left < 0 {
		return refused(nil, "has more than %d values", MaxValues)
	}
	switch {
	case token == nil && !c.isApart(at):
		return refused(at, "is null: leave it out instead")
	case token == json.Delim('{'):
		return c.object(at, depth+1)
	case token == json.Delim('['):
		return c.array(at, depth+1)
	}
	return nil
}

func (c *checker) next() (json.Token, error) {
	token, err := c.Token()
	if err != nil {
		return nil, refused(nil, "is no JSON, from byte %d on", c.InputOffset())
	}
	return token, nil
}

func (c *checker) object(at *place, depth int) error {
	if depth > MaxDepth {
		return refused(nil, "is nested deeper than %d", MaxDepth)
	}
	seen := map[string]bool{}
	for c.More() {
		token, err := c.next()
		if err != nil {
			return err
		}
		name, ok := token.(string)
		if !ok {
			return refused(at, "has a name that is no string")
		}
		if seen[name] && !c.isApart(at) {
			return refused(at.field(name), "is there twice")
		}
		seen[name] = true
		if err := c.value(at.field(name), depth); err != nil {
			return err
		}
	}
	_, err := c.next()
	return err
}

func (c *checker) array(at *place, depth int) error {
	if depth > MaxDepth {
		return refused(nil, "is nested deeper than %d", MaxDepth)
	}
	for i := 0; c.More(); i++ {
		if err := c.value(at.element(i), depth); err != nil {
			return err
		}
	}
	_, err := c.next()
	return err
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// names refuses names of objects that are no field of the type they are read into.
func names(t reflect.Type, tree any, at *place) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		return nil
	}
	switch tree := tree.(type) {
	case map[string]any:
		return objectNames(t, tree, at)
	case []any:
		if t.Kind() != reflect.Slice {
			return nil
		}
		for i, element := range tree {
			if err := names(t.Elem(), element, at.element(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func objectNames(t reflect.Type, tree map[string]any, at *place) error {
	for name, element := range tree {
		var of reflect.Type
		switch t.Kind() {
		case reflect.Map:
			of = t.Elem()
		case reflect.Struct:
			of = field(t, name)
			if of == nil {
				return refused(at.field(name), "is not known here")
			}
		default:
			return nil
		}
		if err := names(of, element, at.field(name)); err != nil {
			return err
		}
	}
	return nil
}

// field is the type of the field with a name; nil if there is none.
func field(t reflect.Type, name string) reflect.Type {
	for _, f := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && tag == name && tag != "-" {
			return f.Type
		}
	}
	return nil
}
