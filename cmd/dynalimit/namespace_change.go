package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/shared"
)

type namespaceRegisterCmd struct {
	namespaceName
	changes
}

func (c namespaceRegisterCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return c.change(ctx, g, out, c.changes, fault.NamespaceActive, "Limiters may use it within a minute, with --namespace "+c.Name+" here.",
		func(repo *dynalimit.Repository, before admin.Namespace) error {
			switch {
			case !c.DryRun:
				err := admin.New(repo).Namespaces.Register(ctx, c.Name)
				if n, ok := errors.AsType[*fault.NamespaceError](err); ok && n.State == fault.NamespaceDeleted {
					err = &failure{exitFailed, fmt.Errorf("namespace %q was deleted: undo that with 'dynalimit namespace recover %s', or choose another name", c.Name, c.Name)}
				}
				return err
			case before.State == "":
				return nil
			}
			return &failure{exitFailed, fmt.Errorf("namespace %q is %s: 'dynalimit namespace list' shows it; choose another name", c.Name, before.State)}
		})
}

type namespaceDeleteCmd struct {
	namespaceName
	destroys
}

func (c namespaceDeleteCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return c.change(ctx, g, out, c.changes, fault.NamespaceDeleted, "Its calls fail within a minute. Undo it with 'dynalimit namespace recover "+c.Name+"'.",
		func(repo *dynalimit.Repository, before admin.Namespace) error {
			if c.DryRun {
				return wouldBe(c.Name, before.State, fault.NamespaceDeleted)
			}
			if before.State != "" && before.State != fault.NamespaceDeleted {
				if err := c.confirm(ctx, out, "What is stored stays. Stop all limiters of the namespace "+c.Name+"?", c.Name); err != nil {
					return err
				}
			}
			return admin.New(repo).Namespaces.Delete(ctx, c.Name)
		})
}

type namespaceRecoverCmd struct {
	namespaceName
	changes
}

func (c namespaceRecoverCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return c.change(ctx, g, out, c.changes, fault.NamespaceActive, "Its limiters are served again within a minute.",
		func(repo *dynalimit.Repository, before admin.Namespace) error {
			if c.DryRun {
				return wouldBe(c.Name, before.State, fault.NamespaceActive)
			}
			return admin.New(repo).Namespaces.Recover(ctx, c.Name)
		})
}

// change changes the state of a namespace, and shows that.
func (n namespaceName) change(
	ctx context.Context, g *globals, out *term.Output, how changes, to fault.NamespaceState, done string,
	do func(repo *dynalimit.Repository, before admin.Namespace) error,
) error {
	return g.whole().changing(ctx, out, func(repo *dynalimit.Repository) error {
		before, err := admin.New(repo).Namespaces.Get(ctx, n.Name)
		if err == nil {
			err = do(repo, before)
		}
		if err != nil {
			return err
		}
		j := namespaceChange{n.Name, before.State, to, before.State != to, how.DryRun}
		return out.Show(j, func() { j.print(out, done) })
	})
}

func (j namespaceChange) print(out *term.Output, done string) {
	var lines []string
	if j.Changed {
		lines = diff(out, map[string]string{"state": string(j.Before)}, map[string]string{"state": string(j.After)})
	}
	if !j.Changed && !j.DryRun {
		done = "Nothing to change: that is its state."
	}
	printDone(out, "namespace "+j.Name, lines, j.DryRun, done)
}

type namespacePurgeCmd struct {
	namespaceName
	destroys
}

// purgeJSON is what a purge came to, for programs.
type purgeJSON struct {
	Name    string               `json:"name"`
	Before  fault.NamespaceState `json:"before"`
	After   fault.NamespaceState `json:"after"`
	Wait    float64              `json:"wait_seconds"`
	Passes  int                  `json:"passes"`
	Read    int64                `json:"items_read"`
	Removed int64                `json:"items_removed"`
	DryRun  bool                 `json:"dry_run"`
}

func (c namespacePurgeCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	g = g.whole()
	return g.changing(ctx, out, func(repo *dynalimit.Repository) error {
		before, err := admin.New(repo).Namespaces.Get(ctx, c.Name)
		if err == nil {
			err = wouldBe(c.Name, before.State, fault.NamespacePurged)
		}
		if err != nil {
			return err
		}
		j := purgeJSON{Name: c.Name, Before: before.State, After: fault.NamespacePurged, DryRun: c.DryRun}
		if before.State == fault.NamespaceDeleted {
			j.Wait = max(0, before.ChangedAt.Add(shared.NoticeTime).Sub(now(ctx)).Seconds())
		}
		far := g.watch(ctx, out)
		if !c.DryRun {
			if err := c.confirm(ctx, out, c.question(j, far.total), c.Name); err != nil {
				return err
			}
			if err := j.run(ctx, repo, far); err != nil {
				return err
			}
		}
		return out.Show(j, func() { j.print(out, far.total) })
	})
}

func (c namespacePurgeCmd) question(j purgeJSON, items int64) string {
	return fmt.Sprintf("%s Remove everything in the namespace %s, for good?", j.plan(items), c.Name)
}

// plan is what a purge is going to do.
func (j purgeJSON) plan(items int64) string {
	text := "It reads the whole table, at least once"
	if items > 0 {
		text += fmt.Sprintf(", about %d items", items)
	}
	if j.Wait > 0 {
		text += ", after a wait of " + notation.Wait(time.Duration(j.Wait*float64(time.Second))) + " until every limiter knows of the deletion"
	}
	return text + "."
}

// run purges, and tells how far it is.
func (j *purgeJSON) run(ctx context.Context, repo *dynalimit.Repository, far *progress) error {
	return admin.New(repo).Namespaces.Purge(ctx, j.Name, func(p admin.PurgeProgress) {
		j.Passes, j.Read, j.Removed = p.Pass, p.Read, p.Removed
		if p.Left > 0 {
			far.out.Waitf("dynalimit: waiting until every limiter knows of the deletion: %s left; Ctrl-C ends the wait, and the namespace stays deleted", notation.Wait(p.Left))
			return
		}
		far.tell(p.Pass, p.Read, fmt.Sprintf("%d removed", p.Removed))
	})
}

func (j purgeJSON) print(out *term.Output, items int64) {
	fmt.Fprintln(out, out.Bold("namespace "+j.Name))
	if j.DryRun {
		fmt.Fprintf(out, "Would remove everything in it. %s\nDry run: nothing was changed.\n", j.plan(items))
		return
	}
	fmt.Fprintf(out, "Purged: %d items removed, %d read in %d passes. The name stays taken.\n", j.Removed, j.Read, j.Passes)
}
