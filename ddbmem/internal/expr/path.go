package expr

import (
	"fmt"
	"strings"

	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
)

// element is one step of a document path: an attribute name (or its
// #placeholder), or a list index when name is empty.
type element struct {
	name  string
	index int
}

// path is a document path as written.
type path []element

// Env is the environment of an expression.
type Env struct {
	Names  map[string]string // ExpressionAttributeNames
	Values value.Map         // ExpressionAttributeValues
}

// name returns the attribute name that the placeholder n stands for, "" if undefined. Without a # it returns
// n itself.
func (e *Env) name(n string) string {
	if n != "" && n[0] == '#' {
		return e.Names[n]
	}
	return n
}

// resolve returns p with attribute names in the place of #placeholders. It returns p itself if there are no
// placeholders.
func (p path) resolve(e *Env) path {
	for i := range p {
		if strings.HasPrefix(p[i].name, "#") {
			q := append(path(nil), p...)
			for j := range q {
				q[j].name = e.name(q[j].name)
			}
			return q
		}
	}
	return p
}

// lookup returns the value in item at p, after resolving placeholders. It is nil if the value is missing.
func (p path) lookup(e *Env, item value.Map) value.Value {
	v, ok := item[e.name(p[0].name)]
	if !ok {
		return nil
	}
	for _, step := range p[1:] {
		if v = child(v, e.name(step.name), step.index); v == nil {
			return nil
		}
	}
	return v
}

// child returns the member of map v with the name, or, if name is empty, the element of list v with the index.
// It is nil if v lacks it or is of another type.
func child(v value.Value, name string, index int) value.Value {
	switch v := v.(type) {
	case value.Map:
		if c, ok := v[name]; ok && name != "" {
			return c
		}
	case value.List:
		if name == "" && index < len(v) {
			return v[index]
		}
	}
	return nil
}

// String returns p in the form of DynamoDB's errors: [a, b, [1]].
func (p path) String() string {
	parts := make([]string, len(p))
	for i, step := range p {
		if parts[i] = step.name; step.name == "" {
			parts[i] = fmt.Sprintf("[%d]", step.index)
		}
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// equal reports whether p and q have the same steps. Placeholders must be resolved in both.
func (p path) equal(q path) bool {
	if len(p) != len(q) {
		return false
	}
	for i := range p {
		if p[i] != q[i] {
			return false
		}
	}
	return true
}

// checkDisjoint fails when one of the resolved paths is another's prefix, or two
// treat the same place as a list and as a map.
func checkDisjoint(paths []path) error {
	for i, p := range paths {
		for _, q := range paths[:i] {
			if p[0].name != q[0].name {
				continue
			}
			n := 1
			for n < len(p) && n < len(q) && p[n] == q[n] {
				n++
			}
			switch {
			case n == len(p) || n == len(q):
				return fmt.Errorf("Two document paths overlap with each other; must remove or rewrite one of these paths; path one: %v, path two: %v", q, p) //nolint:staticcheck // DynamoDB's wording
			case (p[n].name == "") != (q[n].name == ""):
				return fmt.Errorf("Two document paths conflict with each other; must remove or rewrite one of these paths; path one: %v, path two: %v", q, p) //nolint:staticcheck // DynamoDB's wording
			}
		}
	}
	return nil
}
