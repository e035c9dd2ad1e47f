package main

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// candidate is a completion with its description.
type candidate struct{ word, about string }

// line is an incomplete command line.
type line struct {
	node       *kong.Node // the command so far
	positional int        // number of arguments so far
	wants      *kong.Flag // the flag whose value comes next
	ended      bool       // after --, which ends the flags
}

// candidates returns the possible completions of the last word of a command line: flags, values, subcommands or
// arguments that begin with it. words are the words after the program's name; root is the program. Completions
// of --flag=value include the flag.
func candidates(root *kong.Node, words []string) []candidate {
	words = dropFlagSigns(words)
	if len(words) == 0 {
		words = []string{""}
	}
	l := line{node: root}
	for _, word := range words[:len(words)-1] {
		l.takeWord(word)
	}
	last := words[len(words)-1]
	var all []candidate
	switch name, begun, assigned := strings.Cut(last, "="); {
	case l.wants != nil:
		all = valueCandidates(l.wants.Value, "")
	case assigned && strings.HasPrefix(last, "--"):
		if flag := l.findFlag(name); flag != nil {
			all, last = valueCandidates(flag.Value, name+"="), name+"="+begun
		}
	case strings.HasPrefix(last, "-") && !l.ended:
		all = l.flagCandidates()
	default:
		all = l.argumentCandidates()
	}
	return slices.DeleteFunc(all, func(c candidate) bool { return !strings.HasPrefix(c.word, last) })
}

// dropFlagSigns returns the words without each "=" that follows a --flag, as bash splits --flag=value into
// three words. The flag and its value stay two words; a missing value at the end becomes "". It does not change
// words.
func dropFlagSigns(words []string) []string {
	var out []string
	for i, word := range words {
		switch before := len(out) - 1; {
		case word == "=" && before >= 0 && strings.HasPrefix(out[before], "--"):
			if i == len(words)-1 {
				out = append(out, "")
			}
		default:
			out = append(out, word)
		}
	}
	return out
}

// takeWord advances l by a complete word: to a subcommand, past an argument, to a flag that wants a value, or
// past that value. After "--" it takes no more flags.
func (l *line) takeWord(word string) {
	switch {
	case l.wants != nil:
		l.wants = nil
	case word == "--":
		l.ended = true
	case strings.HasPrefix(word, "--") && !l.ended:
		if name, _, assigned := strings.Cut(word, "="); !assigned {
			if flag := l.findFlag(name); flag != nil && !flag.IsBool() {
				l.wants = flag
			}
		}
	default:
		for _, child := range l.node.Children {
			if child.Name == word && l.positional == 0 {
				l.node = child
				return
			}
		}
		l.positional++
	}
}

// findFlag returns the flag of the command or its parents with name, which begins with two dashes, as its name
// or alias. Hidden flags count. It returns nil if none matches, also for a negated form.
func (l *line) findFlag(name string) *kong.Flag {
	for _, group := range l.node.AllFlags(false) {
		for _, flag := range group {
			if "--"+flag.Name == name || slices.Contains(flag.Aliases, strings.TrimPrefix(name, "--")) {
				return flag
			}
		}
	}
	return nil
}

// flagCandidates returns the flags that the command accepts, with their help, those of the nearest command
// first. It leaves out hidden ones. The negated form of a flag follows it.
func (l *line) flagCandidates() []candidate {
	var all []candidate
	groups := l.node.AllFlags(true)
	slices.Reverse(groups)
	for _, group := range groups {
		for _, flag := range group {
			all = append(all, candidate{"--" + flag.Name, flag.Help})
			if negated := flag.Tag.Negatable; negated != "" {
				name := "--no-" + flag.Name
				if negated != "_" {
					name = "--" + negated
				}
				all = append(all, candidate{name, flag.Help})
			}
		}
	}
	return all
}

// argumentCandidates returns the subcommands without hidden ones, if no argument came before. For a command
// without subcommands it returns the known values of the next argument. Otherwise the result is empty.
func (l *line) argumentCandidates() []candidate {
	var all []candidate
	if l.positional == 0 {
		for _, child := range l.node.Children {
			if !child.Hidden && child.Type == kong.CommandNode {
				all = append(all, candidate{child.Name, child.Help})
			}
		}
	}
	if len(l.node.Children) == 0 && l.positional < len(l.node.Positional) {
		all = append(all, valueCandidates(l.node.Positional[l.positional], "")...)
	}
	return all
}

// valueCandidates returns the possible values of a flag or an argument, each behind prefix, such as "--flag=".
// They come from its enumeration or a placeholder such as soft|hard. It returns an empty slice if they are
// unknown.
func valueCandidates(v *kong.Value, prefix string) []candidate {
	words := v.EnumSlice()
	if len(words) == 0 || v.Enum == "" {
		words = nil
		if hint := v.Flag; hint != nil && strings.Contains(hint.PlaceHolder, "|") { // soft|hard
			words = strings.Split(hint.PlaceHolder, "|")
		}
	}
	all := make([]candidate, len(words))
	for i, word := range words {
		all[i] = candidate{prefix + strings.TrimSpace(word), v.Help}
	}
	return all
}
