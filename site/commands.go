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

// listedIn are the commands that a help text lists.
func listedIn(help string) (commands []string) {
	_, list, found := strings.Cut(help, "\nCommands:\n")
	if !found {
		return nil
	}
	list, _, _ = strings.Cut(list, "\n\nRun ")
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
	groups := map[string]*page{}
	var list strings.Builder
	for _, command := range listedIn(overview) {
		words := strings.Fields(command)
		group := groups[words[0]]
		if group == nil {
			group = &page{path: "commands/" + words[0] + ".html", source: "cmd/dynalimit", title: "dynalimit " + words[0], section: commandLine, rank: 1}
			group.body = "<h1>dynalimit " + html.EscapeString(words[0]) + "</h1>\n"
			groups[words[0]] = group
			s.pages = append(s.pages, group)
			fmt.Fprintf(&list, "<li><a href=\"%s\"><code>%s</code></a></li>\n", relative(index.path, group.path), words[0])
		}
		text, err := help(words...)
		if err != nil {
			return fmt.Errorf("dynalimit %s --help: %w", command, err)
		}
		group.command(words, text)
	}
	if len(groups) == 0 {
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
