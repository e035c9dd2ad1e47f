package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Most mutants change functions alone. All of those stand in one tree side by side, and the
// environment selects one: the tests are built once, not once for each mutant.

// chosen is the variable of the environment that names the mutant in force.
const chosen = "DYNALIMIT_MUTANT"

// switches is a tree with many mutants, one of them in force.
type switches struct {
	tree string
	// in are the mutants in the tree, broken those that do not compile, and the reasons.
	in     map[string]bool
	broken map[string]string
	// binaries are the tests of each package, built.
	binaries map[string]string
}

// installSwitches copies the repository into one tree, with the mutants that lie within functions behind
// switches, and builds their tests. It begins again without mutants that do not compile, and notes these as
// broken.
func installSwitches(ctx context.Context, top, dir string, list []mutant) (*switches, error) {
	s := &switches{tree: filepath.Join(dir, "switched"), broken: map[string]string{}}
	for {
		if err := copyTree(top, s.tree); err != nil {
			return nil, err
		}
		if err := s.writeMutants(list); err != nil {
			return nil, err
		}
		if again, err := s.buildTests(ctx, dir, list); err != nil || !again {
			return s, err
		}
	}
}

// writeMutants writes the mutants into the Go files of the tree, except broken ones and those beyond functions,
// and sets s.in to the written ones. It adds a file zz_mutant.go to each package, which reads the switch from
// the environment.
func (s *switches) writeMutants(list []mutant) error {
	byFile := map[string][]mutant{}
	s.in = map[string]bool{}
	for _, m := range list {
		if s.broken[m.name] == "" && strings.HasSuffix(m.file, ".go") {
			byFile[m.file] = append(byFile[m.file], m)
		}
	}
	for file, mutants := range byFile {
		path := filepath.Join(s.tree, filepath.FromSlash(file))
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switched, pkg, names, err := withSwitches(string(text), mutants)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, name := range names {
			s.in[name] = true
		}
		chooser := fmt.Sprintf("package %s\n\nimport zzos \"os\"\n\nvar zzMutant = zzos.Getenv(%q)\n", pkg, chosen)
		err = errors.Join(os.WriteFile(path, []byte(switched), 0o600), os.WriteFile(filepath.Join(filepath.Dir(path), "zz_mutant.go"), []byte(chooser), 0o600))
		if err != nil {
			return err
		}
	}
	return nil
}

// installed returns those mutants of a list that are in the tree.
func (s *switches) installed(list []mutant) []mutant {
	return slices.DeleteFunc(slices.Clone(list), func(m mutant) bool { return !s.in[m.name] })
}

// place finds the mutant with the function of a compiler's error.
var place = regexp.MustCompile(`(?m)^\S*zzmutant/([^:\s]+):\d+(?::\d+)?: (.*)$`)

// buildTests builds the tests of the installed mutants, one binary for each package, and sets s.binaries. It
// records mutants that do not compile as broken, and then returns again = true: the caller must install without
// them.
func (s *switches) buildTests(ctx context.Context, dir string, list []mutant) (again bool, err error) {
	s.binaries = map[string]string{}
	for pkg := range testsByPackage(s.installed(list)) {
		binary := filepath.Join(dir, fmt.Sprintf("%d.test", len(s.binaries)))
		out, err := newCommand(ctx, s.tree, "go", "test", "-c", "-trimpath", "-vet=off", "-ldflags=-s -w", "-o", binary, pkg).CombinedOutput()
		for _, m := range place.FindAllSubmatch(out, -1) {
			s.broken[string(m[1])], again = string(m[2]), true
		}
		if err != nil && !again {
			return false, fmt.Errorf("build the tests of %s: %w\n%s", pkg, err, out)
		}
		s.binaries[pkg] = binary
	}
	return again, nil
}

// runBinary runs a package's test binary with the named mutant in force, or without any if name is "". It
// returns the combined output.
func (s *switches) runBinary(ctx context.Context, name, pkg string, args ...string) ([]byte, error) {
	cmd := newCommand(ctx, filepath.Join(s.tree, filepath.FromSlash(pkg)), s.binaries[pkg], args...)
	cmd.Env = append(cmd.Env, chosen+"="+name)
	return cmd.CombinedOutput()
}

