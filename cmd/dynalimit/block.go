package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// blockCmd blocks all calls of a source.
type blockCmd struct {
	Set   blockSetCmd   `cmd:"" help:"Refuse all calls of an entity, a plan, a resource or everybody."`
	Admit blockAdmitCmd `cmd:"" help:"Make a source an exception of less specific blocks that have some."`
	Lift  blockLiftCmd  `cmd:"" help:"End a block of a source. Blocks of other sources stay."`
	List  blockListCmd  `cmd:"" help:"List the sources that are blocked."`
}

// blockSource is a source named by flags.
type blockSource struct {
	Entity   string `help:"Calls of this entity; with --resource, for that alone." placeholder:"ID"`
	Plan     string `help:"Calls of the entities on this plan; with --resource, for that alone." placeholder:"NAME"`
	Resource string `help:"Calls for this resource." placeholder:"NAME"`
	System   bool   `help:"Every call of everybody."`
}

// Validate refuses flags that name no source, --entity beside --plan, and --system beside other flags.
func (l blockSource) Validate() error {
	switch {
	case l.Entity != "" && l.Plan != "":
		return errors.New("--entity and --plan are two sources: leave one of them out")
	case l.System && l.Entity+l.Plan+l.Resource != "":
		return errors.New("--system is everybody: leave it out, or --entity, --plan and --resource")
	case !l.System && l.Entity+l.Plan+l.Resource == "":
		return errors.New("which source? Give --entity, --plan, --resource or --system")
	}
	return nil
}

// sourceScope returns the scope of the flags. Without --entity and --plan it is of everybody: on the resource
// of --resource, or on all resources.
func (l blockSource) sourceScope() admin.Scope {
	return admin.Scope{Everyone: l.Entity == "" && l.Plan == "", Entity: l.Entity, Plan: l.Plan, Resource: l.Resource}
}

// describeRefused describes the calls that a block of the source at refuses, such as "every call of the
// entities on the plan pro". For an entity it includes calls of its children. It ignores exceptions.
func describeRefused(at admin.Scope) string {
	whose := "every call of everybody"
	switch {
	case at.Entity != "":
		whose = "every call of " + at.Entity + ", and of its children that are not detached"
	case at.Plan != "":
		whose = "every call of the entities on the plan " + at.Plan
	}
	if at.Resource != "" {
		return whose + ", for " + at.Resource
	}
	return whose
}

// flagsOf returns the flags that name the source at for another command, such as "--entity key-1 --resource
// gpt-4", or "--system" for everybody on all resources. Values are not quoted.
func flagsOf(at admin.Scope) string {
	var flags []string
	for _, f := range [][2]string{{"--entity", at.Entity}, {"--plan", at.Plan}, {"--resource", at.Resource}} {
		if f[1] != "" {
			flags = append(flags, f[0]+" "+f[1])
		}
	}
	if len(flags) == 0 {
		return "--system"
	}
	return strings.Join(flags, " ")
}

type blockSetCmd struct {
	blockSource
	Except bool `help:"But admit calls for which a more specific source is an exception: see 'block admit'."`
	destroys
}

// Run blocks all calls of the source, or with --except those that no more specific exception admits, and prints
// the result. It asks before it blocks the system. A dry run prints the change without storing it.
func (c blockSetCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	preview := func(marks *admin.LimitConfig) {
		marks.Blocked, marks.BlockedExcept, marks.Admit = !c.Except, c.Except, false
	}
	return c.setBlock(ctx, g, out, preview, c.destroys, func(ctx context.Context, of admin.Limits, at admin.Scope) error {
		if c.Except {
			return of.SetBlockedExcept(ctx, at)
		}
		return of.SetBlocked(ctx, at, true)
	})
}

type blockAdmitCmd struct {
	blockSource
	End bool `help:"End the exception."`
	changes
}

// Validate refuses --system, because an exception needs a less specific source that blocks.
func (c blockAdmitCmd) Validate() error {
	if c.System {
		return errors.New("--system has no less specific source that could block: name an exception with --entity, --plan or --resource")
	}
	return c.blockSource.Validate()
}

