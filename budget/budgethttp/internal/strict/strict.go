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

// MaxDepth is how deep objects and arrays may be nested.
const MaxDepth = 16

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

func refused(field, format string, args ...any) error {
	return &Error{field, fmt.Sprintf(format, args...)}
}

// Unmarshal reads one document into v, a pointer. Beside what encoding/json refuses, it
// refuses with an *Error: a byte order mark, bytes that are no UTF-8, nesting deeper than
// MaxDepth, a name twice in an object, null, data after the document, names that are no
// field of v or are one in another case. Types of v that read themselves are given what
// they stand for as it is.
func Unmarshal(data []byte, v any) error {
	if err := Check(data); err != nil {
		return err
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return refused("", "is no JSON")
	}
	if err := names(reflect.TypeOf(v), tree, ""); err != nil {
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
		return refused(wrong.Field, "cannot be %s", wrong.Value)
	}
	return refused("", "has a value that cannot be read")
}

// Check refuses what Unmarshal refuses of any document, whatever it is read into.
func Check(data []byte) error {
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		return refused("", "begins with a byte order mark")
	case !utf8.Valid(data):
		return refused("", "is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := value(dec, "", 0); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return refused("", "has data after its end")
	}
	return nil
}

func value(dec *json.Decoder, path string, depth int) error {
	token, err := next(dec)
	if err != nil {
		return err
	}
	switch token {
	case nil:
		return refused(path, "is null: leave it out instead")
	case json.Delim('{'):
		return object(dec, path, depth+1)
	case json.Delim('['):
		return array(dec, path, depth+1)
	}
	return nil
}

func next(dec *json.Decoder) (json.Token, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, refused("", "is no JSON, from byte %d on", dec.InputOffset())
	}
	return token, nil
}

func object(dec *json.Decoder, path string, depth int) error {
	if depth > MaxDepth {
		return refused("", "is nested deeper than %d", MaxDepth)
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := next(dec)
		if err != nil {
			return err
		}
		name, ok := token.(string)
		if !ok {
			return refused(path, "has a name that is no string")
		}
		if seen[name] {
			return refused(below(path, name), "is there twice")
		}
		seen[name] = true
		if err := value(dec, below(path, name), depth); err != nil {
			return err
		}
	}
	_, err := next(dec)
	return err
}

func array(dec *json.Decoder, path string, depth int) error {
	if depth > MaxDepth {
		return refused("", "is nested deeper than %d", MaxDepth)
	}
	for i := 0; dec.More(); i++ {
		if err := value(dec, fmt.Sprintf("%s[%d]", path, i), depth); err != nil {
			return err
		}
	}
	_, err := next(dec)
	return err
}

func below(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// names refuses names of objects that are no field of the type they are read into.
func names(t reflect.Type, tree any, path string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		return nil
	}
	switch tree := tree.(type) {
	case map[string]any:
		return objectNames(t, tree, path)
	case []any:
		if t.Kind() != reflect.Slice {
			return nil
		}
		for i, element := range tree {
			if err := names(t.Elem(), element, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func objectNames(t reflect.Type, tree map[string]any, path string) error {
	for name, element := range tree {
		var of reflect.Type
		switch t.Kind() {
		case reflect.Map:
			of = t.Elem()
		case reflect.Struct:
			of = field(t, name)
			if of == nil {
				return refused(below(path, name), "is not known here")
			}
		default:
			return nil
		}
		if err := names(of, element, below(path, name)); err != nil {
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