// leaveOutDisturbed removes a mutant from s.in if its tests fail although no mutant is switched on. Such a
// mutant is tried in a tree of its own.
func (s *switches) leaveOutDisturbed(ctx context.Context, list []mutant) {
	list = s.installed(list)
	for pkg, patterns := range testsByPackage(list) {
		out, err := s.runBinary(ctx, "", pkg, "-test.run=("+strings.Join(patterns, ")|(")+")", "-test.timeout="+packageTimeout.String())
		if err == nil {
			continue
		}
		failed := failedTest.FindAllSubmatch(out, -1)
		for _, m := range list {
			for _, t := range m.tests {
				if t.pkg == pkg && (len(failed) == 0 || t.matches(failed)) {
					delete(s.in, m.name)
				}
			}
		}
	}
}

// matches reports whether one of the failed tests is in the selection, by the names before the first slash.
// Each element of failed has a test's name at index 1. It is true for an invalid pattern.
func (t selection) matches(failed [][][]byte) bool {
	first, _, _ := strings.Cut(t.run, "/")
	pattern, err := regexp.Compile(first)
	return err != nil || slices.ContainsFunc(failed, func(f [][]byte) bool {
		name, _, _ := bytes.Cut(f[1], []byte("/"))
		return pattern.Match(name)
	})
}

// trySwitched switches a mutant on, runs the tests that it names, and returns the verdict. The verdict is
// broken for a mutant that does not compile. The result known is false if the tests pass, or the mutant is not
// in the tree.
func (s *switches) trySwitched(ctx context.Context, m *mutant) (v verdict, known bool) {
	if why := s.broken[m.name]; why != "" {
		return verdict{state: broken, why: "it does not compile: " + why}, true
	}
	if !s.in[m.name] {
		return verdict{}, false
	}
	for _, t := range m.tests {
		out, err := s.runBinary(ctx, m.name, t.pkg, "-test.run="+t.run, "-test.failfast", "-test.timeout="+narrowTimeout.String())
		if v, known := interpretRun(ctx, out, err); known {
			return v, true
		}
	}
	return verdict{}, false
}

// edit replaces the text between two offsets of a file.
type edit struct {
	from, to int
	text     string
}

// withSwitches returns a file's text with switches for those mutants of list that lie within functions. Each
// changed function gets a twin, and the original calls the twin if its mutant is switched on. It also returns
// the package and the names of these mutants.
func withSwitches(text string, list []mutant) (switched, pkg string, names []string, err error) {
	file, offset, err := parseFile(text)
	if err != nil {
		return "", "", nil, err
	}
	cases := map[int]string{} // by the function's index
	var variants strings.Builder
	for n, m := range list {
		changed, err := m.applyTo(text)
		if err != nil {
			return "", "", nil, fmt.Errorf("[%s]: %w", m.name, err)
		}
		with, at, err := parseFile(changed)
		if err != nil {
			continue // tried alone, it shows its error
		}
		differ, alone := changedFunctions(text, file, offset, changed, with, at)
		if !alone {
			continue
		}
		names = append(names, m.name)
		for _, i := range differ {
			f := file.Decls[i].(*ast.FuncDecl)
			twin := fmt.Sprintf("%s_zz%d", f.Name.Name, n)
			cases[i] += fmt.Sprintf("case %q: %s; ", m.name, twinCallSource(f, twin))
			g := with.Decls[i].(*ast.FuncDecl)
			fmt.Fprintf(&variants, "\n//line zzmutant/%s:1\n%s%s%s\n", m.name, changed[at(g.Pos()):at(g.Name.Pos())], twin, changed[at(g.Name.End()):at(g.End())])
		}
	}
	var edits []edit
	for i, what := range cases {
		f := file.Decls[i].(*ast.FuncDecl)
		edits = append(nameParameters(f, offset), edits...)
		open := offset(f.Body.Lbrace) + 1
		edits = append(edits, edit{open, open, " switch zzMutant { " + what + "}; "})
	}
	slices.SortFunc(edits, func(a, b edit) int { return b.from - a.from })
	for _, e := range edits {
		text = text[:e.from] + e.text + text[e.to:]
	}
	return text + variants.String(), file.Name.Name, names, nil
}

