package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// complete is what the last word can become.
func complete(t *testing.T, words ...string) []string {
	t.Helper()
	code, stdout, stderr := runPlain(t, append([]string{"completion-words", "bash", "--"}, words...)...)
	require.Equal(t, exitOK, code, stderr)
	return strings.Fields(stdout)
}

func TestCompletionOfWords(t *testing.T) {
	for line, want := range map[string][]string{
		"ent":                                   {"entity"},
		"entity u":                              {"update"},
		"--region eu entity u":                  {"update"},
		"--region entity u":                     {"usage", "upgrade"},
		"--region=eu entity u":                  {"update"},
		"--json entity u":                       {"update"},
		"budget quotas s":                       {"show", "set"},
		"limits set k --on-u":                   {"--on-unavailable"},
		"limits set k --on-unavailable ":        {"block", "allow", "local", "none"},
		"limits set k --on-unavailable l":       {"local"},
		"limits set k --on-unavailable=l":       {"--on-unavailable=local"},
		"limits set k --on-unavailable = l":     {"local"},
		"limits set k --on-unavailable =":       {"block", "allow", "local", "none"},
		"entity update k --no":                  {"--no-cascade", "--no-detached"},
		"entity update --plan pro --cascade --": nil, // below
		"completion ":                           {"bash", "zsh", "fish"},
		"completion bash ":                      nil,
		"budget orgs put X --scope ":            {"org", "app"},
		"entity show entity":                    nil,
		"limits show -- --res":                  nil,
		"completion-wo":                         nil,
		"no such command ":                      nil,
	} {
		if got := complete(t, strings.Split(line, " ")...); !strings.HasSuffix(line, "--") {
			assert.ElementsMatch(t, want, got, line)
		} else {
			assert.Subset(t, got, []string{"--name", "--no-cascade", "--dry-run", "--json", "--endpoint"}, line)
		}
	}
	assert.Subset(t, complete(t), []string{"entity", "budget", "completion"})
	assert.NotContains(t, complete(t, ""), "completion-words")
}

// TestCompletionWordsTellWhatTheyAreAbout, in the form of each shell.
func TestCompletionWordsTellWhatTheyAreAbout(t *testing.T) {
	for shell, want := range map[string]string{
		"zsh":  "update:Change the given fields of an entity's record.\n",
		"fish": "update\tChange the given fields of an entity's record.\n",
		"bash": "update\n",
	} {
		_, stdout, _ := runPlain(t, "completion-words", shell, "--", "entity", "upd")
		assert.Equal(t, want, stdout)
	}
	code, _, stderr := runPlain(t, "completion", "tcsh")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, stderr, `"bash","zsh","fish"`)
}
