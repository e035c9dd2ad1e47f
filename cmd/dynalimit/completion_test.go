package main

import (
	"os"
	"os/exec"
	"path/filepath"
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
		"--region entity u":                     nil,
		"--region=eu entity u":                  {"update"},
		"--json entity u":                       {"update"},
		"budget quotas s":                       {"show", "set"},
		"limits set k --on-u":                   {"--on-unavailable"},
		"limits set k --on-unavailable ":        {"block", "allow", "local", "none"},
		"limits set k --on-unavailable l":       {"local"},
		"limits set k --on-unavailable=l":       {"--on-unavailable=local"},
		"limits set k --on-unavailable = l":     {"local"},
		"limits set k --on-unavailable =":       {"block", "allow", "local", "none"},
		"entity update k --no":                  {"--no-cascade"},
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

// TestCompletionOfEveryCommand: each can be typed by its beginning, word by word.
func TestCompletionOfEveryCommand(t *testing.T) {
	for _, leaf := range leaves(t) {
		words := strings.Fields(leaf)
		for i, word := range words {
			assert.Contains(t, complete(t, append(append([]string{}, words[:i]...), word[:1])...), word, leaf)
		}
		assert.Contains(t, complete(t, append(words, "--js")...), "--json", leaf)
	}
}

// program is a folder with the program, to be put on the PATH.
func program(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	script := "#!/bin/sh\n" + asProgram + "=1 exec '" + self + "' \"$@\"\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "dynalimit"), []byte(script), 0o700)) //nolint:gosec // to be run
	return dir
}

// play has a shell run a script with the program on its PATH.
func play(t *testing.T, shell string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(shell)
	if err != nil {
		t.Skipf("no %s here", shell)
	}
	command := exec.CommandContext(t.Context(), path, args...)
	command.Env = append(os.Environ(), "PATH="+program(t)+string(os.PathListSeparator)+os.Getenv("PATH"), "HOME="+t.TempDir())
	out, err := command.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}

// TestCompletionInBash: through the function that the script registers, with the words as
// bash splits them.
func TestCompletionInBash(t *testing.T) {
	ask := func(words string) []string {
		return strings.Fields(play(t, "bash", "--norc", "--noprofile", "-c", `
			set -e
			source <(dynalimit completion bash)
			[[ "$(complete -p dynalimit)" == "complete -o default -F _dynalimit dynalimit" ]]
			COMP_WORDS=(dynalimit `+words+`)
			COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
			_dynalimit dynalimit "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
			printf '%s\n' "${COMPREPLY[@]}"`))
	}
	assert.Equal(t, []string{"entity"}, ask("ent"))
	assert.Equal(t, []string{"register", "list", "delete", "recover", "purge"}, ask("namespace ''"))
	assert.Equal(t, []string{"--on-unavailable"}, ask("limits set 'key 1' --on"))
	assert.Equal(t, []string{"local"}, ask("system set --on-unavailable = lo"))
	assert.Empty(t, ask("entity show 'a file"+"'"))
}

// TestCompletionInZsh: as zsh would call it, with what it calls in turn replaced.
func TestCompletionInZsh(t *testing.T) {
	out := play(t, "zsh", "-f", "-c", `
		compdef() { :; }
		_describe() { print -rl -- "${(@P)2}"; }
		source <(dynalimit completion zsh)
		words=(dynalimit entity upd); CURRENT=3
		_dynalimit`)
	assert.Equal(t, "update:Change what is given of an entity's record.", out)
}

// TestCompletionInFish: through fish's own question.
func TestCompletionInFish(t *testing.T) {
	out := play(t, "fish", "--no-config", "-c", `
		dynalimit completion fish | source
		complete -C 'dynalimit entity upd'`)
	assert.Equal(t, "update\tChange what is given of an entity's record.", out)
}

// TestCompletionWordsTellWhatTheyAreAbout, in the form of each shell.
func TestCompletionWordsTellWhatTheyAreAbout(t *testing.T) {
	for shell, want := range map[string]string{
		"zsh":  "update:Change what is given of an entity's record.\n",
		"fish": "update\tChange what is given of an entity's record.\n",
		"bash": "update\n",
	} {
		_, stdout, _ := runPlain(t, "completion-words", shell, "--", "entity", "upd")
		assert.Equal(t, want, stdout)
	}
	code, _, stderr := runPlain(t, "completion", "tcsh")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, stderr, `"bash","zsh","fish"`)
}
