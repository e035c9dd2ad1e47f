package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// entityCmd manages the records of entities.
type entityCmd struct {
	Create   entityCreateCmd   `cmd:"" help:"Make the record of an entity: its parent, plan, name and metadata."`
	Show     entityShowCmd     `cmd:"" help:"Show an entity's record."`
	List     entityListCmd     `cmd:"" help:"List the entities that have records."`
	Update   entityUpdateCmd   `cmd:"" help:"Change the given fields of an entity's record."`
	Delete   entityDeleteCmd   `cmd:"" help:"Delete an entity with its limits and buckets."`
	Children entityChildrenCmd `cmd:"" help:"List the children of an entity."`
	Buckets  entityBucketsCmd  `cmd:"" help:"Show how full an entity's buckets are, as bars."`
}

// entityID names an entity.
type entityID struct {
	ID string `arg:"" name:"entity" help:"The entity's id."`
}

// Validate refuses an empty id.
func (e entityID) Validate() error { return requireWord("id of the entity", e.ID) }

// entityJSON is an entity's record as JSON.
type entityJSON struct {
	ID        string          `json:"id"`
	Name      string          `json:"name,omitempty"`
	ParentID  string          `json:"parent_id,omitempty"`
	Cascade   bool            `json:"cascade,omitempty"`
	Detached  bool            `json:"detached,omitempty"`
	Plan      string          `json:"plan,omitempty"`
	ManagedBy string          `json:"managed_by,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
	CreatedAt time.Time       `json:"created_at,omitzero"`
	Version   int64           `json:"version"`
	Only      bool            `json:"-"` // set for changes
	Deleting  bool            `json:"deleting,omitempty"`
}

// entityToJSON converts a record to its form for --json, with its creation time in UTC.
func entityToJSON(e admin.Entity) entityJSON {
	e.CreatedAt = e.CreatedAt.UTC()
	return entityJSON(e)
}

// entityFacts returns the fields of a record as texts by name, for comparison and printing; a missing field is
// "". The text "charges" describes the charged buckets of the parent.
func entityFacts(e admin.Entity) map[string]string {
	all := map[string]string{"name": e.Name, "parent": e.ParentID, "plan": e.Plan, "metadata": string(e.Metadata), "managed by": e.ManagedBy}
	all["charges"] = chargesText(e.ParentID, e.Cascade, e.Detached)
	return all
}

// chargesText describes the buckets of a parent that calls charge: all of its sources with cascade, those made
// for it without, and none with detached. Without a parent it returns "", unless detached also refuses a parent
// that a call gives.
func chargesText(parent string, cascade, detached bool) string {
	switch {
	case parent == "" && detached:
		return "no parent, also none that a call gives"
	case parent == "":
		return ""
	case detached:
		return "not the parent, which is for order alone"
	case cascade:
		return "the parent by all its sources, those of resource and system among them"
	}
	return "the parent by the limits made for it or for its plan"
}

type entityShowCmd struct{ entityID }

// Run prints the record of an entity. It fails if the entity has no record.
func (c entityShowCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return g.readTable(ctx, out, func(repo *dynalimit.Repository) error {
		e, err := admin.New(repo).Entities.Get(ctx, c.ID)
		if err != nil {
			return err
		}
		return out.Show(entityToJSON(e), func() { printEntity(out, e) })
	})
}

// printEntity prints a record for people: its set fields, the buckets of the parent that it charges, its
// creation time in UTC and its version.
func printEntity(out *term.Output, e admin.Entity) {
	fmt.Fprintln(out, out.Bold(term.Plain(e.ID)))
	printFields(out, "name", e.Name, "parent", e.ParentID, "charges", chargesText(e.ParentID, e.Cascade, e.Detached), "plan", e.Plan, "metadata", string(e.Metadata),
		"managed by", e.ManagedBy, "made", momentText(e.CreatedAt.UTC()), "version", strconv.FormatInt(e.Version, 10))
}

// entityFilter selects from listed entities.
type entityFilter struct {
	Plan  string `help:"Only those on this plan." placeholder:"NAME"`
	Limit int    `help:"At most so many. Default: all." placeholder:"N"`
}

// Validate refuses a negative --limit.
func (f entityFilter) Validate() error { return checkRowLimit(f.Limit) }

// checkRowLimit returns an error if n, the value of --limit, is negative, else nil.
func checkRowLimit(n int) error {
	if n < 0 {
		return fmt.Errorf("--limit %d is no number of rows: give 0 or more", n)
	}
	return nil
}

type entityListCmd struct {
	Parent string `help:"Only children of this entity." placeholder:"ID"`
	entityFilter
}

// Run prints the records of all entities, or those of a parent's children or on a plan, at most --limit.
// Without --parent it notes that entities may be missing if the table is not migrated.
func (c entityListCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return g.readTable(ctx, out, func(repo *dynalimit.Repository) error {
		all, none := admin.New(repo).Entities.List(ctx), "No entities have records. Begin with 'dynalimit entity create key-1'."
		if c.Parent != "" {
			all = admin.New(repo).Entities.Children(ctx, c.Parent)
		}
		if c.Parent != "" || c.Plan != "" {
			none = "No entities like that have records."
		}
		if err := c.showEntities(out, all, none); err != nil || c.Parent != "" {
			return err
		}
		g.noteUnlisted(ctx, out)
		return nil
	})
}

type entityChildrenCmd struct {
	entityID
	entityFilter
}

// Validate refuses an empty id and a negative --limit.
func (c entityChildrenCmd) Validate() error {
	return cmp.Or(c.entityID.Validate(), c.entityFilter.Validate())
}

// Run prints the records of an entity's children, only those on --plan if given, at most --limit. Without
// children it says so.
func (c entityChildrenCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return g.readTable(ctx, out, func(repo *dynalimit.Repository) error {
		return c.showEntities(out, admin.New(repo).Entities.Children(ctx, c.ID), c.ID+" is no entity's parent.")
	})
}
