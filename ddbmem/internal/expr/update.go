package expr

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
)

// Errors of an update on a particular item, worded as DynamoDB words them.
var (
	ErrOperandType = errors.New("An operand in the update expression has an incorrect data type")                 //nolint:staticcheck // DynamoDB's wording
	ErrMissing     = errors.New("The provided expression refers to an attribute that does not exist in the item") //nolint:staticcheck // DynamoDB's wording
	ErrPath        = errors.New("The document path provided in the update expression is invalid for update")      //nolint:staticcheck // DynamoDB's wording
)

// Update is a parsed update expression.
type Update struct {
	Refs
	sets          []setAction
	removes       []path
	adds, deletes []valueAction
}

type setAction struct {
	at   path
	from setValue
}

// valueAction is one ADD or DELETE.
type valueAction struct {
	at   path
	with literal
}

// Check fails if u uses an undefined placeholder, a literal of a wrong type or overlapping paths. The error has
// DynamoDB's wording.
func (u *Update) Check(e *Env) error {
	if err := u.Refs.check(e); err != nil {
		return err
	}
	for _, s := range u.sets {
		if err := s.from.check(e); err != nil {
			return err
		}
	}
	if err := checkOperands(e, u.adds, "ADD", "N", "SS", "NS", "BS"); err != nil {
		return err
	}
	if err := checkOperands(e, u.deletes, "DELETE", "SS", "NS", "BS"); err != nil {
		return err
	}
	return checkDisjoint(u.paths(e))
}

// checkOperands fails if an ADD or DELETE has an operand of a type outside types. The error names the
// section, "ADD" or "DELETE".
func checkOperands(e *Env, actions []valueAction, section string, types ...string) error {
	for _, a := range actions {
		if v := a.with.literal(e); !slices.Contains(types, v.Type()) {
			return fmt.Errorf("Incorrect operand type for operator or function; operator: %s, operand type: %s, typeSet: ALLOWED_FOR_%s_OPERAND", section, longType[v.Type()], section) //nolint:staticcheck // DynamoDB's wording
		}
	}
	return nil
}

var longType = map[string]string{
	"S": "STRING", "N": "NUMBER", "B": "BINARY", "BOOL": "BOOLEAN", "NULL": "NULL",
	"L": "LIST", "M": "MAP", "SS": "STRING_SET", "NS": "NUMBER_SET", "BS": "BINARY_SET",
}

// paths returns the paths of all SET, REMOVE, ADD and DELETE actions, in this order of sections, with
// placeholders replaced.
func (u *Update) paths(e *Env) []path {
	all := make([]path, 0, len(u.sets)+len(u.removes)+len(u.adds)+len(u.deletes))
	for _, s := range u.sets {
		all = append(all, s.at.resolve(e))
	}
	for _, p := range u.removes {
		all = append(all, p.resolve(e))
	}
	for _, a := range u.adds {
		all = append(all, a.at.resolve(e))
	}
	for _, a := range u.deletes {
		all = append(all, a.at.resolve(e))
	}
	return all
}

// TopLevelNames returns the name of the top-level attribute that each action writes, with placeholders
// replaced. A name may repeat.
func (u *Update) TopLevelNames(e *Env) []string {
	paths := u.paths(e)
	names := make([]string, len(paths))
	for i, p := range paths {
		names[i] = p[0].name
	}
	return names
}

// Touched returns a new map with the part of item that u writes, for the return values UPDATED_OLD and
// UPDATED_NEW. It is nil for a nil item.
func (u *Update) Touched(e *Env, item value.Map) value.Map { return projectItem(u.paths(e), item) }

// Apply returns a new item with u applied to item, which does not change and may be nil. Every operand is read
// from item as it was, and elements are removed last, so list indexes mean the old list. It fails with
// ErrOperandType, ErrMissing, ErrPath or an error about numbers.
func (u *Update) Apply(e *Env, item value.Map) (value.Map, error) {
	next := make(value.Map, len(item)+len(u.sets)+len(u.adds))
	for k, v := range item {
		next[k] = v
	}
	if err := u.applySets(e, item, next); err != nil {
		return nil, err
	}
	if err := u.applyAdds(e, item, next); err != nil {
		return nil, err
	}
	var removes []path
	if item != nil { // a missing item has nothing to REMOVE
		removes = resolvePaths(u.removes, e)
	}
	removes, err := u.applyDeletes(e, item, next, removes)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(removes, func(a, b path) int { return -comparePaths(a, b) })
	for _, at := range removes {
		if err := putAt(next, at, nil); err != nil {
			return nil, err
		}
	}
	return next, nil
}

// applyAdds writes the results of all ADDs to next, in place. It reads operands from item, the state before the
// update. It fails for a wrong type or path, or a number out of range.
func (u *Update) applyAdds(e *Env, item, next value.Map) error {
	for _, a := range u.adds {
		v, err := addTo(a.at.lookup(e, item), a.with.literal(e))
		if err != nil {
			return err
		}
		if err := putAt(next, a.at.resolve(e), v); err != nil {
			return err
		}
	}
	return nil
}

