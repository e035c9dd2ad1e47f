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
)

// namespaceCmd is about the tenants of a table. It works on the table as a whole, so that
// --namespace plays no part.
type namespaceCmd struct {
	Register namespaceRegisterCmd `cmd:"" help:"Register a namespace, so that limiters may use it."`
	List     namespaceListCmd     `cmd:"" help:"List the namespaces of the table."`
	Delete   namespaceDeleteCmd   `cmd:"" help:"Stop the limiters of a namespace. What is stored stays."`
	Recover  namespaceRecoverCmd  `cmd:"" help:"Undo the deletion of a namespace."`
	Purge    namespacePurgeCmd    `cmd:"" help:"Remove everything in a deleted namespace, for good."`
}

// whole is the flags for the table as a whole.
func (g *globals) whole() *globals {
	all := *g
	all.Namespace = ""
	return &all
}

// namespaceName names a namespace.
type namespaceName struct {
	Name string `arg:"" name:"name" help:"The namespace's name."`
}

func (n namespaceName) Validate() error {
	if reason := schema.CheckNamespace(n.Name); reason != "" {
		return fmt.Errorf("the name of the namespace %s", reason)
	}
	return nil
}

// namespaceJSON is a namespace, for programs.
type namespaceJSON struct {
	Name         string               `json:"name"`
	State        fault.NamespaceState `json:"state"`
	RegisteredAt time.Time            `json:"registered_at"`
	RegisteredBy string               `json:"registered_by,omitempty"`
	ChangedAt    time.Time            `json:"changed_at"`
	ChangedBy    string               `json:"changed_by,omitempty"`
}

func namespaceToJSON(n admin.Namespace) namespaceJSON {
	return namespaceJSON{n.Name, n.State, n.RegisteredAt.UTC(), n.RegisteredBy, n.ChangedAt.UTC(), n.ChangedBy}
}

type namespaceListCmd struct{}

func (namespaceListCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return g.whole().reading(ctx, out, func(repo *dynalimit.Repository) error {
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

// namespaceChange is what became of a namespace, for programs.
type namespaceChange struct {
	Name    string               `json:"name"`
	Before  fault.NamespaceState `json:"before,omitempty"`
	After   fault.NamespaceState `json:"after"`
	Changed bool                 `json:"changed"`
	DryRun  bool                 `json:"dry_run"`
}

// wouldBe checks for a dry run that a namespace can come from one state into another.
func wouldBe(name string, from, to fault.NamespaceState) error {
	switch {
	case to == fault.NamespaceActive && from == fault.NamespaceDeleted:
		return nil // whether registered or recovered is for the caller
	case from == "":
		return &failure{exitFailed, fmt.Errorf("namespace %q is not registered: register it with 'dynalimit namespace register %s', or correct the name", name, name)}
	case to == fault.NamespaceActive && from != fault.NamespaceActive,
		to == fault.NamespaceDeleted && from != fault.NamespaceActive && from != fault.NamespaceDeleted:
		return &failure{exitFailed, fmt.Errorf("namespace %q is %s, which is final; look at it with 'dynalimit namespace list'", name, from)}
	case to == fault.NamespacePurged && from == fault.NamespaceActive:
		return &failure{exitFailed, fmt.Errorf("namespace %q is active: delete it with 'dynalimit namespace delete %s' before it is purged", name, name)}
	}
	return nil
}
