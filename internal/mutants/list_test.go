package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLists says at once that the source has not the text of a mutant, or has it twice:
// `make mutants` would say so after an hour.
func TestLists(t *testing.T) {
	list, err := readLists("lists")
	require.NoError(t, err)
	assert.Greater(t, len(list), 60)
	for _, m := range list {
		assert.NoError(t, m.fits(filepath.Join("..", "..")), m.name)
	}
	explained, err := readEquivalents(filepath.Join("lists", "equivalent.md"))
	require.NoError(t, err)
	assert.NotEmpty(t, explained)
}

func TestParse(t *testing.T) {
	list, err := parse("# what\n[a/b]\nfile: x.go\nbreaks: all\ntest: . ^TestX$\n- \tif a {\n-\n- \t}\n+ \tb\n")
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.Equal(t, mutant{
		name: "a/b", file: "x.go", breaks: "all", tests: []selection{{".", "^TestX$"}},
		old: "\tif a {\n\n\t}", changed: "\tb", hasOld: true,
	}, list[0])
	changed, err := list[0].apply("func\n\tif a {\n\n\t}\nend")
	require.NoError(t, err)
	assert.Equal(t, "func\n\tb\nend", changed)
	_, err = list[0].apply("nothing of it")
	assert.ErrorContains(t, err, "0 times")
	for name, text := range map[string]string{
		"before":     "file: x.go",
		"no file":    "[a]\nbreaks: all\ntest: . X\n- a\n+ b",
		"no harm":    "[a]\nfile: x.go\ntest: . X\n- a\n+ b",
		"no test":    "[a]\nfile: x.go\nbreaks: all\n- a\n+ b",
		"no change":  "[a]\nfile: x.go\nbreaks: all\ntest: . X\n- a\n+ a",
		"no key":     "[a]\nwhat: x",
		"no pattern": "[a]\ntest: .",
	} {
		_, err := parse(text)
		assert.Error(t, err, name)
	}
}

func TestMutantIsTakenOutAgain(t *testing.T) {
	tree := t.TempDir()
	path := filepath.Join(tree, "x.go")
	require.NoError(t, os.WriteFile(path, []byte("a b a"), 0o600))
	m := mutant{file: "x.go", old: "b", changed: "c"}
	v := m.with(tree, func() verdict {
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
	assert.Equal(t, broken, m.with(tree, func() verdict { return verdict{} }).state)
}

func TestSurvivorsAreAnError(t *testing.T) {
	r := report{list: []mutant{{name: "one"}, {name: "two"}}, verdicts: []verdict{{state: caught}, {state: late}}}
	assert.NoError(t, r.sum(0))
	r.verdicts[1].state = survived
	assert.Error(t, r.sum(0))
	r.verdicts[1].state = broken
	assert.Error(t, r.sum(0))
}
