package expr

import (
	"slices"

	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
)

// Projection is a parsed projection expression.
type Projection struct {
	Refs
	paths []path
}

// ParseProjection parses a projection expression: document paths separated by commas. Its errors have
// DynamoDB's wording.
func ParseProjection(src string) (*Projection, error) {
	p, err := newParser(src)
	if err != nil {
		return nil, err
	}
	paths := []path{p.parsePath()}
	for p.accept(",") {
		paths = append(paths, p.parsePath())
	}
	if err := p.requireEnd(); err != nil {
		return nil, err
	}
	return &Projection{Refs: p.refs, paths: paths}, nil
}

// Check fails when pr uses an undefined placeholder or its paths overlap.
func (pr *Projection) Check(e *Env) error {
	if err := pr.Refs.check(e); err != nil {
		return err
	}
	return checkDisjoint(resolveAll(pr.paths, e))
}

// Apply returns the projected part of item; nil stays nil.
func (pr *Projection) Apply(e *Env, item value.Map) value.Map {
	return projectItem(resolveAll(pr.paths, e), item)
}

// TopLevel returns the name of the top-level attribute of every path, with placeholders replaced.
func (pr *Projection) TopLevel(e *Env) []string {
	names := make([]string, len(pr.paths))
	for i, p := range pr.paths {
		names[i] = e.name(p[0].name)
	}
	return names
}

// resolveAll returns the paths with their placeholders replaced by attribute names.
func resolveAll(paths []path, e *Env) []path {
	resolved := make([]path, len(paths))
	for i, p := range paths {
		resolved[i] = p.resolve(e)
	}
	return resolved
}

// projectItem returns a copy of item with only the values at the resolved paths. It is nil if item is nil.
func projectItem(paths []path, item value.Map) value.Map {
	if item == nil {
		return nil
	}
	out := value.Map{}
	groups := map[string][]path{}
	for _, p := range paths {
		name := p[0].name
		switch v, ok := item[name]; {
		case !ok:
		case len(p) == 1:
			out[name] = v
		default:
			groups[name] = append(groups[name], p[1:])
		}
	}
	for name, rest := range groups {
		if v := projectValue(rest, item[name]); v != nil {
			out[name] = v
		}
	}
	return out
}

// projectValue returns the parts of v at the paths, relative to v. It is nil if none exists. An empty path
// means all of v.
func projectValue(paths []path, v value.Value) value.Value {
	if len(paths[0]) == 0 {
		return v
	}
	switch v := v.(type) {
	case value.Map:
		named := slices.DeleteFunc(slices.Clone(paths), func(p path) bool { return p[0].name == "" })
		if out := projectItem(named, v); len(out) > 0 {
			return out
		}
	case value.List:
		if out := projectList(paths, v); len(out) > 0 {
			return out
		}
	}
	return nil
}

// projectList returns the list elements at the paths in the order of the list, without gaps.
func projectList(paths []path, v value.List) value.List {
	groups := map[int][]path{}
	for _, p := range paths {
		if p[0].name == "" && p[0].index < len(v) {
			groups[p[0].index] = append(groups[p[0].index], p[1:])
		}
	}
	var out value.List
	for i, e := range v {
		if rest := groups[i]; rest != nil {
			if kept := projectValue(rest, e); kept != nil {
				out = append(out, kept)
			}
		}
	}
	return out
}