// Run makes the source an exception of blocks with exceptions, or ends that with --end, and prints the result.
// It refuses a source that is itself blocked. A dry run prints the change without storing it.
func (c blockAdmitCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	preview := func(marks *admin.LimitConfig) { marks.Admit = !c.End }
	return c.setBlock(ctx, g, out, preview, destroys{c.changes, asks{true}}, func(ctx context.Context, of admin.Limits, at admin.Scope) error {
		return of.SetAdmit(ctx, at, !c.End)
	})
}

type blockLiftCmd struct {
	blockSource
	changes
}

// Run ends the block of the source, also one with exceptions, and prints the result and the nearest less
// specific block that remains. A dry run prints the change without storing it.
func (c blockLiftCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	preview := func(marks *admin.LimitConfig) { marks.Blocked, marks.BlockedExcept = false, false }
	return c.setBlock(ctx, g, out, preview, destroys{c.changes, asks{true}}, func(ctx context.Context, of admin.Limits, at admin.Scope) error {
		return of.SetBlocked(ctx, at, false)
	})
}

// blockChange is a change of a block, or of an exception, as JSON.
type blockChange struct {
	sourceChange
	// Exceptions are the more specific sources that admit through a block with exceptions. A
	// block without exceptions overrides them.
	Exceptions []admin.Scope `json:"exceptions,omitempty"`
	// StillBlockedBy is a less specific source that still blocks.
	StillBlockedBy *admin.Scope `json:"still_blocked_by,omitempty"`
}

// setBlock stores a new block of the source with change, and prints the result with its exceptions or a
// remaining block. preview sets the same marks in a configuration, for checks and the dry run. It refuses an
// exception on a blocked source, and asks before it blocks the system.
func (l blockSource) setBlock(
	ctx context.Context, g *globals, out *term.Output, preview func(*admin.LimitConfig), how destroys,
	change func(context.Context, admin.Limits, admin.Scope) error,
) error {
	at := l.sourceScope()
	return g.changeTable(ctx, out, func(repo *dynalimit.Repository) error {
		limits := admin.New(repo).Limits
		before, err := limits.GetConfig(ctx, at)
		if err != nil {
			return err
		}
		after := before
		preview(&after)
		blocks := after.Blocked || after.BlockedExcept
		if after.Admit && blocks {
			return badInput("%s is blocked: end that first, with 'dynalimit block lift %s'", at, flagsOf(at))
		}
		if !how.DryRun {
			if err := how.confirmBlock(ctx, out, at, before, blocks); err != nil {
				return err
			}
			if err := change(ctx, limits, at); err != nil {
				return err
			}
			if after, err = limits.GetConfig(ctx, at); err != nil {
				return fmt.Errorf("the change is made, but the source cannot be read: %w", err)
			}
		}
		lines := diffFacts(out, configFacts(before), configFacts(after))
		j := blockChange{sourceChange: sourceChange{at, before, after, len(lines) > 0, how.DryRun, nil}}
		if blocks {
			j.Exceptions, err = exceptionsTo(ctx, repo, at)
		} else {
			j.StillBlockedBy, err = blockedAbove(ctx, repo, at, after)
		}
		if err != nil && !how.DryRun {
			err = fmt.Errorf("the change is made, but other sources cannot be read: %w", err)
		}
		if err != nil {
			return err
		}
		return out.Show(j, func() { printBlock(out, j, lines) })
	})
}

// confirmBlock asks for confirmation if blocks is true and the source at is the system, and fails if the user
// declines. It returns nil without a question for other sources, and if the system is already blocked without
// exceptions.
func (d destroys) confirmBlock(ctx context.Context, out *term.Output, at admin.Scope, before admin.LimitConfig, blocks bool) error {
	if !blocks || at != (admin.Scope{Everyone: true}) || before.Blocked {
		return nil
	}
	return d.confirm(ctx, out, "Admit no call of anybody, on any resource?", "system")
}

// exceptionsTo returns the more specific sources that are exceptions (Admit) to a block of the source at. It
// reads all configurations, except for an entity on one resource, where it returns nil. For a group only
// sources of that group count.
func exceptionsTo(ctx context.Context, repo *dynalimit.Repository, at admin.Scope) ([]admin.Scope, error) {
	if at.Entity != "" && at.Resource != "" { // no source is more specific
		return nil, nil
	}
	group := false
	exceptions, err := moreSpecificSources(ctx, repo, at, readConfigs(ctx, repo, admin.New(repo).Limits.Scopes(ctx)), func(c admin.ScopedConfig) bool {
		group = group || slices.Contains(c.Config.Groups, at.Resource)
		return c.Config.Admit
	})
	return slices.DeleteFunc(exceptions, func(s admin.Scope) bool { return group && s.Resource != at.Resource }), err
}

