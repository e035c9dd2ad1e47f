package ratchet

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFiguresOnlyFall: a count above its figure, or far below it, is a problem; -write lowers
// figures and raises none.
func TestFiguresOnlyFall(t *testing.T) {
	for _, test := range []struct {
		name    string
		figure  string
		counts  []Count
		problem string // empty if there is none
		lowered string
	}{
		{"as much", "walk 100", []Count{{Name: "walk", N: 100}}, "", "walk 100"},
		{"more", "walk 100", []Count{{Name: "walk", N: 101}}, "walk: 101, above its figure 100", "walk 100"},
		{"a little less", "walk 100", []Count{{Name: "walk", N: 95}}, "", "walk 95"},
		{"far less", "walk 100", []Count{{Name: "walk", N: 94}}, "walk: 94, well below its figure 100; lower the figure by go run x -write", "walk 94"},
		{"a little less of a small one", "walk 20", []Count{{Name: "walk", N: 18}}, "", "walk 18"},
		{"far less of a small one", "walk 20", []Count{{Name: "walk", N: 17}}, "walk: 17, well below", "walk 17"},
		{"new", "", []Count{{Name: "walk", N: 5}}, "walk: 5, without a figure; add it by", "walk 5"},
		{"gone", "walk 100", nil, "walk: a figure of no count", ""},
		{"a type within the bar", "", []Count{{Name: "reach", N: 40, Free: 40}}, "", ""},
		{"a new type above the bar", "", []Count{{Name: "reach", N: 41, Free: 40}}, "reach: 41, at most 40 without a figure", ""},
		{"a type that comes below the bar", "reach 60", []Count{{Name: "reach", N: 40, Free: 40}}, "reach: 40, well below", ""},
		{"a type above the bar and its figure", "reach 60", []Count{{Name: "reach", N: 61, Free: 40}}, "reach: 61, above its figure 60", "reach 60"},
	} {
		f, err := parseFigures("# a comment\n" + test.figure)
		require.NoError(t, err, test.name)
		problems := f.findProblems(test.counts, "go run x -write")
		if test.problem == "" {
			assert.Empty(t, problems, test.name)
		} else if assert.Len(t, problems, 1, test.name) {
			assert.Contains(t, problems[0], test.problem, test.name)
		}
		assert.Equal(t, test.lowered, strings.TrimSuffix(f.loweredTo(test.counts).text(), "\n"), test.name)
	}
	for _, text := range []string{"walk", "12", "walk x", "walk 1\nwalk 2"} {
		_, err := parseFigures(text)
		assert.Error(t, err, text)
	}
}
