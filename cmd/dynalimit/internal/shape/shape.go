// Package shape writes the JSON Schema of what a Go type is as JSON.
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

// Of is the schema of a value's type. Every name of an object stands in it, and none besides;
// those that are always there are required. Types that write themselves otherwise are written
// as what as has in their place. A type that holds itself stands in $defs, by its name.
func Of(value any, as map[reflect.Type]any) Schema {
	w := writer{as, map[reflect.Type]bool{}, Schema{}}
	s := w.of(reflect.TypeOf(value))
	if len(w.defs) > 0 {
		s["$defs"] = w.defs
	}
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	return s
}

var asText = reflect.TypeFor[encoding.TextMarshaler]()

type writer struct {
	as map[reflect.Type]any
	// within are the structs that are being written: true once one is met again.
	within map[reflect.Type]bool
	defs   Schema
}

func (w writer) of(t reflect.Type) Schema {
	if other, ok := w.as[t]; ok {
		return w.of(reflect.TypeOf(other))
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
		return w.of(t.Elem())
	case reflect.String:
		return Schema{"type": "string"}
	case reflect.Bool:
		return Schema{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return Schema{"type": "number"}
	case reflect.Slice, reflect.Array:
		return Schema{"type": "array", "items": w.of(t.Elem())}
	case reflect.Map:
		return Schema{"type": "object", "additionalProperties": w.of(t.Elem())}
	case reflect.Struct:
		return w.object(t)
	case reflect.Interface:
		return Schema{}
	}
	return Schema{"type": "integer"}
}

// object is the schema of a struct.
func (w writer) object(t reflect.Type) Schema {
	named := Schema{"$ref": "#/$defs/" + t.Name()}
	if _, met := w.within[t]; met {
		w.within[t] = true
		return named
	}
	w.within[t] = false
	properties, required := Schema{}, []string{}
	w.fields(t, properties, &required)
	s := Schema{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
	if held := w.within[t]; held {
		w.defs[t.Name()], s = s, named
	}
	delete(w.within, t)
	return s
}

// fields adds those of a struct, and those of the structs that are embedded in it.
func (w writer) fields(t reflect.Type, to Schema, required *[]string) {
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
			w.fields(inner, to, required)
		default:
			if name == "" {
				name = f.Name
			}
			to[name] = w.of(f.Type)
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
