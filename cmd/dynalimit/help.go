package main

import (
	_ "embed"
	"strings"

	"github.com/alecthomas/kong"
)

// helpText is what --help says of each command beside its flags: a section for each, titled
// by its words.
//
//go:embed help.txt
var helpText string

// helpSections are the sections of help.txt, by their titles.
func helpSections() map[string]string {
	sections := map[string]string{}
	for _, section := range strings.Split("\n"+helpText, "\n# ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		sections[title] = strings.Trim(text, "\n")
	}
	return sections
}

// explainCommands gives the program and each command its section of help.txt.
func explainCommands(app *kong.Application) {
	sections := helpSections()
	app.Detail = sections[app.Name]
	for _, leaf := range app.Leaves(false) {
		leaf.Detail = sections[strings.TrimPrefix(leaf.FullPath(), "dynalimit ")]
	}
}

// printHelp is kong's own: of the program without the commands of commands, and with what
// --local is for the command that has tables of its own.
func printHelp(options kong.HelpOptions, c *kong.Context) error {
	options.NoExpandSubcommands = c.Selected() == nil
	options.FlagsLast = options.NoExpandSubcommands
	if c.Selected() != nil { // its own commands are no groups
		for _, noun := range c.Model.Children {
			group := noun.Group
			noun.Group = nil
			defer func() { noun.Group = group }()
		}
	}
	if node := c.Selected(); node != nil && node.FullPath() == "dynalimit keeper serve" {
		for _, group := range node.AllFlags(true) {
			for _, flag := range group {
				if flag.Name == "local" {
					help := flag.Help
					flag.Help = keeperLocalHelp
					defer func() { flag.Help = help }()
				}
			}
		}
	}
	return kong.DefaultHelpPrinter(options, c)
}
