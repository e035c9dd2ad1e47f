package house

import (
	"errors"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// folder is what is known of one folder's Go files that ship.
type folder struct {
	pkg   *types.Package
	info  *types.Info
	fset  *token.FileSet
	files []*ast.File
	lines map[string]int
}

// alone resolves no import: what a folder's files use of each other needs none.
type alone struct{}

func (alone) Import(string) (*types.Package, error) { return nil, errors.New("not read") }

// read parses a folder and finds out what its identifiers name.
func read(dir string) (*folder, error) {
	f := &folder{
		fset: token.NewFileSet(), lines: map[string]int{},
		info: &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}},
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		f.lines[e.Name()] = strings.Count(string(text), "\n")
		parsed, err := parser.ParseFile(f.fset, e.Name(), text, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return nil, err
		}
		if builds(parsed) {
			f.files = append(f.files, parsed)
		}
	}
	config := types.Config{Importer: alone{}, Error: func(error) {}}
	f.pkg, _ = config.Check(dir, f.fset, f.files, f.info) // its complaints are about imports
	return f, nil
}

// builds says whether a file belongs to Linux: its twins for other systems define the same.
func builds(f *ast.File) bool {
	for _, group := range f.Comments {
		for _, c := range group.List {
			if expr, err := constraint.Parse(c.Text); err == nil && c.Pos() < f.Package {
				return expr.Eval(func(tag string) bool { return tag == "linux" || tag == "unix" })
			}
		}
	}
	return true
}

// uses are the files that each file uses something of: functions, methods, types, constants
// and variables. Fields go with their types.
func (f *folder) uses() map[string][]string {
	seen := map[string]map[string]bool{}
	for id, o := range f.info.Uses {
		if o.Pkg() != f.pkg || !o.Pos().IsValid() {
			continue
		}
		switch v := o.(type) {
		case *types.Var:
			if v.IsField() || v.Parent() != f.pkg.Scope() {
				continue
			}
		case *types.Func:
		case *types.TypeName, *types.Const:
			if o.Parent() != f.pkg.Scope() {
				continue
			}
		default:
			continue
		}
		from, to := f.fset.Position(id.Pos()).Filename, f.fset.Position(o.Pos()).Filename
		if seen[from] == nil {
			seen[from] = map[string]bool{}
		}
		if from != to {
			seen[from][to] = true
		}
	}
	out := map[string][]string{}
	for from, to := range seen {
		out[from] = slices.Sorted(maps.Keys(to))
	}
	return out
}

// largestCircle is the largest strongly connected component of uses (Tarjan), nil if no two
// files use each other.
func (f *folder) largestCircle() []string {
	uses := f.uses()
	index, low, open := map[string]int{}, map[string]int{}, map[string]bool{}
	var stack, largest []string
	var visit func(string)
	visit = func(v string) {
		index[v] = len(index) + 1
		low[v] = index[v]
		stack, open[v] = append(stack, v), true
		for _, w := range uses[v] {
			if index[w] == 0 {
				visit(w)
				low[v] = min(low[v], low[w])
			} else if open[w] {
				low[v] = min(low[v], index[w])
			}
		}
		if low[v] != index[v] {
			return
		}
		at := slices.Index(stack, v)
		circle := slices.Sorted(slices.Values(stack[at:]))
		stack = stack[:at]
		for _, w := range circle {
			open[w] = false
		}
		if len(circle) > max(1, len(largest)) {
			largest = circle
		}
	}
	for _, v := range slices.Sorted(maps.Keys(uses)) {
		if index[v] == 0 {
			visit(v)
		}
	}
	return largest
}

// methods counts what works on each type: its methods, those it is promoted, and functions
// that take it first.
func (f *folder) methods() map[string]int {
	out := map[string]int{}
	for _, name := range f.pkg.Scope().Names() {
		switch o := f.pkg.Scope().Lookup(name).(type) {
		case *types.TypeName:
			if _, isInterface := o.Type().Underlying().(*types.Interface); !isInterface && !o.IsAlias() {
				out[name] += types.NewMethodSet(types.NewPointer(o.Type())).Len()
			}
		case *types.Func:
			if of := f.first(o); of != "" {
				out[of]++
			}
		}
	}
	return out
}

// first names the type of this folder that a function takes first, "" if it is none: a struct
// alone has state to be spread.
func (f *folder) first(o *types.Func) string {
	params := o.Signature().Params()
	if params.Len() == 0 {
		return ""
	}
	t := params.At(0).Type()
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	named, ok := t.(*types.Named)
	if !ok || named.Obj().Pkg() != f.pkg {
		return ""
	}
	if _, ok := named.Underlying().(*types.Struct); !ok {
		return ""
	}
	return named.Obj().Name()
}
