package value

import (
	"slices"
	"strings"
)

// Union returns a new sorted set with the members of a and of b. It returns nil and false unless both are sets
// of one type.
func Union(a, b Value) (v Value, ok bool) {
	switch a := a.(type) {
	case StringSet:
		if b, same := b.(StringSet); same {
			return StringSet(sortedSet(slices.Concat(a, b), strings.Compare)), true
		}
	case NumberSet:
		if b, same := b.(NumberSet); same {
			return NumberSet(sortedSet(slices.Concat(a, b), Number.Compare)), true
		}
	case BinarySet:
		if b, same := b.(BinarySet); same {
			return BinarySet(sortedSet(slices.Concat(a, b), strings.Compare)), true
		}
	}
	return nil, false
}

// Difference returns a new set with the members of a that are not in b, nil if it is empty. It returns false
// unless both are sets of one type.
func Difference(a, b Value) (v Value, ok bool) {
	switch a := a.(type) {
	case StringSet:
		if b, same := b.(StringSet); same {
			return setOrNil(without(a, b)), true
		}
	case NumberSet:
		if b, same := b.(NumberSet); same {
			return setOrNil(without(a, b)), true
		}
	case BinarySet:
		if b, same := b.(BinarySet); same {
			return setOrNil(without(a, b)), true
		}
	}
	return nil, false
}

type setOf[T any] interface {
	Value
	~[]T
}

// setOrNil returns s, or nil if it is empty: DynamoDB has no empty sets.
func setOrNil[S setOf[T], T any](s S) Value {
	if len(s) == 0 {
		return nil
	}
	return s
}

// sortedSet sorts the members in place and returns the same slice without duplicates.
func sortedSet[T comparable](members []T, compare func(a, b T) int) []T {
	slices.SortFunc(members, compare)
	return slices.Compact(members)
}

// without returns a new slice with the elements of a that b does not contain, in a's order. It is nil if none
// remains.
func without[S ~[]T, T comparable](a, b S) S {
	var rest S
	for _, x := range a {
		if !slices.Contains(b, x) {
			rest = append(rest, x)
		}
	}
	return rest
}
