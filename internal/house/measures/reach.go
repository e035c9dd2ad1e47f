package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/internal/house/ratchet"
)

const (
	// maxReach is the most functions that may know a type's unexported names.
	maxReach = 40
	// minUses is the number of uses through a field from which on a type's methods know another type.
	minUses = 3
)

// parsed holds the declarations of one package, without those of its tests.
type parsed struct {
	functions []*ast.FuncDecl
	structs   map[string]*ast.StructType
}

// parseFolder parses the Go files of a folder, without tests, and collects their functions and
// struct types.
func parseFolder(dir string) (*parsed, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	p := &parsed{structs: map[string]*ast.StructType{}}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				p.functions = append(p.functions, d)
			case *ast.GenDecl:
				p.addStructs(d)
			}
		}
	}
	return p, nil
}

// addStructs adds the struct types of a declaration to p.structs, by name.
func (p *parsed) addStructs(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		if t, ok := spec.(*ast.TypeSpec); ok {
			if s, ok := t.Type.(*ast.StructType); ok {
				p.structs[t.Name.Name] = s
			}
		}
	}
}

// reachCounts returns, for each struct type, the number of functions that know its unexported names,
// if that is above maxReach.
func (p *parsed) reachCounts(dir string) []ratchet.Count {
	var counts []ratchet.Count
	for name, by := range p.countReach() {
		n, parts := 0, []string{}
		for _, who := range slices.Sorted(maps.Keys(by)) {
			n += by[who]
			parts = append(parts, fmt.Sprintf("%s %d", who, by[who]))
		}
		if n > maxReach {
			counts = append(counts, ratchet.Count{
				Name: "reach of " + cmp.Or(dir, "the root") + " " + name, N: n, Free: maxReach, Detail: strings.Join(parts, ", "),
			})
		}
	}
	slices.SortFunc(counts, func(a, b ratchet.Count) int { return strings.Compare(a.Name, b.Name) })
	return counts
}

// countReach counts, for each struct type, the functions that use its unexported names: its methods, and
// functions with a pointer to it as a parameter. All methods of another type count if they use the names at
// least minUses times through pointer fields. The inner map is by receiver type, "functions" for none.
func (p *parsed) countReach() map[string]map[string]int {
	reach, methods := map[string]map[string]int{}, map[string]int{}
	through := map[[2]string]int{} // uses by the methods of the first type, of the second's names
	for _, f := range p.functions {
		t := receiverType(f)
		methods[t]++
		for base, uses := range p.usesThroughFields(f) {
			if base != t {
				through[[2]string{t, base}] += uses
			}
		}
	}
	for base := range p.structs {
		reach[base] = map[string]int{base: methods[base]}
	}
	for pair, uses := range through {
		if uses >= minUses {
			reach[pair[1]][pair[0]] = methods[pair[0]]
		}
	}
	for _, f := range p.functions {
		for base := range p.usesOfParameters(f) {
			if t := receiverType(f); t != base && through[[2]string{t, base}] < minUses {
				reach[base][cmp.Or(t, "functions")]++
			}
		}
	}
	return reach
}

// usesThroughFields counts the uses of unexported names by a method through pointers in fields of its receiver,
// by the struct type that they point to; nil for a function.
func (p *parsed) usesThroughFields(f *ast.FuncDecl) map[string]int {
	if f.Recv == nil || f.Body == nil || len(f.Recv.List[0].Names) == 0 {
		return nil
	}
	receiver, fields := f.Recv.List[0].Names[0].Name, p.pointerFields(receiverType(f))
	target := func(e ast.Expr) string {
		if s, ok := e.(*ast.SelectorExpr); ok && nameOf(s.X) == receiver {
			return fields[s.Sel.Name]
		}
		return ""
	}
	variables := map[string]string{} // those that hold such a field
	uses := map[string]int{}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, e := range n.Rhs {
				if t := target(e); t != "" {
					variables[nameOf(n.Lhs[i])] = t
				}
			}
		case *ast.SelectorExpr:
			if t := cmp.Or(target(n.X), variables[nameOf(n.X)]); t != "" && !ast.IsExported(n.Sel.Name) {
				uses[t]++
			}
		}
		return true
	})
	return uses
}

// usesOfParameters returns the set of struct types of the package with unexported names that a function uses
// through a pointer parameter.
func (p *parsed) usesOfParameters(f *ast.FuncDecl) map[string]bool {
	parameters, used := map[string]string{}, map[string]bool{}
	for _, field := range f.Type.Params.List {
		if star, ok := field.Type.(*ast.StarExpr); ok && p.structs[typeName(star)] != nil {
			for _, name := range field.Names {
				parameters[name.Name] = typeName(star)
			}
		}
	}
	if f.Body == nil {
		return nil
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && !ast.IsExported(s.Sel.Name) {
			if t := parameters[nameOf(s.X)]; t != "" {
				used[t] = true
			}
		}
		return true
	})
	return used
}

// pointerFields returns the fields of a struct type that point to a struct type of the package, with the name
// of that type.
func (p *parsed) pointerFields(name string) map[string]string {
	fields := map[string]string{}
	if p.structs[name] == nil {
		return fields
	}
	for _, field := range p.structs[name].Fields.List {
		star, ok := field.Type.(*ast.StarExpr)
		if !ok || p.structs[typeName(star)] == nil {
			continue
		}
		to := typeName(star)
		if len(field.Names) == 0 {
			fields[to] = to
		}
		for _, n := range field.Names {
			fields[n.Name] = to
		}
	}
	return fields
}

// receiverType returns the name of the type of a method's receiver; "" for a function.
func receiverType(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	return typeName(f.Recv.List[0].Type)
}

// typeName returns the name of a type without pointer and type parameters; "" for a type of another package.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	}
	return nameOf(e)
}

// nameOf returns an identifier's name, and "" for any other expression.
func nameOf(e ast.Expr) string {
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}
