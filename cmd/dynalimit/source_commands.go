package main

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// The commands that show and set the limits of everybody, resources, plans and entities differ
// only in the arguments that name the source.
type (
	systemCmd struct {
		Show   showCmd[everybody]   `cmd:"" help:"Show the limits of everybody."`
		Set    setCmd[everybody]    `cmd:"" help:"Set the limits of everybody."`
		Delete deleteCmd[everybody] `cmd:"" help:"Remove the limits of everybody."`
	}
	resourceCmd struct {
		List   listCmd[resourceSource]   `cmd:"" help:"List the resources that have limits."`
		Show   showCmd[resourceSource]   `cmd:"" help:"Show the limits of a resource."`
		Set    resourceSetCmd            `cmd:"" help:"Set the limits of a resource, and its groups."`
		Add    addCmd[resourceSource]    `cmd:"" help:"Set limits of a resource by name, and keep the others."`
		Remove removeCmd[resourceSource] `cmd:"" help:"Take limits off the list of a resource."`
		Lower  lowerCmd[resourceSource]  `cmd:"" help:"End raises of a resource's limits."`
		Delete deleteCmd[resourceSource] `cmd:"" help:"Remove the limits of a resource."`
	}
	planCmd struct {
		List   listCmd[planSource]   `cmd:"" help:"List the plans that have limits."`
		Show   showCmd[planSource]   `cmd:"" help:"Show the limits of a plan."`
		Set    setCmd[planSource]    `cmd:"" help:"Set the limits of a plan."`
		Add    addCmd[planSource]    `cmd:"" help:"Set limits of a plan by name, and keep the others."`
		Remove removeCmd[planSource] `cmd:"" help:"Take limits off the list of a plan."`
		Lower  lowerCmd[planSource]  `cmd:"" help:"End raises of a plan's limits."`
		Delete deleteCmd[planSource] `cmd:"" help:"Remove the limits of a plan."`
	}
	limitsCmd struct {
		Show    showCmd[entitySource]   `cmd:"" help:"Show the limits of an entity."`
		Set     setCmd[entitySource]    `cmd:"" help:"Replace the limits of an entity."`
		Add     addCmd[entitySource]    `cmd:"" help:"Set limits of an entity by name, and keep the others."`
		Remove  removeCmd[entitySource] `cmd:"" help:"Take limits off the list of an entity."`
		Lower   lowerCmd[entitySource]  `cmd:"" help:"End raises of an entity's limits."`
		Delete  deleteCmd[entitySource] `cmd:"" help:"Remove the limits of an entity, so that less specific sources apply."`
		List    limitsListCmd           `cmd:"" help:"List every source that says anything."`
		Resolve limitsResolveCmd        `cmd:"" help:"Show which limits are in force for an entity, and where they come from."`
	}
)

// source is the arguments that name a source.
type source interface{ scope() admin.Scope }

type everybody struct{}

// scope returns the scope of everybody on all resources.
func (everybody) scope() admin.Scope { return admin.Scope{Everyone: true} }

type resourceSource struct {
	Name string `arg:"" name:"resource" help:"The resource's name."`
}

// Validate refuses an empty name of the resource.
func (l resourceSource) Validate() error { return requireName("resource", l.Name) }

// scope returns the scope of everybody on the resource.
func (l resourceSource) scope() admin.Scope { return admin.Scope{Everyone: true, Resource: l.Name} }

// list returns a sequence of the names of resources with limits, read during its iteration, and the text for an
// empty list.
func (resourceSource) list(ctx context.Context, repo *dynalimit.Repository) (iter.Seq2[string, error], string) {
	return admin.New(repo).Limits.Resources(ctx), "No resource has limits. Begin with 'dynalimit resource set gpt-4 rpm=1000'."
}

type planSource struct {
	Name     string `arg:"" name:"plan" help:"The plan's name."`
	Resource string `help:"The resource that the limits are for. Default: every resource." placeholder:"NAME"`
}

// Validate refuses an empty name of the plan.
func (l planSource) Validate() error { return requireName("plan", l.Name) }

// scope returns the scope of the plan, for --resource or for every resource.
func (l planSource) scope() admin.Scope {
	return admin.Scope{Plan: l.Name, Resource: l.Resource}
}

