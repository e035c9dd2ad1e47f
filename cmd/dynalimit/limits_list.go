package main

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/sources"
)

type limitsListCmd struct {
	Resource string `help:"Only entities with limits for this resource." placeholder:"NAME"`
}

// Run prints all configured sources with their settings. With --resource it prints only those of entities with
// limits for it.
func (c limitsListCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return g.readTable(ctx, out, func(repo *dynalimit.Repository) error {
		return term.Stream(out, readConfigs(ctx, repo, c.scopes(ctx, repo)), term.List[admin.ScopedConfig]{
			Titles: []string{"SOURCE", "OF", "RESOURCE", "SAYS"},
			Row: func(s admin.ScopedConfig) []string {
				return []string{sourceName(s.Scope), orDash(s.Scope.Entity + s.Scope.Plan), orDash(s.Scope.Resource), configText(s.Config)}
			},
			None: "Nothing is set. Begin with 'dynalimit system set rpm=100'.",
		})
	})
}

// scopes returns a sequence of all configured scopes or, with --resource, of the scopes of entities with limits
// for it. It reads during the iteration and yields errors.
func (c limitsListCmd) scopes(ctx context.Context, repo *dynalimit.Repository) iter.Seq2[admin.Scope, error] {
	if c.Resource == "" {
		return admin.New(repo).Limits.Scopes(ctx)
	}
	return func(yield func(admin.Scope, error) bool) {
		for id, err := range admin.New(repo).Limits.Entities(ctx, c.Resource) {
			if !yield(admin.Scope{Entity: id, Resource: c.Resource}, err) {
				return
			}
		}
	}
}

// sourceName returns the kind of a source: entity, plan, resource or system.
func sourceName(s admin.Scope) string {
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

type limitsResolveCmd struct {
	Entity   string `arg:"" help:"The entity's id."`
	Resource string `arg:"" help:"The resource that it asks for."`
}

// Run prints the limits in force for an entity on a resource and on its groups, with their sources. It reads
// the configuration anew, and no bucket.
func (c limitsResolveCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return g.readTable(ctx, out, func(repo *dynalimit.Repository) error {
		resolved, err := repo.ResolveLimits(ctx, c.Entity, c.Resource)
		if err != nil {
			return err
		}
		return out.Show(resolved, func() {
			fmt.Fprintf(out, "%s on %s\n", out.Bold(resolved.EntityID), out.Bold(resolved.Resource))
			printResolved(out, resolved, "no source has limits: the service's own limits apply, which it gives to New")
			for _, group := range resolved.Groups {
				fmt.Fprintf(out, "and of the group %s\n", out.Bold(group.Resource))
				group.Plan, group.ParentID = "", "" // printed above
				printResolved(out, group, noGroupLimits)
			}
		})
	})
}

// noGroupLimits is the text for a group without limits of an entity.
const noGroupLimits = "no limits: none are set for the group by its name"

// printResolved prints the limits in force, or that calls are blocked or unlimited, then their sources, plan,
// parent, raises, and lifted and hidden limits. none is the text without any source.
func printResolved(out *term.Output, r dynalimit.ResolvedLimits, none string) {
	switch {
	case r.Blocked != "":
		fmt.Fprintf(out, "  %s\n", out.Red("blocked at the source "+string(r.Blocked)+": no call is admitted"))
	case r.Unlimited:
		fmt.Fprintf(out, "  unlimited, by the source %s\n", r.Source)
	case r.Source == "":
		fmt.Fprintln(out, "  "+none)
	}
	printLimits(out, r.Limits)
	facts := []string{"from", fromSources(r), "plan", r.Plan, "parent", r.ParentID, "charges", chargesText(r.ParentID, r.Cascade, r.Detached)}
	if r.Counted != "" {
		facts = append(facts, "counted", fmt.Sprintf("by less specific limits, which deny nothing: the source %s is unlimited", r.Counted))
	}
	if r.Admitted != "" {
		facts = append(facts, "admitted", fmt.Sprintf("by the source %s, though a less specific one blocks with exceptions", r.Admitted))
	}
	if r.OnUnavailable != "" {
		facts = append(facts, "in outages", fmt.Sprintf("%s, by the source %s", r.OnUnavailable, r.PolicySource))
	}
	for _, by := range r.Raised {
		facts = append(facts, "raised", fmt.Sprintf("%s from %s until %s, by the source %s", by.Name, notation.GroupedNumber(by.Capacity), endText(by.Until), by.Source))
	}
	for _, h := range r.Lifted {
		facts = append(facts, "taken away", fmt.Sprintf("%s, by the source %s", h.Name, h.Source))
	}
	for _, h := range r.Hidden {
		facts = append(facts, "not used", fmt.Sprintf("%s of the source %s: the source %s hides it", h.Name, h.Source, r.Source))
	}
	printFields(out, facts...)
}

// fromSources names the source of the limits or, if they come from several, each source with the names of its
// limits.
func fromSources(r dynalimit.ResolvedLimits) string {
	if slices.IndexFunc(r.From, func(l sources.Source) bool { return l != r.Source }) < 0 {
		return string(r.Source)
	}
	names := map[sources.Source][]string{}
	for i, l := range r.Limits {
		names[r.From[i]] = append(names[r.From[i]], l.Name)
	}
	var texts []string
	for i, source := range r.From {
		if slices.Index(r.From, source) == i {
			texts = append(texts, string(source)+" ("+strings.Join(names[source], ", ")+")")
		}
	}
	return strings.Join(texts, ", ")
}
