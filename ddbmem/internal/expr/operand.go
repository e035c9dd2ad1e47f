package expr

import (
	"unicode/utf8"

	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
)

// operand is a path, a literal or a function of them.
type operand interface {
	// eval is the operand's value for item, nil when it has none.
	eval(e *Env, item value.Map) value.Value
	// literal is the operand's value when no item is needed to tell, else nil.
	literal(e *Env) value.Value
}

// eval returns the value in item at the path, nil if it is missing.
func (p path) eval(e *Env, item value.Map) value.Value { return p.lookup(e, item) }

// literal returns nil: the value of a path depends on the item.
func (p path) literal(*Env) value.Value { return nil }

// literal is a :placeholder.
type literal string

// eval returns the value of the :placeholder for any item, and nil if it is undefined.
func (l literal) eval(e *Env, _ value.Map) value.Value { return e.Values[string(l)] }

// literal returns the value of the :placeholder, and nil if it is undefined.
func (l literal) literal(e *Env) value.Value { return e.Values[string(l)] }

// sizeOf is size(operand).
type sizeOf struct{ of operand }

// literal returns nil, even for size() of a literal.
func (s sizeOf) literal(*Env) value.Value { return nil }

// eval returns the size as a number: characters of a string, bytes of a binary, elements of a list, map or
// set. It is nil for other types and missing attributes.
func (s sizeOf) eval(e *Env, item value.Map) value.Value {
	n := 0
	switch v := s.of.eval(e, item).(type) {
	case value.String:
		n = utf8.RuneCountInString(string(v))
	case value.Binary:
		n = len(v)
	case value.List:
		n = len(v)
	case value.Map:
		n = len(v)
	case value.StringSet:
		n = len(v)
	case value.NumberSet:
		n = len(v)
	case value.BinarySet:
		n = len(v)
	default:
		return nil
	}
	return value.NumberFromInt(int64(n))
}
