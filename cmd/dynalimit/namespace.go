package main

import (
	"context"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
)

// namespaceCmd manages the tenants of a table. It works on the table as a whole and ignores
// --namespace.
type namespaceCmd struct {
	Register namespaceRegisterCmd `cmd:"" help:"Register a namespace, so that limiters may use it."`
	List     namespaceListCmd     `cmd:"" help:"List the namespaces of the table."`
	Delete   namespaceDeleteCmd   `cmd:"" help:"Stop the limiters of a namespace, for good. Its items stay."`
	Purge    namespacePurgeCmd    `cmd:"" help:"Remove everything in a deleted namespace, for good."`
}

// withoutNamespace returns a copy of the flags without the namespace.
func (g *globals) withoutNamespace() *globals {
	all := *g
	all.Namespace = ""
	return &all
}

// namespaceName names a namespace.
type namespaceName struct {
	Name string `arg:"" name:"name" help:"The namespace's name."`
}

// Validate refuses an invalid name.
func (n namespaceName) Validate() error {
	if reason := schema.EntityRule.Check(n.Name); reason != "" {
		return fmt.Errorf("the name of the namespace %s", reason)
	}
	return nil
}

// namespaceJSON is a namespace as JSON.
type namespaceJSON struct {
	Name         string               `json:"name"`
	State        fault.NamespaceState `json:"state"`
	RegisteredAt time.Time            `json:"registered_at"`
	RegisteredBy string               `json:"registered_by,omitempty"`
	ChangedAt    time.Time            `json:"changed_at"`
	ChangedBy    string               `json:"changed_by,omitempty"`
}

// namespaceToJSON converts a namespace for --json, with its times in UTC.
func namespaceToJSON(n admin.Namespace) namespaceJSON {
	return namespaceJSON{n.Name, n.State, n.RegisteredAt.UTC(), n.RegisteredBy, n.ChangedAt.UTC(), n.ChangedBy}
}

type namespaceListCmd struct{}

// Run prints all namespaces of the table with their state, the time and the author of the last change. It
// ignores --namespace.
func (namespaceListCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return g.withoutNamespace().readTable(ctx, out, func(repo *dynalimit.Repository) error {
		return term.Stream(out, admin.New(repo).Namespaces.List(ctx), term.List[admin.Namespace]{
			Titles: []string{"NAMESPACE", "STATE", "SINCE", "BY"},
			Row: func(n admin.Namespace) []string {
				return []string{n.Name, string(n.State), n.ChangedAt.UTC().Format(time.RFC3339), orDash(n.ChangedBy)}
			},
			JSON: func(n admin.Namespace) any { return namespaceToJSON(n) },
			None: "No namespaces: everything is in the table itself. Begin with 'dynalimit namespace register NAME'.",
		})
	})
}

// namespaceChange is a change of a namespace as JSON.
type namespaceChange struct {
	Name    string               `json:"name"`
	Before  fault.NamespaceState `json:"before,omitempty"`
	After   fault.NamespaceState `json:"after"`
	Changed bool                 `json:"changed"`
	DryRun  bool                 `json:"dry_run"`
}

// printText prints the change of a namespace's state and done, which is advice. It replaces done if nothing
// changes, or in a dry run.
func (j namespaceChange) printText(out *term.Output, done string) {
	var lines []string
	if j.Changed {
		lines = diffFacts(out, map[string]string{"state": string(j.Before)}, map[string]string{"state": string(j.After)})
	} else {
		done = "Nothing to change: that is its state."
	}
	printDone(out, "namespace "+j.Name, lines, j.DryRun, done)
}

// findNamespace reads the namespace of the argument; State is "" if it is not registered. It fails if the state
// cannot change to the state to now. A purge needs a namespace deleted so long ago that limiters no longer
// write in it.
func (n namespaceName) findNamespace(ctx context.Context, repo *dynalimit.Repository, to fault.NamespaceState) (admin.Namespace, error) {
	found, err := admin.New(repo).Namespaces.Get(ctx, n.Name)
	if err != nil {
		return found, err
	}
	reason, until := "", found.ChangedAt.Add(shared.NoticeTime)
	switch {
	case to == fault.NamespaceActive && found.State == fault.NamespaceActive:
		reason = "use it, or choose another name"
	case to == fault.NamespaceActive && found.State != "":
		reason = shared.GoneIt
	case to != fault.NamespaceActive && found.State == "":
		reason = shared.RegisterIt
	case to == fault.NamespacePurged && found.State == fault.NamespaceActive:
		reason = "delete it with 'dynalimit namespace delete' before it is purged"
	case to == fault.NamespacePurged && found.State == fault.NamespaceDeleted && now(ctx).Before(until):
		reason = "limiters may still write in it; purge it from " + until.UTC().Format(time.RFC3339) + " on"
	}
	if reason != "" {
		return found, shared.NamespaceError(n.Name, schema.NamespaceRecord{State: found.State, ChangedAt: found.ChangedAt}, reason)
	}
	return found, nil
}

