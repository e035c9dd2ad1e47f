package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"os/exec"
	"regexp"
	"strings"
)

// runHelp asks a binary for its help, as it prints it without a terminal.
func runHelp(ctx context.Context, command string) func(args ...string) (string, error) {
	return func(args ...string) (string, error) {
		help := exec.CommandContext(ctx, command, append(args, "--help")...)
		help.Env = []string{"NO_COLOR=1", "COLUMNS=100", "TERM=dumb"} // nothing of who builds
		out, err := help.Output()
		return string(out), err
	}
}

// listedCommand is a command in a list of commands: its words, before flags, arguments and
// what it does.
var listedCommand = regexp.MustCompile(`(?m)^  ([a-z][a-z0-9-]*(?: [a-z][a-z0-9-]*)*)(?:  | <| \[| --|$)`)

// nounsIn are the commands that the help of the program lists, in groups before its flags.
func nounsIn(overview string) []string {
	list, _, _ := strings.Cut(overview, "\n\nFlags:\n")
	return listedIn(list)
}

// verbsIn are the commands that the help of a command lists, none if it is one itself.
func verbsIn(help string) []string {
	_, list, _ := strings.Cut(help, "\nCommands:\n")
	return listedIn(list)
}

func listedIn(list string) (commands []string) {
	for _, m := range listedCommand.FindAllStringSubmatch(list, -1) {
		commands = append(commands, m[1])
	}
	return commands
}

// addCommands adds a page for each command and what is below it, and one for all.
func (s *site) addCommands(help func(args ...string) (string, error)) error {
	overview, err := help()
	if err != nil {
		return fmt.Errorf("ask the command line for its help: %w", err)
	}
	index := &page{path: "commands/index.html", source: "cmd/dynalimit", title: "Command line", label: "All commands", section: commandLine}
	index.body = "<h1>Command line</h1>\n" + helpText(overview)
	var list strings.Builder
	nouns := nounsIn(overview)
	for _, noun := range nouns {
		about, err := help(strings.Fields(noun)...)
		if err != nil {
			return fmt.Errorf("dynalimit %s --help: %w", noun, err)
		}
		group := &page{path: "commands/" + noun + ".html", source: "cmd/dynalimit", title: "dynalimit " + noun, section: commandLine, rank: 1}
		group.body = "<h1>dynalimit " + html.EscapeString(noun) + "</h1>\n"
		s.pages = append(s.pages, group)
		fmt.Fprintf(&list, "<li><a href=\"%s\"><code>%s</code></a></li>\n", relative(index.path, group.path), noun)
		commands := verbsIn(about)
		if len(commands) == 0 {
			group.command([]string{noun}, about)
		}
		for _, command := range commands {
			words := strings.Fields(command)
			text, err := help(words...)
			if err != nil {
				return fmt.Errorf("dynalimit %s --help: %w", command, err)
			}
			group.command(words, text)
		}
	}
	if len(nouns) == 0 {
		return errors.New("the command line's help lists no commands: the site cannot find them")
	}
	index.body += "<ul>\n" + list.String() + "</ul>\n"
	s.pages = append(s.pages, index)
	s.at["cmd/dynalimit"] = index.path
	return nil
}

// command adds the help of one command to the page of its group.
func (p *page) command(words []string, text string) {
	if len(words) > 1 {
		h := heading{level: 2, id: strings.Join(words, "-"), text: strings.Join(words, " ")}
		p.heads = append(p.heads, h)
		p.body += fmt.Sprintf("<h2 id=\"%s\">%s</h2>\n", h.id, html.EscapeString(h.text))
	}
	p.body += helpText(text)
}

func helpText(text string) string {
	return "<pre class=\"help\" tabindex=\"0\"><code>" + html.EscapeString(strings.TrimSpace(text)) + "</code></pre>\n"
}
