package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The rules. A file has one idea, a type one piece of state, and who reads a file need not
// read all others of its folder first.
const (
	maxLines   = 500
	maxMethods = 30
	maxCircle  = 5
)

// advice says what to do about a rule that is broken.
var advice = map[string]string{
	"circle":  "files that all use each other are one file in pieces: move state with its methods into a type of its own, and let values go down and answers up",
	"methods": "split the type by its state: a group of fields with the methods that use them is a type",
	"lines":   "a file has one idea: move the second one out",
}

// TestHouse looks at every folder that ships.
func TestHouse(t *testing.T) {
	root := filepath.Join("..", "..")
	check := func(rule, where string, n, most int) {
		assert.LessOrEqual(t, n, most, "%s of %s: %s", rule, where, advice[rule])
	}
	for _, folder := range folders(t, root) {
		p, err := read(filepath.Join(root, folder))
		require.NoError(t, err, folder)
		mostFiles, mostMethods := maxCircle, maxMethods
		if folder == "ddbmem" { // all of DynamoDB's operations
			mostFiles, mostMethods = 10, 40
		}
		circle := p.largestCircle()
		check("circle", folder, len(circle), mostFiles)
		if t.Failed() && len(circle) > mostFiles {
			t.Logf("%s: %s", folder, strings.Join(circle, " "))
		}
		for name, methods := range p.methods() {
			check("methods", folder+" "+name, methods, mostMethods)
		}
		for name, lines := range p.lines {
			check("lines", filepath.ToSlash(filepath.Join(folder, name)), lines, maxLines)
		}
	}
}

// TestTestsStandBesideTheirFile looks at the limiter's tests: each has the name of a file beside it, to which it may
// add an aspect. Helpers, examples and, in the root, tests of the tree have names of their own.
func TestTestsStandBesideTheirFile(t *testing.T) {
	root, others := filepath.Join("..", ".."), []string{"setup", "export", "example"}
	ofTree := []string{"docs", "import", "modules", "readme"}
	for _, folder := range []string{
		".", "internal/backlog", "internal/bucket", "internal/cache", "internal/calendar", "internal/call", "internal/config", "internal/ddb", "internal/guard",
		"internal/lane", "internal/plan", "internal/prefetch", "internal/schema", "internal/store", "internal/table",
	} {
		names := slices.Clone(others)
		if folder == "." {
			names = append(names, ofTree...)
		}
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		require.NoError(t, err)
		var tests []string
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".go")
			if test, is := strings.CutSuffix(name, "_test"); is {
				tests = append(tests, test)
			} else {
				names = append(names, name)
			}
		}
		for _, test := range tests {
			assert.True(t, slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(test+"_", name+"_") }),
				"%s/%s_test.go: begin its name with that of the file that it tests", folder, test)
		}
	}
}

// folders are those that have Go files, from the root on.
func folders(t *testing.T, root string) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !d.IsDir():
			if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				folder, err := filepath.Rel(root, filepath.Dir(path))
				found = append(found, filepath.ToSlash(folder))
				return err
			}
		case path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "dist"):
			return fs.SkipDir
		}
		return nil
	}))
	slices.Sort(found)
	return slices.Compact(found)
}

// TestRulesAreNoticed breaks each rule in a folder made for it.
func TestRulesAreNoticed(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte("package p\n"+text), 0o600))
	}
	write("a.go", "type a struct{ inner }\nfunc (a) one() { b() }\n")
	write("b.go", "func b() { c(a{}) }\n")
	write("c.go", "func c(x a) { x.one() }\n")
	write("d.go", "type inner struct{}\nfunc (*inner) two() {}\nfunc (inner) three() {}\n")
	write("e.go", strings.Repeat("//\n", 600))
	p, err := read(folder)
	require.NoError(t, err)
	assert.Equal(t, []string{"a.go", "b.go", "c.go"}, p.largestCircle(), "d.go is used, and uses none of them")
	assert.Equal(t, 4, p.methods()["a"], "its own, two promoted ones, and a function that takes it first")
	assert.Equal(t, 2, p.methods()["inner"])
	assert.Equal(t, 601, p.lines["e.go"])
	_, err = read(filepath.Join(folder, "none"))
	assert.Error(t, err)
}
