//go:build unix

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
	command := exec.CommandContext(t.Context(), shell, args...)
	command.Env = append(os.Environ(), "PATH="+program(t)+string(os.PathListSeparator)+os.Getenv("PATH"), "HOME="+t.TempDir())
	out, err := command.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}

// TestCompletionInBash: through the function that the script registers, with the words as
// bash splits them.
func TestCompletionInBash(t *testing.T) {
	assert.Equal(t, strings.Join([]string{
		"entity",
		"register list delete purge",
		"--on-unavailable",
		"local",
		"none",
	}, "\n"), play(t, "bash", "--norc", "--noprofile", "-c", `
		set -e
		source <(dynalimit completion bash)
		[[ "$(complete -p dynalimit)" == "complete -o default -F _dynalimit dynalimit" ]]
		ask() {
			COMP_WORDS=(dynalimit "$@")
			COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
			_dynalimit dynalimit "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
			echo "${COMPREPLY[*]:-none}"
		}
		ask ent
		ask namespace ''
		ask limits set 'key 1' --on-u
		ask system set --on-unavailable = lo
		ask entity show 'a file'`))
}

// TestCompletionInEveryShell that is here besides, as it would ask.
func TestCompletionInEveryShell(t *testing.T) {
	for shell, ask := range map[string]struct {
		args []string
		want string
	}{
		"zsh": { // with what it calls in turn replaced
			[]string{"-f", "-c", `
				compdef() { :; }
				_describe() { print -rl -- "${(@P)2}"; }
				source <(dynalimit completion zsh)
				words=(dynalimit entity upd); CURRENT=3
				_dynalimit`},
			"update:Change the given fields of an entity's record.",
		},
		"fish": { // its own question
			[]string{"--no-config", "-c", `
				dynalimit completion fish | source
				complete -C 'dynalimit entity upd'`},
			"update\tChange the given fields of an entity's record.",
		},
	} {
		path, err := exec.LookPath(shell)
		if err == nil {
			assert.Equal(t, ask.want, play(t, path, ask.args...), shell)
		}
	}
}