// applyDeletes writes to next, in place, the sets of item without the members of all DELETEs. It returns
// removes with the paths of emptied sets appended, because DynamoDB has no empty sets. It fails for a wrong
// type or path.
func (u *Update) applyDeletes(e *Env, item, next value.Map, removes []path) ([]path, error) {
	for _, a := range u.deletes {
		at := a.at.resolve(e)
		var rest value.Value
		if old := a.at.lookup(e, item); old != nil {
			var ok bool
			if rest, ok = value.Difference(old, a.with.literal(e)); !ok {
				return nil, ErrOperandType
			}
			if rest == nil {
				removes = append(removes, at)
				continue
			}
		}
		if err := putAt(next, at, rest); err != nil {
			return nil, err
		}
	}
	return removes, nil
}

// applySets evaluates all SETs on item and writes the results to next, in place. Elements past the end of a
// list are appended in the order of their indexes. It fails for a missing operand, or a wrong type or path.
func (u *Update) applySets(e *Env, item, next value.Map) error {
	type write struct {
		at path
		v  value.Value
	}
	writes := make([]write, len(u.sets))
	nested := false
	for i, s := range u.sets {
		v, err := s.from.eval(e, item)
		if err != nil {
			return err
		}
		writes[i] = write{s.at.resolve(e), v}
		nested = nested || len(s.at) > 1
	}
	if nested {
		slices.SortStableFunc(writes, func(a, b write) int {
			return cmp.Compare(a.at[len(a.at)-1].index, b.at[len(b.at)-1].index)
		})
	}
	for _, w := range writes {
		if err := putAt(next, w.at, w.v); err != nil {
			return err
		}
	}
	return nil
}

// addTo returns the result of ADD: the sum of two numbers, the union of two sets, or with if old is nil. It
// fails with ErrOperandType if the types do not fit, and if the sum is out of range.
func addTo(old, with value.Value) (value.Value, error) {
	if old == nil {
		return with, nil
	}
	if n, ok := old.(value.Number); ok {
		m, ok := with.(value.Number)
		if !ok {
			return nil, ErrOperandType
		}
		return n.Add(m)
	}
	v, ok := value.Union(old, with)
	if !ok {
		return nil, ErrOperandType
	}
	return v, nil
}

// putAt writes v at the resolved path in item, in place, or removes the value there if v is nil. The containers
// on the way are copied: stored values never change. It fails with ErrPath if a container is missing or does
// not fit the path.
func putAt(item value.Map, at path, v value.Value) error {
	name := at[0].name
	if len(at) == 1 {
		if v == nil {
			delete(item, name)
		} else {
			item[name] = v
		}
		return nil
	}
	next, err := putIn(item[name], at[1:], v)
	if err == nil {
		item[name] = next
	}
	return err
}

// putIn returns a copy of a map or list with v at the path, which is relative to it. A nil v removes the value.
// It fails with ErrPath if the container is of another kind or a step on the way is missing.
func putIn(container value.Value, at path, v value.Value) (value.Value, error) {
	switch c := container.(type) {
	case value.Map:
		if at[0].name == "" {
			return nil, ErrPath
		}
		next := make(value.Map, len(c)+1)
		for k, x := range c {
			next[k] = x
		}
		return next, putAt(next, at, v)
	case value.List:
		if at[0].name != "" {
			return nil, ErrPath
		}
		return putElement(c, at, v)
	}
	return nil, ErrPath
}

// putElement returns a copy of list with v at the path, which begins with an index. An index past the end
// appends; a nil v removes the element, and returns list itself if it does not exist. It fails with ErrPath if
// the path leads beyond the list.
func putElement(list value.List, at path, v value.Value) (value.Value, error) {
	i := at[0].index
	if len(at) == 1 {
		switch {
		case v == nil && i < len(list):
			return slices.Delete(slices.Clone(list), i, i+1), nil
		case v == nil:
			return list, nil
		case i >= len(list):
			return append(slices.Clone(list), v), nil
		}
		next := slices.Clone(list)
		next[i] = v
		return next, nil
	}
	if i >= len(list) {
		return nil, ErrPath
	}
	element, err := putIn(list[i], at[1:], v)
	if err != nil {
		return nil, err
	}
	next := slices.Clone(list)
	next[i] = element
	return next, nil
}

// comparePaths compares paths step by step, by name and then by index, and returns -1, 0 or 1. A path comes
// after its prefixes.
func comparePaths(a, b path) int {
	return slices.CompareFunc(a, b, func(x, y element) int {
		return cmp.Or(cmp.Compare(x.name, y.name), cmp.Compare(x.index, y.index))
	})
}
