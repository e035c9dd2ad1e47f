package main

import (
	"cmp"
	"context"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// resourceCmd is about the limits of resources.
type resourceCmd struct {
	List   resourceListCmd   `cmd:"" help:"List the resources that have limits."`
	Show   resourceShowCmd   `cmd:"" help:"Show what is set for a resource."`
	Set    resourceSetCmd    `cmd:"" help:"Set the limits of a resource."`
	Delete resourceDeleteCmd `cmd:"" help:"Remove what is set for a resource."`
}

// resourceLevel names the level of a resource.
type resourceLevel struct {
	Name string `arg:"" name:"resource" help:"The resource's name."`
}

// Validate is called by the parser.
func (l resourceLevel) Validate() error { return wantName("resource", l.Name) }

func (l resourceLevel) scope() dynalimit.Scope { return dynalimit.Scope{Resource: l.Name} }

type resourceListCmd struct{}

// Help is shown by --help.
func (resourceListCmd) Help() string {
	return `Examples:
  dynalimit resource list
  dynalimit resource list --json`
}

// Run lists them.
func (resourceListCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return g.reading(ctx, out, func(repo *dynalimit.Repository) error {
		return showNames(out, repo.Resources(ctx), "No resource has limits. Begin with 'dynalimit resource set gpt-4 rpm=1000'.")
	})
}

type resourceShowCmd struct{ resourceLevel }

// Help is shown by --help.
func (resourceShowCmd) Help() string {
	return `Examples:
  dynalimit resource show gpt-4
  dynalimit resource show gpt-4 --json`
}

// Run shows it.
func (c resourceShowCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return showLevel(ctx, g, out, c.scope())
}

type resourceSetCmd struct {
	resourceLevel
	levelSet
}

// Help is shown by --help.
func (resourceSetCmd) Help() string {
	return `The limits replace those that are set. A block, and what is not named, stays.

Examples:
  dynalimit resource set gpt-4 rpm=100 tpm=40000/1m,burst=80000
  dynalimit resource set gpt-4 --unlimited --dry-run`
}

// Validate is called by the parser.
func (c resourceSetCmd) Validate() error {
	return cmp.Or(c.resourceLevel.Validate(), c.levelSet.Validate())
}

// Run sets them.
func (c resourceSetCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return c.setLevel(ctx, g, out, c.scope())
}

type resourceDeleteCmd struct {
	resourceLevel
	changes
}

// Help is shown by --help.
func (resourceDeleteCmd) Help() string {
	return `Examples:
  dynalimit resource delete gpt-4
  dynalimit resource delete gpt-4 --dry-run`
}

// Run removes it.
func (c resourceDeleteCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return deleteLevel(ctx, g, out, c.scope(), c.changes)
}
