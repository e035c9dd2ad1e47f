package main

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// completionCmd prints a script that makes a shell complete commands, flags and values. The
// scripts run the program for each completion, so a new release needs no new script.
type completionCmd struct {
	Shell string `arg:"" help:"The shell: bash, zsh or fish." enum:"bash,zsh,fish"`
}

// completionScripts maps shells to scripts.
var completionScripts = map[string]string{
	"bash": `# Completes dynalimit in bash.
_dynalimit() {
    local IFS=$'\n'
    COMPREPLY=($("$1" completion-words bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _dynalimit dynalimit
`,
	"zsh": `#compdef dynalimit
# Completes dynalimit in zsh.
_dynalimit() {
    local -a found
    found=("${(@f)$(dynalimit completion-words zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    found=("${(@)found:#}")
    if (( ${#found} )); then
        _describe 'dynalimit' found
    else
        _files
    fi
}
if [ "$funcstack[1]" = "_dynalimit" ]; then
    _dynalimit
else
    compdef _dynalimit dynalimit
fi
`,
	"fish": `# Completes dynalimit in fish.
function __dynalimit_words
    set -l before (commandline -opc)
    set -e before[1]
    set -l current (commandline -ct)
    dynalimit completion-words fish -- $before "$current" 2>/dev/null
end
complete -c dynalimit -f -a '(__dynalimit_words)'
`,
}

// Run prints the completion script of the shell in the argument, and returns the error of writing.
func (c completionCmd) Run(out *term.Output) error {
	_, err := fmt.Fprint(out, completionScripts[c.Shell])
	return err
}

// completionWordsCmd prints the completions of the last of some words, for the scripts.
type completionWordsCmd struct {
	Shell string   `arg:"" enum:"bash,zsh,fish"`
	Words []string `arg:"" optional:"" passthrough:""`
}

// Run prints the completions of the last of the words, one a line, in the format of the shell. zsh and fish
// also get descriptions. A "--" before the words is ignored.
func (c completionWordsCmd) Run(out *term.Output, k *kong.Kong) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	for _, found := range candidates(k.Model.Node, words) {
		about := strings.ReplaceAll(found.about, "\n", " ")
		switch c.Shell {
		case "zsh":
			fmt.Fprintf(out, "%s:%s\n", strings.ReplaceAll(found.word, ":", `\:`), about)
		case "fish":
			fmt.Fprintf(out, "%s\t%s\n", found.word, about)
		default:
			fmt.Fprintln(out, found.word)
		}
	}
	return out.Err()
}
