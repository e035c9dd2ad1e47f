// Package shape generates the JSON Schema of a Go type's JSON form.
package shape

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"time"
)

// Schema is a JSON Schema, draft 2020-12.
type Schema map[string]any

// Of returns the JSON schema of a value's type as encoding/json writes it. Objects permit only their names;
// names without an omit option are required. Types with their own encoding get the schema of their value in as,
// and recursive types go to $defs.
func Of(value any, as map[reflect.Type]any) Schema {
	w := writer{as, map[reflect.Type]bool{}, Schema{}}
	s := w.schemaOf(reflect.TypeOf(value))
	if len(w.defs) > 0 {
		s["$defs"] = w.defs
	}
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	return s
}

var asText = reflect.TypeFor[encoding.TextMarshaler]()

type writer struct {
	as map[reflect.Type]any
	// within is the structs being written. The value is true once a struct occurs within
	// itself.
	within map[reflect.Type]bool
	defs   Schema
}

// schemaOf returns the JSON schema of a Go type as encoding/json writes it. Types in w.as get the schema of the
// mapped value's type. Recursive structs are added to w.defs.
func (w writer) schemaOf(t reflect.Type) Schema {
	if other, ok := w.as[t]; ok {
		return w.schemaOf(reflect.TypeOf(other))
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return Schema{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[json.RawMessage]():
		return Schema{} // any value
	case t.Implements(asText):
		return Schema{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return w.schemaOf(t.Elem())
	case reflect.String:
		return Schema{"type": "string"}
	case reflect.Bool:
		return Schema{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return Schema{"type": "number"}
	case reflect.Slice, reflect.Array:
		return Schema{"type": "array", "items": w.schemaOf(t.Elem())}
	case reflect.Map:
		return Schema{"type": "object", "additionalProperties": w.schemaOf(t.Elem())}
	case reflect.Struct:
		return w.objectSchema(t)
	case reflect.Interface:
		return Schema{}
	}
	return Schema{"type": "integer"}
}

// objectSchema returns the schema of a struct with all its fields. A struct that contains itself it adds to
// w.defs, and returns a reference to that.
func (w writer) objectSchema(t reflect.Type) Schema {
	named := Schema{"$ref": "#/$defs/" + t.Name()}
	if _, met := w.within[t]; met {
		w.within[t] = true
		return named
	}
	w.within[t] = false
	properties, required := Schema{}, []string{}
	w.addFields(t, properties, &required)
	s := Schema{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
	if held := w.within[t]; held {
		w.defs[t.Name()], s = s, named
	}
	delete(w.within, t)
	return s
}

// addFields adds to to the schemas of a struct's fields and of its embedded structs' fields, by their JSON
// names. It skips fields that encoding/json skips. It appends names without an omit option to required; those
// of pointers may be null.
func (w writer) addFields(t reflect.Type, to Schema, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			w.addFields(inner, to, required)
		default:
			if name == "" {
				name = f.Name
			}
			to[name] = w.schemaOf(f.Type)
			if strings.Contains(options, "omit") {
				continue
			}
			*required = append(*required, name)
			if f.Type.Kind() == reflect.Pointer {
				to[name] = Schema{"anyOf": []Schema{to[name].(Schema), {"type": "null"}}}
			}
		}
	}
}
