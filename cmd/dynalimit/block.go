package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// blockCmd shuts levels out.
type blockCmd struct {
	Set  blockSetCmd  `cmd:"" help:"Admit no call of an entity, a plan, a resource or anybody."`
	Lift blockLiftCmd `cmd:"" help:"End a block."`
	List blockListCmd `cmd:"" help:"List the levels that are blocked."`
}

// blockLevel names a level by flags.
type blockLevel struct {
	Entity   string `help:"Calls of this entity; with --resource, for that alone." placeholder:"ID"`
	Plan     string `help:"Calls of the entities on this plan; with --resource, for that alone." placeholder:"NAME"`
	Resource string `help:"Calls for this resource." placeholder:"NAME"`
	System   bool   `help:"Every call of everybody."`
}

func (l blockLevel) Validate() error {
	switch {
	case l.Entity != "" && l.Plan != "":
		return errors.New("--entity and --plan are two levels: leave one of them out")
	case l.System && l.Entity+l.Plan+l.Resource != "":
		return errors.New("--system is everybody: leave it out, or --entity, --plan and --resource")
	case !l.System && l.Entity+l.Plan+l.Resource == "":
		return errors.New("which level? Give --entity, --plan, --resource or --system")
	}
	return nil
}

func (l blockLevel) scope() admin.Scope {
	return admin.Scope{Everyone: l.Entity == "" && l.Plan == "", Entity: l.Entity, Plan: l.Plan, Resource: l.Resource}
}

// shutsOut is what a block of a level keeps from being admitted, in words.
func shutsOut(at admin.Scope) string {
	whose := "every call of everybody"
	switch {
	case at.Entity != "":
		whose = "every call of " + at.Entity + ", and of entities whose parent it is and that are not detached"
	case at.Plan != "":
		whose = "every call of the entities on the plan " + at.Plan
	}
	if at.Resource != "" {
		return whose + ", for " + at.Resource
	}
	return whose
}

// flagsOf are the flags that name a level.
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
	blockLevel
	destroys
}

func (c blockSetCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return c.setBlock(ctx, g, out, true, c.destroys)
}

type blockLiftCmd struct {
	blockLevel
	changes
}

func (c blockLiftCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return c.setBlock(ctx, g, out, false, destroys{c.changes, asks{true}})
}

// setBlock sets or lifts the block of a level.
func (l blockLevel) setBlock(ctx context.Context, g *globals, out *term.Output, blocked bool, how destroys) error {
	at := l.scope()
	return g.changing(ctx, out, func(repo *dynalimit.Repository) error {
		before, err := admin.New(repo).Limits.GetConfig(ctx, at)
		if err != nil {
			return err
		}
		after := before
		after.Blocked = blocked
		if !how.DryRun {
			if err := how.confirmBlock(ctx, out, at, before); err != nil {
				return err
			}
			if after, err = setBlocked(ctx, repo, at, blocked); err != nil {
				return err
			}
		}
		lines := diff(out, facts(before), facts(after))
		j := levelChange{at, before, after, len(lines) > 0, how.DryRun, nil}
		return out.Show(j, func() { printBlock(out, j, lines) })
	})
}

// confirmBlock asks before everybody is shut out.
func (d destroys) confirmBlock(ctx context.Context, out *term.Output, at admin.Scope, before admin.LimitConfig) error {
	if at != (admin.Scope{Everyone: true}) || before.Blocked {
		return nil
	}
	return d.confirm(ctx, out, "Admit no call of anybody, on any resource?", "system")
}

// setBlocked sets or lifts a block, and reads what the level says then.
func setBlocked(ctx context.Context, repo *dynalimit.Repository, at admin.Scope, blocked bool) (admin.LimitConfig, error) {
	if err := admin.New(repo).Limits.SetBlocked(ctx, at, blocked); err != nil {
		return admin.LimitConfig{}, err
	}
	after, err := admin.New(repo).Limits.GetConfig(ctx, at)
	if err != nil {
		return after, fmt.Errorf("the change is made, but the level cannot be read: %w", err)
	}
	return after, nil
}

// printBlock shows what a change of a block means.
func printBlock(out *term.Output, j levelChange, lines []string) {
	printChange(out, j.Scope.String(), lines, j.DryRun)
	switch {
	case j.DryRun:
	case j.After.Blocked:
		fmt.Fprintf(out, "Shut out: %s. End it with 'dynalimit block lift %s'.\n", shutsOut(j.Scope), flagsOf(j.Scope))
	case len(lines) > 0:
		fmt.Fprintf(out, "Let in again, unless another level is blocked: %s.\n", shutsOut(j.Scope))
	}
}

type blockListCmd struct{}

func (blockListCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return g.reading(ctx, out, func(repo *dynalimit.Repository) error {
		return term.Stream(out, blockedLevels(ctx, repo), term.List[admin.Scope]{
			Titles: []string{"LEVEL", "OF", "RESOURCE", "SHUT OUT"},
			Row: func(at admin.Scope) []string {
				return []string{levelName(at), orDash(cmp.Or(at.Entity, at.Plan)), orDash(at.Resource), shutsOut(at)}
			},
			None: "Nobody is shut out.",
		})
	})
}

// batch is how many levels are read at once.
const batch = 100

// batches are what is found, n at a time; the last may be fewer.
func batches[T any](all iter.Seq2[T, error], n int) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		var some []T
		for one, err := range all {
			if err != nil {
				yield(nil, err)
				return
			}
			if some = append(some, one); len(some) < n {
				continue
			}
			if !yield(some, nil) {
				return
			}
			some = nil
		}
		if len(some) > 0 {
			yield(some, nil)
		}
	}
}

// blockedLevels are the levels that are blocked, as they are found.
func blockedLevels(ctx context.Context, repo *dynalimit.Repository) iter.Seq2[admin.Scope, error] {
	return func(yield func(admin.Scope, error) bool) {
		for c, err := range configured(ctx, repo, admin.New(repo).Limits.Scopes(ctx)) {
			if (err != nil || c.Config.Blocked) && !yield(c.Scope, err) {
				return
			}
		}
	}
}
