// Package value holds DynamoDB's attribute values: their types, equality, order,
// size and wire form. Values are immutable once stored; a change makes a copy.
package value

import (
	"slices"
	"strings"
)

// Value is one attribute value: String, Number, Binary, Bool, Null, List, Map or
// one of the three sets.
type Value interface {
	// Type is the descriptor on the wire: "S", "N", "BOOL" and so on.
	Type() string
}

type (
	// String is text in UTF-8.
	String string
	// Binary holds raw bytes.
	Binary string
	// Bool is true or false.
	Bool bool
	// Null is the null value.
	Null struct{}
	// List holds values of any types.
	List []Value
	// Map holds attributes by name; an item is one too.
	Map map[string]Value
	// StringSet is sorted and free of duplicates.
	StringSet []string
	// NumberSet is sorted and free of duplicates.
	NumberSet []Number
	// BinarySet holds raw bytes, sorted and free of duplicates.
	BinarySet []string
)

// Type returns "S".
func (String) Type() string { return "S" }

// Type returns "N".
func (Number) Type() string { return "N" }

// Type returns "B".
func (Binary) Type() string { return "B" }

// Type returns "BOOL".
func (Bool) Type() string { return "BOOL" }

// Type returns "NULL".
func (Null) Type() string { return "NULL" }

// Type returns "L".
func (List) Type() string { return "L" }

// Type returns "M".
func (Map) Type() string { return "M" }

// Type returns "SS".
func (StringSet) Type() string { return "SS" }

// Type returns "NS".
func (NumberSet) Type() string { return "NS" }

// Type returns "BS".
func (BinarySet) Type() string { return "BS" }

// Equal reports whether a and b have the same type and content; nested values too. It is false if a is nil.
func Equal(a, b Value) bool {
	switch a := a.(type) {
	case String:
		b, ok := b.(String)
		return ok && a == b
	case Number:
		b, ok := b.(Number)
		return ok && a == b
	case Binary:
		b, ok := b.(Binary)
		return ok && a == b
	case Bool:
		b, ok := b.(Bool)
		return ok && a == b
	case Null:
		_, ok := b.(Null)
		return ok
	case List:
		b, ok := b.(List)
		return ok && slices.EqualFunc(a, b, Equal)
	case Map:
		b, ok := b.(Map)
		return ok && a.Equal(b)
	case StringSet:
		b, ok := b.(StringSet)
		return ok && slices.Equal(a, b)
	case NumberSet:
		b, ok := b.(NumberSet)
		return ok && slices.Equal(a, b)
	case BinarySet:
		b, ok := b.(BinarySet)
		return ok && slices.Equal(a, b)
	}
	return false
}

// Equal reports whether m and n hold equal attributes; a nil map equals only an
// empty one.
func (m Map) Equal(n Map) bool {
	if len(m) != len(n) {
		return false
	}
	for k, v := range m {
		w, ok := n[k]
		if !ok || !Equal(v, w) {
			return false
		}
	}
	return true
}

// Compare compares two strings, numbers or binaries: order is -1, 0 or 1 if a is before, equal to or after b.
// It returns 0 and false for any other pair, and for nil.
func Compare(a, b Value) (order int, ok bool) {
	switch a := a.(type) {
	case String:
		if b, same := b.(String); same {
			return strings.Compare(string(a), string(b)), true
		}
	case Number:
		if b, same := b.(Number); same {
			return a.Compare(b), true
		}
	case Binary:
		if b, same := b.(Binary); same {
			return strings.Compare(string(a), string(b)), true
		}
	}
	return 0, false
}

// Contains reports whether list or set v has the element e, or whether string or binary v has the part e. It is
// false for other types.
func Contains(v, e Value) bool {
	switch v := v.(type) {
	case String:
		e, ok := e.(String)
		return ok && strings.Contains(string(v), string(e))
	case Binary:
		e, ok := e.(Binary)
		return ok && strings.Contains(string(v), string(e))
	case List:
		return slices.ContainsFunc(v, func(x Value) bool { return Equal(x, e) })
	case StringSet:
		e, ok := e.(String)
		return ok && slices.Contains(v, string(e))
	case NumberSet:
		e, ok := e.(Number)
		return ok && slices.Contains(v, e)
	case BinarySet:
		e, ok := e.(Binary)
		return ok && slices.Contains(v, string(e))
	}
	return false
}
