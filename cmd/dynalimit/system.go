package main

import (
	"context"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// systemCmd is about the limits of everybody.
type systemCmd struct {
	Show   systemShowCmd   `cmd:"" help:"Show what is set for everybody."`
	Set    systemSetCmd    `cmd:"" help:"Set the limits of everybody."`
	Delete systemDeleteCmd `cmd:"" help:"Remove what is set for everybody."`
}

type systemShowCmd struct{}

// Help is shown by --help.
func (systemShowCmd) Help() string {
	return `Examples:
  dynalimit system show
  dynalimit system show --json`
}

// Run shows it.
func (systemShowCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return showLevel(ctx, g, out, dynalimit.Scope{})
}

type systemSetCmd struct{ levelSet }

// Help is shown by --help.
func (systemSetCmd) Help() string {
	return `Every more specific level that has limits overrides these.

Examples:
  dynalimit system set rpm=1000 tpm=1000000
  dynalimit system set rpm=1000 --on-unavailable local
  dynalimit system set --on-unavailable block --dry-run`
}

// Run sets them.
func (c systemSetCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return c.setLevel(ctx, g, out, dynalimit.Scope{})
}

type systemDeleteCmd struct{ changes }

// Help is shown by --help.
func (systemDeleteCmd) Help() string {
	return `Examples:
  dynalimit system delete
  dynalimit system delete --dry-run`
}

// Run removes them.
func (c systemDeleteCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return deleteLevel(ctx, g, out, dynalimit.Scope{}, c.changes)
}
