package main

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/house/ratchet"
)

const goFile = `// Package a says what it is of. It is a package of four words. There is no such thing here.
// A sentence that joins one idea with another and with a third and with a fourth and then goes on and on is too long here.
package a

//go:build who needs whom here

// Two words.
func HTTPServer() {}

func (a *A[T]) of() {}
func ID() {}
var s = "what is this" // it is what a line ends with
`

const page = "# What is a heading\n\nThis is what it says.\n- All that is listed here counts.\n\n```\nwhat stands in code blocks\n```\n| what | stands in tables |\n"

// TestCountTree: sentences of comments and pages are counted, and names of functions, but neither
// code, tables and headings nor tests.
func TestCountTree(t *testing.T) {
	folders, found, err := countTree(fstest.MapFS{
		"a/a.go":          {Data: []byte(goFile)},
		"a/page.md":       {Data: []byte(page)},
		"a/a_test.go":     {Data: []byte(goFile)},
		"a/CHANGELOG.md":  {Data: []byte(page)},
		"testdata/a.go":   {Data: []byte(goFile)},
		".hidden/page.md": {Data: []byte(page)},
	})
	require.NoError(t, err)
	assert.Equal(t, map[string]folderCounts{"a": {
		Go:       counts{Sentences: 4, Clauses: 1, Empty: 1, Long: 1, Functions: 3, OneWord: 2},
		Markdown: counts{Sentences: 2, Clauses: 2},
	}}, folders)
	assert.Equal(t, []sentence{
		{"a/a.go", 1, "Package a says what it is of."},
		{"a/a.go", 1, "There is no such thing here."},
		{"a/a.go", 10, "func of"},
		{"a/a.go", 11, "func ID"},
		{"a/page.md", 3, "This is what it says."},
		{"a/page.md", 3, "All that is listed here counts."},
	}, found)
}

// TestShares: a folder has a share where two sentences or names are above the bar.
func TestShares(t *testing.T) {
	assert.Equal(t, []ratchet.Count{
		{Name: "new: long sentences", N: 70, Free: 60}, {Name: "old: clauses", N: 400, Free: 30}, {Name: "old: names of one word", N: 500, Free: 460},
	}, sharesAboveBar(map[string]folderCounts{
		"old": {Go: counts{Sentences: 10, Clauses: 4, Empty: 1, Functions: 4, OneWord: 2}},
		"new": {Go: counts{Sentences: 100, Clauses: 3, Long: 7}},
	}))
}
