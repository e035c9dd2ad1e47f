package value

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/ddbmem/internal/wire"
)

// MaxDepth is how deep lists and maps may nest.
const MaxDepth = 32

// InvalidError is a value DynamoDB answers with a ValidationException.
type InvalidError struct{ Message string }

// Error returns the message in DynamoDB's words.
func (e *InvalidError) Error() string { return e.Message }

// invalid returns an InvalidError with a formatted message.
func invalid(format string, args ...any) error {
	return &InvalidError{Message: fmt.Sprintf(format, args...)}
}

// ReadMap reads an item or a key: a JSON object of typed attribute values by name. A malformed value leaves its
// error in r. The map is never nil.
func ReadMap(r *wire.Reader) Map { return readMap(r, 0) }

// readMap reads typed attribute values by name into a new map, never nil, at the given depth of nesting. A
// malformed value leaves its error in r.
func readMap(r *wire.Reader, depth int) Map {
	m := Map{}
	r.Object(func(name string) { m[name] = readValue(r, depth) })
	return m
}

// Read reads one attribute value, such as {"S": "text"}. A malformed one leaves its error in r, an InvalidError
// or a syntax error, and the result is then meaningless.
func Read(r *wire.Reader) Value { return readValue(r, 0) }

// readValue reads one attribute value at the given depth of nesting. It fails r if the value has no type or
// several, or is nested beyond MaxDepth.
func readValue(r *wire.Reader, depth int) Value {
	if depth > MaxDepth {
		r.Fail(invalid("Nesting Levels have exceeded supported limits: Attributes can have a maximum of 32 nested levels"))
		return nil
	}
	var v Value
	members := 0
	r.Object(func(kind string) {
		members++
		v = readKind(r, kind, depth)
	})
	switch {
	case r.Err() != nil:
	case members == 0:
		r.Fail(invalid("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"))
	case members > 1:
		r.Fail(invalid("Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes"))
	}
	return v
}

// readKind reads the value behind the type descriptor kind, such as "S", "N" or "L". For an unknown kind, and
// for a NULL that is not true, r gets an error; the result is then meaningless.
func readKind(r *wire.Reader, kind string, depth int) Value {
	switch kind {
	case "S":
		return String(r.String())
	case "N":
		return readNumber(r)
	case "B":
		return Binary(readBinary(r))
	case "BOOL":
		return Bool(r.Bool())
	case "NULL":
		if !r.Bool() {
			r.Fail(invalid("One or more parameter values were invalid: Null attribute value types must have the value of true"))
		}
		return Null{}
	case "L":
		list := List{}
		r.Array(func() { list = append(list, readValue(r, depth+1)) })
		return list
	case "M":
		return readMap(r, depth+1)
	case "SS":
		return StringSet(readSet(r, "string", r.String, strings.Compare, func(s string) string { return s }))
	case "NS":
		return NumberSet(readSet(r, "number", func() Number { return readNumber(r) }, Number.Compare, Number.String))
	case "BS":
		return BinarySet(readSet(r, "binary", func() string { return readBinary(r) }, strings.Compare,
			func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }))
	}
	r.Fail(invalid("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"))
	return nil
}

// readNumber reads a number from a JSON string. It fails r with an InvalidError in DynamoDB's words if the
// string is not a valid number.
func readNumber(r *wire.Reader) Number {
	text := r.String()
	if r.Err() != nil {
		return Number{}
	}
	n, err := ParseNumber(text)
	switch {
	case errors.Is(err, ErrNotNumeric) && text != "":
		r.Fail(invalid("%v: %s", err, text))
	case err != nil:
		r.Fail(invalid("%v", err))
	}
	return n
}

// readBinary reads base64 and returns the raw bytes. Malformed base64 is a syntax error of r.
func readBinary(r *wire.Reader) string {
	b, err := base64.StdEncoding.DecodeString(r.String())
	if err != nil {
		r.Fail(fmt.Errorf("%w: not base64: %w", wire.ErrSyntax, err))
	}
	return string(b)
}

// readSet reads a set and returns it sorted by compare; member reads an element. It fails r if the set is empty
// or has duplicates. The error uses kind, the name of the type, and text, the text of a member.
func readSet[T comparable](r *wire.Reader, kind string, member func() T, compare func(a, b T) int, text func(T) string) []T {
	var members []T
	r.Array(func() { members = append(members, member()) })
	if r.Err() != nil {
		return nil
	}
	if len(members) == 0 {
		r.Fail(invalid("One or more parameter values were invalid: An %s set  may not be empty", kind))
		return nil
	}
	sorted := sortedSet(slices.Clone(members), compare)
	if len(sorted) < len(members) {
		shown := make([]string, len(members))
		for i, m := range members {
			shown[i] = text(m)
		}
		r.Fail(invalid("One or more parameter values were invalid: Input collection [%s] contains duplicates.", strings.Join(shown, ", ")))
	}
	return sorted
}
