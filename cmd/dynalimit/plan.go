package main

import (
	"cmp"
	"context"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// planCmd is about the limits of plans.
type planCmd struct {
	List   planListCmd   `cmd:"" help:"List the plans that have limits."`
	Show   planShowCmd   `cmd:"" help:"Show what is set for a plan."`
	Set    planSetCmd    `cmd:"" help:"Set the limits of a plan."`
	Delete planDeleteCmd `cmd:"" help:"Remove what is set for a plan."`
}

// planLevel names a level of a plan.
type planLevel struct {
	Name     string `arg:"" name:"plan" help:"The plan's name."`
	Resource string `help:"The resource that the limits are for. Default: every resource." placeholder:"NAME"`
}

// Validate is called by the parser.
func (l planLevel) Validate() error { return wantName("plan", l.Name) }

func (l planLevel) scope() dynalimit.Scope {
	return dynalimit.Scope{Plan: l.Name, Resource: l.Resource}
}

type planListCmd struct{}

// Help is shown by --help.
func (planListCmd) Help() string {
	return `Examples:
  dynalimit plan list
  dynalimit plan list --json`
}

// Run lists them.
func (planListCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return g.reading(ctx, out, func(repo *dynalimit.Repository) error {
		return showNames(out, repo.Plans(ctx), "No plan has limits. Begin with 'dynalimit plan set pro rpm=1000'.")
	})
}

type planShowCmd struct{ planLevel }

// Help is shown by --help.
func (planShowCmd) Help() string {
	return `Examples:
  dynalimit plan show pro --resource gpt-4
  dynalimit plan show pro --resource gpt-4 --json`
}

// Run shows it.
func (c planShowCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return showLevel(ctx, g, out, c.scope())
}

type planSetCmd struct {
	planLevel
	levelSet
}

// Help is shown by --help.
func (planSetCmd) Help() string {
	return `The limits replace those that are set. A block, and what is not named, stays.

Examples:
  dynalimit plan set pro --resource gpt-4 rpm=100 tpm=40000/1m,burst=80000
  dynalimit plan set pro --resource gpt-4 --unlimited --dry-run`
}

// Validate is called by the parser.
func (c planSetCmd) Validate() error {
	return cmp.Or(c.planLevel.Validate(), c.levelSet.Validate())
}

// Run sets them.
func (c planSetCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return c.setLevel(ctx, g, out, c.scope())
}

type planDeleteCmd struct {
	planLevel
	changes
}

// Help is shown by --help.
func (planDeleteCmd) Help() string {
	return `Examples:
  dynalimit plan delete pro --resource gpt-4
  dynalimit plan delete pro --resource gpt-4 --dry-run`
}

// Run removes it.
func (c planDeleteCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return deleteLevel(ctx, g, out, c.scope(), c.changes)
}