// blockedAbove returns the scope of the nearest less specific source that blocks calls of the source at, or
// nil. says is the configuration of at. A block with exceptions does not count if at, or a source between, has
// Admit.
func blockedAbove(ctx context.Context, repo *dynalimit.Repository, at admin.Scope, says admin.LimitConfig) (*admin.Scope, error) {
	scopes, err := withLessSpecific(ctx, repo, at)
	if err != nil {
		return nil, err
	}
	configs, err := admin.New(repo).Limits.GetConfigs(ctx, scopes[1:])
	admitted := says.Admit
	for i, c := range configs {
		if c.Config.Blocked || c.Config.BlockedExcept && !admitted {
			return &configs[i].Scope, nil
		}
		admitted = admitted || c.Config.Admit
	}
	return nil, err
}

// printBlock prints the changed source, the refused or admitted calls, and exceptions or a remaining block,
// each with the command to end it. lines are the differences of the configuration; for a dry run it says that
// nothing changed.
func printBlock(out *term.Output, j blockChange, lines []string) {
	printChange(out, j.Scope.String(), lines, j.DryRun)
	exceptions := notation.CountText(len(j.Exceptions), "exception")
	switch {
	case j.DryRun:
	case j.After.Blocked || j.After.BlockedExcept:
		fmt.Fprintf(out, "Shut out: %s. End it with 'dynalimit block lift %s'.\n", describeRefused(j.Scope), flagsOf(j.Scope))
	case j.Before.Blocked || j.Before.BlockedExcept:
		fmt.Fprintf(out, "Let in again, unless another source is blocked: %s.\n", describeRefused(j.Scope))
	}
	switch {
	case j.After.BlockedExcept && len(j.Exceptions) == 0:
		fmt.Fprintln(out, "No source is an exception yet: 'dynalimit block admit' makes one.")
	case j.After.BlockedExcept:
		fmt.Fprintf(out, "Admitted all the same, by %s: %s.\n", exceptions, firstScopes(j.Exceptions, 5))
	case len(j.Exceptions) > 0:
		fmt.Fprintln(out, out.Yellow(fmt.Sprintf("It overrides %s: %s.", exceptions, firstScopes(j.Exceptions, 5))))
	case j.StillBlockedBy != nil:
		fmt.Fprintln(out, out.Yellow(fmt.Sprintf("Still shut out by the block of %s: 'dynalimit block lift %s' ends that.", j.StillBlockedBy, flagsOf(*j.StillBlockedBy))))
	}
}

type blockListCmd struct{}

// blockedSource is a blocked source.
type blockedSource struct {
	admin.Scope
	// Except is true if more specific sources may be exceptions.
	Except bool `json:"except,omitempty"`
}

// Run prints the sources that block calls, also with exceptions, in one row each. It reads all configurations.
// Without any it prints that nobody is shut out.
func (blockListCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return g.readTable(ctx, out, func(repo *dynalimit.Repository) error {
		return term.Stream(out, blockedSources(ctx, repo), term.List[blockedSource]{
			Titles: []string{"SOURCE", "OF", "RESOURCE", "SHUT OUT"},
			Row: func(b blockedSource) []string {
				out := describeRefused(b.Scope)
				if b.Except {
					out += ", but for exceptions"
				}
				return []string{sourceName(b.Scope), orDash(cmp.Or(b.Entity, b.Plan)), orDash(b.Resource), out}
			},
			None: "Nobody is shut out.",
		})
	})
}

// blockedSources returns a sequence of the sources that block calls, with or without exceptions. It reads all
// configurations while it is iterated, and passes their errors on.
func blockedSources(ctx context.Context, repo *dynalimit.Repository) iter.Seq2[blockedSource, error] {
	return func(yield func(blockedSource, error) bool) {
		for c, err := range readConfigs(ctx, repo, admin.New(repo).Limits.Scopes(ctx)) {
			if (err != nil || c.Config.Blocked || c.Config.BlockedExcept) && !yield(blockedSource{c.Scope, c.Config.BlockedExcept}, err) {
				return
			}
		}
	}
}
