package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hostile are words that no command expects.
var hostile = []string{"", "--", "--=", "\xff", "\x1b[2J", strings.Repeat("a", 5000), "9223372036854775808", "a=b=c"}

// TestHostileWords: whatever stands in the place of an argument or the value of a flag,
// every command ends with one of its exit codes, says why in plain text, and writes nothing
// if it only reads.
func TestHostileWords(t *testing.T) {
	s := newTable(t)
	lines := firstLines(t)
	t.Chdir(withTestdata(t))
	require.NoError(t, os.WriteFile("limits.yaml", []byte("system: {limits: {rpm: {capacity: 5}}}\n"), 0o600))
	t.Setenv("AWS_ENDPOINT_URL_CLOUDFORMATION", "http://127.0.0.1:1")
	for _, name := range leaves(t) {
		if name == "local" || name == "tail" || strings.HasPrefix(name, "stack") || lines[name] == "" {
			continue
		}
		words := unquoted(lines[name])
		for i := len(strings.Fields(name)); i <= len(words); i++ {
			for n := range 2 { // of eight, in turn: over all commands each word comes often
				word := hostile[(len(name)+2*i+n)%len(hostile)]
				changed := slices.Concat(words[:i], []string{word}, words[min(i+1, len(words)):])
				if why, changes := changing[name]; changes && why == "" && !slices.Contains(changed, "--") {
					changed = append(changed, "--dry-run")
				}
				_, stdout, stderr := s.run(changed...)
				assert.NotContains(t, stderr, "\x1b", changed)
				assert.NotContains(t, stdout+stderr, "goroutine", changed)
			}
		}
	}
}