type namespaceRegisterCmd struct {
	namespaceName
	changes
}

// Run registers a namespace, so that limiters may use it, and prints that. It fails if the name is active or
// was deleted. A dry run checks that and registers nothing.
func (c namespaceRegisterCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return g.withoutNamespace().changeTable(ctx, out, func(repo *dynalimit.Repository) error {
		_, err := c.findNamespace(ctx, repo, fault.NamespaceActive)
		if err == nil && !c.DryRun {
			err = admin.New(repo).Namespaces.Register(ctx, c.Name)
		}
		if err != nil {
			return err
		}
		j := namespaceChange{c.Name, "", fault.NamespaceActive, true, c.DryRun}
		return out.Show(j, func() { j.printText(out, "Limiters may use it within a minute, with --namespace "+c.Name+" here.") })
	})
}

type namespaceDeleteCmd struct {
	namespaceName
	destroys
}

// Run ends a namespace for good, after a confirmation: calls of its limiters then fail. Its items stay until a
// purge. It changes nothing in a dry run, and if the namespace is deleted already; an unregistered one is an
// error.
func (c namespaceDeleteCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return g.withoutNamespace().changeTable(ctx, out, func(repo *dynalimit.Repository) error {
		before, err := c.findNamespace(ctx, repo, fault.NamespaceDeleted)
		if err != nil {
			return err
		}
		j := namespaceChange{c.Name, before.State, before.State, before.State == fault.NamespaceActive, c.DryRun}
		if j.Changed {
			j.After = fault.NamespaceDeleted
		}
		if j.Changed && !c.DryRun {
			if err := c.confirm(ctx, out, "What is stored stays. Stop all limiters of the namespace "+c.Name+", for good?", c.Name); err != nil {
				return err
			}
			if err := admin.New(repo).Namespaces.Delete(ctx, c.Name); err != nil {
				return err
			}
		}
		return out.Show(j, func() {
			j.printText(out, "Its calls fail within a minute. 'dynalimit namespace purge "+c.Name+"' removes its items.")
		})
	})
}

type namespacePurgeCmd struct {
	namespaceName
	destroys
}

// purgeJSON is the result of a purge as JSON.
type purgeJSON struct {
	Name    string               `json:"name"`
	Before  fault.NamespaceState `json:"before"`
	After   fault.NamespaceState `json:"after"`
	Passes  int                  `json:"passes"`
	Read    int64                `json:"items_read"`
	Removed int64                `json:"items_removed"`
	DryRun  bool                 `json:"dry_run"`
}

// Run removes all items of a namespace for good, after a confirmation; the name stays taken. It fails unless
// the namespace was deleted long enough ago. It scans the whole table and notes its progress; a dry run removes
// nothing.
func (c namespacePurgeCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	g = g.withoutNamespace()
	return g.changeTable(ctx, out, func(repo *dynalimit.Repository) error {
		before, err := c.findNamespace(ctx, repo, fault.NamespacePurged)
		if err != nil {
			return err
		}
		j := purgeJSON{Name: c.Name, Before: before.State, After: fault.NamespacePurged, DryRun: c.DryRun}
		far := g.newProgress(ctx, out)
		plan := "It reads the whole table, at least once"
		if far.total > 0 {
			plan += fmt.Sprintf(", about %d items", far.total)
		}
		if c.DryRun {
			return out.Show(j, func() {
				fmt.Fprintf(out, "%s\nWould remove everything in it. %s.\nDry run: nothing was changed.\n", out.Bold("namespace "+j.Name), plan)
			})
		}
		if err := c.confirm(ctx, out, plan+". Remove everything in the namespace "+c.Name+", for good?", c.Name); err != nil {
			return err
		}
		err = admin.New(repo).Namespaces.Purge(ctx, j.Name, func(p admin.PurgeProgress) {
			j.Passes, j.Read, j.Removed = p.Pass, p.Read, p.Removed
			far.reportPass(p.Pass, p.Read, fmt.Sprintf("%d removed", p.Removed))
		})
		if err != nil {
			return err
		}
		return out.Show(j, func() {
			fmt.Fprintf(out, "%s\nPurged: %d items removed, %d read in %d passes. The name stays taken.\n", out.Bold("namespace "+j.Name), j.Removed, j.Read, j.Passes)
		})
	})
}
