package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLists fails if a mutant quotes a text that its file does not have exactly once, or names a
// test that its package does not have. `make mutants` would report it after an hour.
func TestLists(t *testing.T) {
	list, err := readLists("lists")
	require.NoError(t, err)
	assert.Greater(t, len(list), 60)
	root := filepath.Join("..", "..")
	tests := map[string][]string{}
	for _, m := range list {
		assert.NoError(t, m.checkFit(root), m.name)
		for _, s := range m.tests {
			if tests[s.pkg] == nil {
				tests[s.pkg] = testsIn(t, filepath.Join(root, filepath.FromSlash(s.pkg)))
			}
			for _, pattern := range s.alternatives() {
				assert.True(t, slices.ContainsFunc(tests[s.pkg], regexp.MustCompile(pattern).MatchString),
					"%s: no test of %s matches %s", m.name, s.pkg, pattern)
			}
		}
	}
	explained, err := readEquivalents(filepath.Join("lists", "equivalent.md"))
	require.NoError(t, err)
	assert.NotEmpty(t, explained)
}

// testsIn returns the names of a package's tests and examples.
func testsIn(t *testing.T, dir string) (names []string) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				names = append(names, f.Name.Name)
			}
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return !testName.MatchString(name) })
}

var testName = regexp.MustCompile(`^(Test|Fuzz|Example)`)

// alternatives splits the first part of a pattern: "^(TestA|TestB)$/case" is "^TestA$" and "^TestB$".
func (t selection) alternatives() []string {
	top, _, _ := strings.Cut(t.run, "/")
	before, rest, grouped := strings.Cut(top, "(")
	middle, after, closed := strings.Cut(rest, ")")
	if !grouped || !closed {
		return []string{top}
	}
	patterns := strings.Split(middle, "|")
	for i, p := range patterns {
		patterns[i] = before + p + after
	}
	return patterns
}

func TestParse(t *testing.T) {
	list, err := parseList("# what\n[a/b]\nfile: x.go\nbreaks: all\ntest: . ^TestX$\n- \tif a {\n-\n- \t}\n+ \tb\n")
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.Equal(t, mutant{
		name: "a/b", file: "x.go", breaks: "all", tests: []selection{{".", "^TestX$"}},
		old: "\tif a {\n\n\t}", changed: "\tb", hasOld: true,
	}, list[0])
	changed, err := list[0].applyTo("func\n\tif a {\n\n\t}\nend")
	require.NoError(t, err)
	assert.Equal(t, "func\n\tb\nend", changed)
	_, err = list[0].applyTo("nothing of it")
	assert.ErrorContains(t, err, "0 times")
	assert.Equal(t, []string{"^TestX$"}, list[0].tests[0].alternatives())
	assert.Equal(t, []string{"^TestA$", "^TestB$"}, selection{".", "^Test(A|B)$/case"}.alternatives())
	for name, text := range map[string]string{
		"before":     "file: x.go",
		"no file":    "[a]\nbreaks: all\ntest: . X\n- a\n+ b",
		"no harm":    "[a]\nfile: x.go\ntest: . X\n- a\n+ b",
		"no test":    "[a]\nfile: x.go\nbreaks: all\n- a\n+ b",
		"no change":  "[a]\nfile: x.go\nbreaks: all\ntest: . X\n- a\n+ a",
		"no key":     "[a]\nwhat: x",
		"no pattern": "[a]\ntest: .",
	} {
		_, err := parseList(text)
		assert.Error(t, err, name)
	}
}

func TestMutantIsTakenOutAgain(t *testing.T) {
	tree := t.TempDir()
	path := filepath.Join(tree, "x.go")
	require.NoError(t, os.WriteFile(path, []byte("a b a"), 0o600))
	m := mutant{file: "x.go", old: "b", changed: "c"}
	v := m.applyIn(tree, func() verdict {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, "a c a", string(text))
		return verdict{state: survived}
	})
	assert.Equal(t, survived, v.state)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "a b a", string(text))
	m.old = "a"
	assert.Equal(t, broken, m.applyIn(tree, func() verdict { return verdict{} }).state)
}

func TestSurvivorsAreAnError(t *testing.T) {
	r := report{list: []mutant{{name: "one"}, {name: "two"}}, verdicts: []verdict{{state: caught}, {state: late}}}
	assert.NoError(t, r.printSummary(0))
	r.verdicts[1].state = survived
	assert.Error(t, r.printSummary(0))
	r.verdicts[1].state = broken
	assert.Error(t, r.printSummary(0))
}
