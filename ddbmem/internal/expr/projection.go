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

// Check fails if pr uses an undefined placeholder, or if one of its paths contains or contradicts another.
func (pr *Projection) Check(e *Env) error {
	if err := pr.Refs.check(e); err != nil {
		return err
	}
	return checkDisjoint(resolvePaths(pr.paths, e))
}

// Apply returns a new map with the projected part of item: without missing values, and lists without gaps. nil
// stays nil.
func (pr *Projection) Apply(e *Env, item value.Map) value.Map {
	return projectItem(resolvePaths(pr.paths, e), item)
}

// TopLevelNames returns the name of the top-level attribute of every path, in order, with placeholders
// replaced. A name may repeat.
func (pr *Projection) TopLevelNames(e *Env) []string {
	names := make([]string, len(pr.paths))
	for i, p := range pr.paths {
		names[i] = e.name(p[0].name)
	}
	return names
}

// resolvePaths returns a new slice of the paths with their placeholders replaced by attribute names.
func resolvePaths(paths []path, e *Env) []path {
	resolved := make([]path, len(paths))
	for i, p := range paths {
		resolved[i] = p.resolve(e)
	}
	return resolved
}

// projectItem returns a new map with only the values of item at the resolved paths; missing ones are left out.
// It is nil if item is nil.
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

// projectList returns a new list with the elements at the paths in the order of the list, without gaps. It is
// nil if none exists.
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
