package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/manifest"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/fault"
)

// applyHold is how long other processes wait after an apply has died, plus 5 s.
const applyHold = 20 * time.Second

type manifestApplyCmd struct {
	manifestFile
	manifestOptions
	destroys
	Wait time.Duration `help:"How long to wait while another process applies." default:"1m" placeholder:"TIME"`
}

// Validate refuses a negative --wait.
func (c manifestApplyCmd) Validate() error {
	if c.Wait < 0 {
		return fmt.Errorf("--wait %v is less than nothing: give 0 or more", c.Wait)
	}
	return nil
}

// applied is the result of an apply as JSON.
type applied struct {
	Plan    manifest.Plan    `json:"plan"`
	Outcome manifest.Outcome `json:"outcome"`
	DryRun  bool             `json:"dry_run"`
}

// Run shows the changes that make the table match the manifest, and makes them after a confirmation; --yes
// skips it. It changes nothing in a dry run, or if the plan refuses a change. It fails if the table changed
// between plan and confirmation.
func (c manifestApplyCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	m, err := c.readManifest(g)
	if err != nil {
		return err
	}
	return g.changeTable(ctx, out, func(repo *dynalimit.Repository) error {
		run := &applyRun{c: c, g: g, out: out, repo: repo, m: m}
		if c.Yes && !c.DryRun {
			return run.applyAlone(ctx, nil)
		}
		p, err := c.makePlan(ctx, repo, m)
		if err != nil {
			return err
		}
		if c.DryRun || len(p.Changes) == 0 || p.Count(manifest.Refuse) > 0 {
			return run.printOutcome(p, manifest.Outcome{}, nil)
		}
		if !out.JSON {
			manifest.Show(out, p, c.shortName(), c.Full)
		}
		what := fmt.Sprintf("%d changes are", len(p.Changes))
		if len(p.Changes) == 1 {
			what = "1 change is"
		}
		if err := out.Confirm(ctx, fmt.Sprintf("%s to be made in the table %s", what, repo.Table()), "apply"); err != nil {
			return err
		}
		return run.applyAlone(ctx, &p)
	})
}

// applyRun is one apply.
type applyRun struct {
	c    manifestApplyCmd
	g    *globals
	out  *term.Output
	repo *dynalimit.Repository
	m    *manifest.Manifest

	waited func() // ends the note about waiting; nil while there is none
}

// applyAlone waits for the table's lock, plans and applies the manifest under it, and prints the outcome. It
// fails if the plan differs from agreed, the confirmed one; nil means that nothing was asked. If the plan
// refuses a change, it applies nothing.
func (r *applyRun) applyAlone(ctx context.Context, agreed *manifest.Plan) error {
	opts := &admin.AloneOptions{Hold: applyHold, Wait: r.c.Wait, OnWait: r.noteWaiting}
	defer r.endWaiting()
	return admin.New(r.repo).Alone(ctx, "manifest", opts, func(ctx context.Context) error {
		r.endWaiting()
		p, err := r.c.makePlan(ctx, r.repo, r.m)
		if err != nil {
			return err
		}
		if agreed != nil && (!reflect.DeepEqual(p.Changes, agreed.Changes) || !slices.Equal(p.Warnings, agreed.Warnings)) {
			return &failure{exitConflict, errors.New("the table was changed since the plan was shown, nothing was applied: run the command again and look at the new plan")}
		}
		if agreed == nil && !r.out.JSON && len(p.Changes) > 0 && p.Count(manifest.Refuse) == 0 {
			manifest.Show(r.out, p, r.c.shortName(), r.c.Full)
		}
		if len(p.Changes) == 0 || p.Count(manifest.Refuse) > 0 {
			return r.printOutcome(p, manifest.Outcome{}, nil)
		}
		outcome, err := manifest.Apply(ctx, manifest.Of(admin.New(r.repo)), p, r.progressPrinter(ctx))
		return r.printOutcome(p, outcome, err)
	})
}