// list returns a sequence of the names of plans with limits, read during its iteration, and the text for an
// empty list.
func (planSource) list(ctx context.Context, repo *dynalimit.Repository) (iter.Seq2[string, error], string) {
	return admin.New(repo).Limits.Plans(ctx), "No plan has limits. Begin with 'dynalimit plan set pro rpm=1000'."
}

type entitySource struct {
	Entity   string `arg:"" help:"The entity's id."`
	Resource string `help:"The resource that the limits are for. Default: every resource." placeholder:"NAME"`
}

// Validate refuses an empty id of the entity.
func (l entitySource) Validate() error { return requireName("entity", l.Entity) }

// scope returns the scope of the entity, for --resource or for every resource.
func (l entitySource) scope() admin.Scope {
	return admin.Scope{Entity: l.Entity, Resource: l.Resource}
}

type showCmd[L source] struct {
	At L `embed:""`
}

// Run prints the configuration stored at the source, or that nothing is set there. It leaves out limits of
// other sources.
func (c showCmd[L]) Run(ctx context.Context, g *globals, out *term.Output) error {
	return showSource(ctx, g, out, c.At.scope())
}

type setCmd[L source] struct {
	At L         `embed:""`
	To sourceSet `embed:""`
}

// Validate refuses flags that set nothing.
func (c setCmd[L]) Validate() error { return c.To.requireChange("") }

// Run applies the flags to the stored configuration of the source and prints the differences. Given limits or
// --unlimited replace all stored limits and raises. A dry run stores nothing.
func (c setCmd[L]) Run(ctx context.Context, g *globals, out *term.Output) error {
	return changeSource(ctx, g, out, c.At.scope(), c.To.changes, c.To.applyTo)
}

// resourceSetCmd also sets the groups of a resource. Other sources have none.
type resourceSetCmd struct {
	At       resourceSource `embed:""`
	To       sourceSet      `embed:""`
	Group    []string       `help:"Charge calls on the resource to this group as well; give it once for each. They replace those that are set." placeholder:"NAME"`
	NoGroups bool           `help:"Take the resource out of all groups."`
}

// Validate refuses a command that changes nothing, and --group beside --no-groups.
func (c resourceSetCmd) Validate() error {
	switch {
	case c.NoGroups && len(c.Group) > 0:
		return fmt.Errorf("--no-groups takes the resource out of all groups and --group names %s: leave one of them out", c.Group[0])
	case c.NoGroups || len(c.Group) > 0:
		return nil
	}
	return c.To.requireChange(", or --group, or --no-groups")
}

// Run applies the flags to the stored configuration of the resource and prints the differences. Given limits
// and given groups replace all stored ones. A dry run stores nothing.
func (c resourceSetCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return changeSource(ctx, g, out, c.At.scope(), c.To.changes, c.applyTo)
}

// applyTo returns config with the given flags applied. Given groups replace the old ones, sorted, and
// --no-groups removes them. The rest is as in sourceSet.applyTo; a malformed limit is an error.
func (c resourceSetCmd) applyTo(config admin.LimitConfig) (admin.LimitConfig, error) {
	if c.NoGroups || len(c.Group) > 0 {
		config.Groups = slices.Sorted(slices.Values(c.Group))
	}
	return c.To.applyTo(config)
}

type deleteCmd[L source] struct {
	At   L    `embed:""`
	Only bool `help:"Money that goes with the source is meant to go."`
	changes
}

// Run removes the whole configuration of the source, so that less specific sources apply, and prints the
// differences. Without --only it fails if a limit of money would go. A dry run stores nothing.
func (c deleteCmd[L]) Run(ctx context.Context, g *globals, out *term.Output) error {
	return deleteSource(ctx, g, out, c.At.scope(), c.Only, c.changes)
}

// listed lists the names of a kind of source. none is the text for an empty list.
type listed interface {
	list(ctx context.Context, repo *dynalimit.Repository) (names iter.Seq2[string, error], none string)
}

type listCmd[N listed] struct{}

// Run prints the names of all plans or resources with limits, by N, one a line. Without any it prints how to
// set limits.
func (listCmd[N]) Run(ctx context.Context, g *globals, out *term.Output) error {
	return g.readTable(ctx, out, func(repo *dynalimit.Repository) error {
		var kind N
		names, none := kind.list(ctx, repo)
		return term.Stream(out, names, term.List[string]{Row: func(name string) []string { return []string{name} }, None: none})
	})
}
