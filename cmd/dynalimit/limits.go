package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strconv"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// limitsCmd is about the limits of single entities, and about what is in force.
type limitsCmd struct {
	Show    limitsShowCmd    `cmd:"" help:"Show what is set for an entity."`
	Set     limitsSetCmd     `cmd:"" help:"Set limits of an entity."`
	Delete  limitsDeleteCmd  `cmd:"" help:"Remove what is set for an entity, so that less specific levels apply."`
	List    limitsListCmd    `cmd:"" help:"List every level that says anything."`
	Resolve limitsResolveCmd `cmd:"" help:"Show which limits are in force for an entity, and where they come from."`
}

// entityLevel names a level of an entity.
type entityLevel struct {
	Entity   string `arg:"" help:"The entity's id."`
	Resource string `help:"The resource that the limits are for. Default: every resource." placeholder:"NAME"`
}

// Validate is called by the parser.
func (l entityLevel) Validate() error { return wantName("entity", l.Entity) }

func (l entityLevel) scope() dynalimit.Scope {
	return dynalimit.Scope{Entity: l.Entity, Resource: l.Resource}
}

type limitsShowCmd struct{ entityLevel }

// Help is shown by --help.
func (limitsShowCmd) Help() string {
	return `What is set for this entity alone; 'limits resolve' shows what is in force.

Examples:
  dynalimit limits show key-1
  dynalimit limits show key-1 --resource gpt-4 --json`
}

// Run shows it.
func (c limitsShowCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return showLevel(ctx, g, out, c.scope())
}

type limitsSetCmd struct {
	entityLevel
	levelSet
}

// Help is shown by --help.
func (limitsSetCmd) Help() string {
	return `The limits replace those that are set. A block, and what is not named, stays.

Examples:
  dynalimit limits set key-1 rpm=100
  dynalimit limits set key-1 --resource gpt-4 rpm=100 tpm=40000/1m,burst=80000
  dynalimit limits set key-1 --unlimited --dry-run`
}

// Validate is called by the parser.
func (c limitsSetCmd) Validate() error {
	return cmp.Or(c.entityLevel.Validate(), c.levelSet.Validate())
}

// Run sets them.
func (c limitsSetCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return c.setLevel(ctx, g, out, c.scope())
}

type limitsDeleteCmd struct {
	entityLevel
	changes
}

// Help is shown by --help.
func (limitsDeleteCmd) Help() string {
	return `Examples:
  dynalimit limits delete key-1 --resource gpt-4
  dynalimit limits delete key-1 --dry-run`
}

// Run removes them.
func (c limitsDeleteCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return deleteLevel(ctx, g, out, c.scope(), c.changes)
}

type limitsListCmd struct {
	Resource string `help:"Only entities with limits for this resource." placeholder:"NAME"`
}

// Help is shown by --help.
func (limitsListCmd) Help() string {
	return `What was set a moment ago may be missing: indexes are read.

Examples:
  dynalimit limits list
  dynalimit limits list --resource gpt-4 --json`
}

// Run lists them.
func (c limitsListCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return g.reading(ctx, out, func(repo *dynalimit.Repository) error {
		return term.Stream(out, c.scopes(ctx, repo), term.List[dynalimit.Scope]{
			Titles: []string{"LEVEL", "OF", "RESOURCE"},
			Row: func(s dynalimit.Scope) []string {
				return []string{levelName(s), orDash(s.Entity + s.Plan), orDash(s.Resource)}
			},
			None: "Nothing is set. Begin with 'dynalimit system set rpm=100'.",
		})
	})
}

func (c limitsListCmd) scopes(ctx context.Context, repo *dynalimit.Repository) iter.Seq2[dynalimit.Scope, error] {
	if c.Resource == "" {
		return repo.Scopes(ctx)
	}
	return func(yield func(dynalimit.Scope, error) bool) {
		for id, err := range repo.EntitiesWithLimits(ctx, c.Resource) {
			if !yield(dynalimit.Scope{Entity: id, Resource: c.Resource}, err) {
				return
			}
		}
	}
}

// levelName is what kind of level a scope names.
func levelName(s dynalimit.Scope) string {
	switch {
	case s.Entity != "":
		return "entity"
	case s.Plan != "":
		return "plan"
	case s.Resource != "":
		return "resource"
	}
	return "system"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

type limitsResolveCmd struct {
	Entity   string `arg:"" help:"The entity's id."`
	Resource string `arg:"" help:"The resource that it asks for."`
}

// Help is shown by --help.
func (limitsResolveCmd) Help() string {
	return `Read from the table: a running service may know it up to its ConfigTTL later.

Examples:
  dynalimit limits resolve key-1 gpt-4
  dynalimit limits resolve key-1 gpt-4 --json`
}

// Run shows them.
func (c limitsResolveCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return g.reading(ctx, out, func(repo *dynalimit.Repository) error {
		resolved, err := repo.ResolveLimits(ctx, c.Entity, c.Resource)
		if err != nil {
			return err
		}
		return out.Show(resolved, func() { printResolved(out, resolved) })
	})
}

// printResolved shows what is in force to a person.
func printResolved(out *term.Output, r dynalimit.ResolvedLimits) {
	fmt.Fprintf(out, "%s on %s\n", out.Bold(r.EntityID), out.Bold(r.Resource))
	switch {
	case r.Blocked != "":
		fmt.Fprintf(out, "  %s\n", out.Red("blocked at the level "+string(r.Blocked)+": no call is admitted"))
	case r.Unlimited:
		fmt.Fprintf(out, "  unlimited, by the level %s\n", r.Level)
	case r.Level == "":
		fmt.Fprintln(out, "  no level says anything: what the service gives to New applies")
	}
	printLimits(out, r.Limits)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(out, "  %s %s\n", out.Dim(fmt.Sprintf("%-10s", name)), value)
		}
	}
	row("from", string(r.Level))
	row("plan", r.Plan)
	row("parent", r.ParentID)
	if r.ParentID != "" {
		row("cascades", strconv.FormatBool(r.Cascade))
	}
	if r.OnUnavailable != "" {
		row("in outages", fmt.Sprintf("%s, by the level %s", r.OnUnavailable, r.PolicyLevel))
	}
	for _, h := range r.Hidden {
		row("not used", fmt.Sprintf("%s of the level %s: the level %s hides it", h.Name, h.Level, r.Level))
	}
}

// showNames shows a list of names, or says what to do about an empty one.
func showNames(out *term.Output, all iter.Seq2[string, error], none string) error {
	return term.Stream(out, all, term.List[string]{Row: func(name string) []string { return []string{name} }, None: none})
}
