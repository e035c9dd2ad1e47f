package main

import (
	_ "embed"
	"strings"

	"github.com/alecthomas/kong"
)

// helpText is the part of --help beside the flags: one section per command, titled by its
// words.
//
//go:embed help.txt
var helpText string

// helpSections returns the texts of the sections of help.txt by title. A title is the words of a command, or
// the program's name.
func helpSections() map[string]string {
	sections := map[string]string{}
	for _, section := range strings.Split("\n"+helpText, "\n# ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		sections[title] = strings.Trim(text, "\n")
	}
	return sections
}

// explainCommands sets the detailed help of the program and of each command to its section of help.txt; without
// a section it is "".
func explainCommands(app *kong.Application) {
	sections := helpSections()
	app.Detail = sections[app.Name]
	for _, leaf := range app.Leaves(false) {
		leaf.Detail = sections[strings.TrimPrefix(leaf.FullPath(), "dynalimit ")]
	}
}

// printHelp prints kong's help of the selected command, or of the program without subcommands. For `keeper
// serve` it explains --local in another way. It changes groups and flags of the model for that, and restores
// them.
func printHelp(options kong.HelpOptions, c *kong.Context) error {
	options.NoExpandSubcommands = c.Selected() == nil
	options.FlagsLast = options.NoExpandSubcommands
	if c.Selected() != nil { // a group's own commands are listed without groups
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