// noteWaiting prints the holder of the lock at its first call, and starts a regular note until endWaiting.
// Further calls do nothing.
func (r *applyRun) noteWaiting(held *fault.LockedError) {
	if r.waited != nil {
		return
	}
	r.out.Notef("dynalimit: %s applies a manifest to this table: waiting for up to %v", term.Plain(held.Holder), r.c.Wait)
	r.waited = r.out.Watch(term.Plain(held.Holder) + ", who applies a manifest to this table")
}

// endWaiting ends the notes of noteWaiting, if any, so that the next call of noteWaiting prints again.
func (r *applyRun) endWaiting() {
	if r.waited != nil {
		r.waited()
	}
	r.waited = nil
}

// progressPrinter returns a function that notes the number of made changes and the estimated remaining time. It
// notes at most every two seconds, and nothing at the start and the end.
func (r *applyRun) progressPrinter(ctx context.Context) func(done, total int) {
	start := now(ctx)
	last := start
	return func(done, total int) {
		at := now(ctx)
		if at.Sub(last) < noteInterval || done == 0 || done == total {
			return
		}
		last = at
		rest := timeLeft(int64(done), int64(total), at.Sub(start)).Round(time.Second)
		r.out.Notef("dynalimit: %d of %d changes made, about %v left; Ctrl-C stops after the changes in flight", done, total, rest)
	}
}

// printOutcome prints the result of an apply, and sets Error of each element of o.Failed to a text for people.
// It returns the error that ends the command: err, or one about refused, conflicting or failed changes. In a
// dry run refused ones are not an error.
func (r *applyRun) printOutcome(p manifest.Plan, o manifest.Outcome, err error) error {
	for i, f := range o.Failed {
		if f.Err != nil {
			o.Failed[i].Error = textOf(f.Err)
		}
	}
	show := r.out.Show(applied{p, o, r.c.DryRun}, func() { r.printText(p, o, err) })
	refused, conflicts := p.Count(manifest.Refuse), o.Conflicts()
	switch {
	case errors.Is(err, context.Canceled):
		return &failure{exitInterrupted, fmt.Errorf("interrupted: %d changes were made and %d are left: run the command again to go on", o.Done, o.Left)}
	case err != nil && o.Left > 0:
		return errors.Join(fmt.Errorf("%w; %d changes were made and %d are left: run the command again to go on", err, o.Done, o.Left), show)
	case err != nil || show != nil:
		return errors.Join(err, show)
	case r.c.DryRun:
		return nil
	case refused > 0:
		return &failure{exitFailed, fmt.Errorf("%d items are refused, so nothing was changed: follow the advice for each, and apply again", refused)}
	case conflicts > 0:
		return &failure{exitConflict, fmt.Errorf("%d changes were not made, because somebody else changed the items since the plan: look at them with 'dynalimit manifest plan', and apply again", conflicts)}
	case len(o.Failed) > 0:
		return &failure{exitFailed, fmt.Errorf("%d changes were not made: correct the fault of each, and apply again", len(o.Failed))}
	}
	return nil
}

// printText prints the plan if nothing was applied, else the failed changes and, if err is nil, the number of
// made ones.
func (r *applyRun) printText(p manifest.Plan, o manifest.Outcome, err error) {
	switch {
	case r.c.DryRun:
		manifest.Show(r.out, p, r.c.shortName(), r.c.Full)
		fmt.Fprintln(r.out, "Dry run: nothing was changed.")
		return
	case len(p.Changes) == 0 || p.Count(manifest.Refuse) > 0:
		manifest.Show(r.out, p, r.c.shortName(), r.c.Full)
		return
	}
	for _, f := range o.Failed {
		fmt.Fprintln(r.out, r.out.Red("! "+term.Plain(f.What+": "+f.Error)))
	}
	if err == nil {
		fmt.Fprintf(r.out, "Applied %d of %d changes. In force everywhere within a minute.\n", o.Done, len(p.Changes))
	}
}
