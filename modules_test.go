package dynalimit_test

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// goMod is the part of `go mod edit -json` that matters here.
type goMod struct {
	Module  struct{ Path string }
	Require []struct {
		Path     string
		Indirect bool
	}
	Tool []struct{ Path string }
}

// Every module requires directly the modules that its files import, tests included, and no others.
// `make lint` (scripts/tidy.sh) also compares the indirect requirements, and needs a module proxy.
func TestModulesRequireWhatTheyImport(t *testing.T) {
	workspace := map[string]bool{}
	modules := map[string]goMod{}
	for _, dir := range moduleDirs(t) {
		out, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json", filepath.Join(dir, "go.mod")).Output()
		require.NoError(t, err, dir)
		var m goMod
		require.NoError(t, json.Unmarshal(out, &m))
		modules[dir], workspace[m.Module.Path] = m, true
	}
	for dir, m := range modules {
		imported := map[string]bool{}
		for _, tool := range m.Tool {
			imported[tool.Path] = true
		}
		addImports(t, dir, imported)
		direct := map[string]bool{}
		for path := range imported {
			if owner := ownerOf(path, m); owner != "" {
				direct[owner] = true
			} else {
				own := false
				for of := range workspace {
					own = own || within(path, of)
				}
				assert.True(t, own, "%s imports %s, and go.mod requires no module of it", dir, path)
			}
		}
		for _, r := range m.Require {
			if !workspace[r.Path] {
				assert.Equal(t, direct[r.Path], !r.Indirect, "%s: go.mod says of %s whether it is indirect, and the imports say otherwise", dir, r.Path)
			}
		}
	}
}

// moduleDirs are the folders that have a go.mod.
func moduleDirs(t *testing.T) []string {
	t.Helper()
	work, err := os.ReadFile("go.work")
	require.NoError(t, err)
	var dirs []string
	for line := range strings.Lines(string(work)) {
		if dir := strings.TrimSpace(line); dir == "." || strings.HasPrefix(dir, "./") {
			dirs = append(dirs, dir)
		}
	}
	require.NotEmpty(t, dirs)
	return dirs
}

// ownerOf is the required module that has a package; "" if there is none.
func ownerOf(path string, m goMod) (owner string) {
	for _, r := range m.Require {
		if within(path, r.Path) && len(r.Path) > len(owner) {
			owner = r.Path
		}
	}
	return owner
}

// addImports adds what the files of a module import of other modules.
func addImports(t *testing.T, dir string, imported map[string]bool) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			name := entry.Name()
			_, other := os.Stat(filepath.Join(path, "go.mod"))
			if path != dir && (other == nil || name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			of, _ := strconv.Unquote(spec.Path.Value)
			if first, _, _ := strings.Cut(of, "/"); strings.Contains(first, ".") {
				imported[of] = true
			}
		}
		return nil
	}))
}
