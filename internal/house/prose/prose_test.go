package main

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

// TestFiguresMayOnlyFall: a figure above both its value of before and its allowance is named.
func TestFiguresMayOnlyFall(t *testing.T) {
	now := figuresOf(map[string]folderCounts{
		"old": {Go: counts{Sentences: 10, Clauses: 4, Functions: 4, OneWord: 2}},
		"new": {Go: counts{Sentences: 100, Clauses: 3, Long: 7}},
	})
	for text, want := range map[string][]string{
		"old clauses 40.0\nold one-word 50.0\nnew long 7.0\n": nil,
		"old clauses 39.9\nold one-word 60.0\n":               {"new: long 7.0 %, was 6.0 %", "old: clauses 40.0 %, was 39.9 %"},
	} {
		before, err := parseFigures(text)
		require.NoError(t, err)
		assert.Equal(t, want, risenFigures(before, now), text)
	}
	again, err := parseFigures(formatFigures(now))
	require.NoError(t, err)
	assert.Empty(t, risenFigures(again, now))
	assert.Len(t, again["new"], 1, "what is within the allowance needs no line")
	_, err = parseFigures("old clauses many\n")
	assert.ErrorContains(t, err, "old clauses many")
}