// parseFile returns the syntax of a file, and a function from its positions to byte offsets in text.
func parseFile(text string) (*ast.File, func(token.Pos) int, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", text, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return nil, nil, err
	}
	return file, func(p token.Pos) int { return fset.PositionFor(p, false).Offset }, nil
}

// changedFunctions returns the indexes of the declarations that are functions with different bodies in two
// texts of a file. The result alone is false if anything else differs, or nothing. The functions offset and at
// give the byte of a position in text and in changed.
func changedFunctions(text string, file *ast.File, offset func(token.Pos) int, changed string, with *ast.File, at func(token.Pos) int) (differ []int, alone bool) {
	if len(file.Decls) != len(with.Decls) {
		return nil, false
	}
	for i, d := range file.Decls {
		if text[offset(d.Pos()):offset(d.End())] == changed[at(with.Decls[i].Pos()):at(with.Decls[i].End())] {
			continue
		}
		f, ok := d.(*ast.FuncDecl)
		g, same := with.Decls[i].(*ast.FuncDecl)
		if !ok || !same || f.Body == nil || g.Body == nil || text[offset(f.Pos()):offset(f.Body.Lbrace)] != changed[at(g.Pos()):at(g.Body.Lbrace)] {
			return nil, false
		}
		differ = append(differ, i)
	}
	return differ, len(differ) > 0
}

// twinCallSource returns Go source for f: a call of the function twin with f's receiver and parameters, and a
// return. It returns the twin's results if f has results.
func twinCallSource(f *ast.FuncDecl, twin string) string {
	if f.Recv != nil {
		twin = nameOf(f.Recv.List[0], 0, "zzr") + "." + twin
	} else if f.Type.TypeParams != nil {
		var types []string
		for _, p := range f.Type.TypeParams.List {
			for _, name := range p.Names {
				types = append(types, name.Name)
			}
		}
		twin += "[" + strings.Join(types, ", ") + "]"
	}
	var args []string
	for i, p := range f.Type.Params.List {
		for j := range max(1, len(p.Names)) {
			arg := nameOf(p, j, fmt.Sprintf("zzp%d_%d", i, j))
			if _, variadic := p.Type.(*ast.Ellipsis); variadic {
				arg += "..."
			}
			args = append(args, arg)
		}
	}
	call := twin + "(" + strings.Join(args, ", ") + ")"
	if f.Type.Results.NumFields() > 0 {
		return "return " + call
	}
	return call + "; return"
}

// nameOf returns the name of the j-th parameter of p, or given if it has no name or "_".
func nameOf(p *ast.Field, j int, given string) string {
	if len(p.Names) == 0 || p.Names[j].Name == "_" {
		return given
	}
	return p.Names[j].Name
}

// nameParameters returns the edits that give a name to each parameter and receiver of f without one or with
// "_".
func nameParameters(f *ast.FuncDecl, offset func(token.Pos) int) (edits []edit) {
	give := func(p *ast.Field, j int, given string) {
		switch {
		case len(p.Names) == 0:
			edits = append(edits, edit{offset(p.Type.Pos()), offset(p.Type.Pos()), given + " "})
		case p.Names[j].Name == "_":
			edits = append(edits, edit{offset(p.Names[j].Pos()), offset(p.Names[j].End()), given})
		}
	}
	if f.Recv != nil {
		give(f.Recv.List[0], 0, "zzr")
	}
	for i, p := range f.Type.Params.List {
		for j := range max(1, len(p.Names)) {
			give(p, j, fmt.Sprintf("zzp%d_%d", i, j))
		}
	}
	return edits
}
