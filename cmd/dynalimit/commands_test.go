package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// leaves are the commands that do something, by their words: "limits set".
func leaves(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, leaf := range grammar().Leaves(true) {
		names = append(names, strings.TrimPrefix(leaf.FullPath(), "dynalimit "))
	}
	return names
}

// leafNames are the commands that do something.
var leafNames = sync.OnceValue(func() (names []string) {
	for _, leaf := range grammar().Leaves(true) {
		names = append(names, strings.TrimPrefix(leaf.FullPath(), "dynalimit "))
	}
	return names
})

// leafOf is the command that a line runs, by its words; "" for none.
func leafOf(line string) string {
	leaf := ""
	words := strings.Fields(line)
	for _, name := range leafNames() {
		if parts := strings.Fields(name); len(name) > len(leaf) && inOrder(parts, words) {
			leaf = name
		}
	}
	return leaf
}

// inOrder reports whether the words of a command stand in a line, flags between them.
func inOrder(parts, words []string) bool {
	for _, word := range words {
		if len(parts) > 0 && word == parts[0] {
			parts = parts[1:]
		}
	}
	return len(parts) == 0
}

// TestHelp: the help of every command is as it was read, without its section of help.txt, and with
// the flags of every command once, at the top.
func TestHelp(t *testing.T) {
	p := newCLI()
	p.Model.Detail = ""
	for _, leaf := range p.Model.Leaves(false) {
		leaf.Detail = ""
	}
	const shared = "\nWhere the table is:\n"
	common, all := "", ""
	for _, name := range append([]string{"version", ""}, leaves(t)...) {
		var help, errs bytes.Buffer
		require.Equal(t, exitOK, p.runCommand(t.Context(), append(strings.Fields(name), "--help"), &term.Output{Writer: &help}, &errs), name)
		require.Empty(t, errs.String(), name)
		text := help.String()
		if common == "" { // the first
			_, tail, _ := strings.Cut(text, shared)
			common = shared + tail
			all = strings.TrimPrefix(common, "\n")
			continue
		}
		all += "\n$ dynalimit " + name + "\n" + strings.TrimSuffix(text, common)
	}
	compareGolden(t, filepath.Join("testdata", "help", "help.txt"), all)
}

// untested are commands that no transcript can hold, and the tests they have instead.
var untested = map[string]string{
	"manifest schema": "TestManifestSchema: it prints a file of this repository",
	"completion":      "TestCompletion…: real shells run what it prints, which is no JSON",
	"console":         "TestConsole…: it serves until it is stopped, and prints no JSON",
	"keeper serve":    "TestKeeper…: it serves until it is stopped, and prints no JSON",
	"local":           "TestLocal…: it serves until it is stopped, and prints no JSON",
}

// TestEveryCommandHasATranscript: of each command the transcripts hold what it prints, what
// it prints for programs, and what it says to bad input.
func TestEveryCommandHasATranscript(t *testing.T) {
	type seen struct{ done, json, refused bool }
	got := map[string]*seen{}
	files, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, part := range strings.Split("\n"+string(text), "\n$ dynalimit ")[1:] {
			line, rest, _ := strings.Cut(part, "\n")
			leaf := leafOf(line)
			if got[leaf] == nil {
				got[leaf] = &seen{}
			}
			refused := strings.Contains(rest, "[exit 1]") || strings.Contains(rest, "[exit 2]")
			got[leaf].refused = got[leaf].refused || refused
			if strings.Contains(" "+line+" ", " --json ") {
				got[leaf].json = got[leaf].json || !refused
			} else {
				got[leaf].done = got[leaf].done || !refused
			}
		}
	}
	for _, name := range leaves(t) {
		if untested[name] != "" {
			continue
		}
		assert.Equal(t, &seen{true, true, true}, got[name], "%s: output, --json, bad input", name)
	}
}
