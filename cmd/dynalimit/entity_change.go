package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/problem"
)

// entityChange is a change of an entity's record as JSON. Empty fields are omitted.
type entityChange struct {
	Before  *entityJSON `json:"before,omitempty"`
	After   *entityJSON `json:"after,omitempty"`
	Changed bool        `json:"changed"`
	DryRun  bool        `json:"dry_run"`
}

// metadataFlag is a JSON value, or @ and the name of a file with one.
type metadataFlag string

// largestMetadata bounds the bytes read from a file. The library accepts less.
const largestMetadata = 1 << 20

// jsonValue returns the JSON of the flag, or of the file after @. It returns nil if that is empty. Invalid JSON
// and an unreadable file are bad input.
func (f metadataFlag) jsonValue() (json.RawMessage, error) {
	text := string(f)
	if path, isFile := strings.CutPrefix(text, "@"); isFile {
		held, err := readMetadata(path)
		if err != nil {
			return nil, badInput("--metadata %s cannot be read: %w; name a file that holds JSON, or give the JSON itself", text, err)
		}
		text = strings.TrimSpace(string(held))
	}
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), new(any)); err != nil {
		return nil, badInput("--metadata is not JSON: %w; write it like '{\"team\":\"search\"}', or @FILE", err)
	}
	return json.RawMessage(text), nil
}

// readMetadata returns the content of the file at path, unparsed. It returns only the first largestMetadata
// bytes of a larger file, without an error.
func readMetadata(path string) (held []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return io.ReadAll(io.LimitReader(file, largestMetadata))
}

type entityCreateCmd struct {
	entityID
	Name     string       `help:"Free text for people." placeholder:"TEXT"`
	Parent   string       `help:"The entity that this one belongs to; calls charge its buckets too, by the limits made for it or for its plan." placeholder:"ID"`
	Cascade  bool         `help:"Charge the parent by all its sources, those of resource and system among them: they limit all of its children together." xor:"link"`
	Detached bool         `help:"Do not charge the parent: it is for order alone." xor:"link"`
	Plan     string       `help:"The plan that provides limits where the entity has none of its own." placeholder:"NAME"`
	Metadata metadataFlag `help:"Any JSON, or @FILE that holds it." placeholder:"JSON"`
	changes
}

// Run creates the record of an entity and prints it; it fails if a record exists. It notes a plan or parent
// that seems unknown. A dry run checks the record and prints it without writing.
func (c entityCreateCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	metadata, err := c.Metadata.jsonValue()
	if err != nil {
		return err
	}
	e := admin.Entity{ID: c.ID, Name: c.Name, ParentID: c.Parent, Cascade: c.Cascade, Detached: c.Detached, Plan: c.Plan, Metadata: metadata}
	return g.changeTable(ctx, out, func(repo *dynalimit.Repository) error {
		if err := c.storeEntity(ctx, repo, &e); err != nil {
			return err
		}
		noteUnknown(ctx, repo, out, c.Plan, c.Parent, !c.Cascade && !c.Detached)
		after := entityToJSON(e)
		return out.Show(entityChange{nil, &after, true, c.DryRun}, func() {
			printDone(out, e.ID, diffFacts(out, nil, entityFacts(e)), c.DryRun, "Made. In force everywhere within a minute.")
		})
	})
}

// storeEntity creates the record *e and replaces *e with the stored form. A dry run writes nothing: it
// validates *e. Either fails with admin.ErrExists if a record exists.
func (c entityCreateCmd) storeEntity(ctx context.Context, repo *dynalimit.Repository, e *admin.Entity) error {
	if !c.DryRun {
		if err := admin.New(repo).Entities.Create(ctx, *e); err != nil {
			return err
		}
		stored, err := admin.New(repo).Entities.Get(ctx, e.ID)
		if err != nil {
			return fmt.Errorf("the entity is made, but cannot be read: %w", err)
		}
		*e = stored
		return nil
	}
	if err := e.Validate(); err != nil {
		return err
	}
	before, err := recordOf(ctx, repo, e.ID)
	if err == nil && (before.Version != 0 || !before.CreatedAt.IsZero()) {
		err = &problem.Fixable{Err: fmt.Errorf("%w: entity %q has a record; delete it first, or change it", admin.ErrExists, e.ID), Fix: fault.UpdateEntity}
	}
	return err
}

type entityUpdateCmd struct {
	entityID
	Name     *string       `help:"Free text for people; '' removes it." placeholder:"TEXT"`
	Parent   *string       `help:"The entity that this one belongs to; calls charge its buckets too, by the limits made for it or for its plan; '' removes it." placeholder:"ID"`
	Cascade  *bool         `help:"Charge the parent by all its sources, those of resource and system among them, or do not." negatable:""`
	Detached *bool         `help:"Do not charge the parent: it is for order alone. --no-detached charges it." negatable:""`
	Plan     *string       `help:"The plan that provides limits where the entity has none of its own; '' removes it." placeholder:"NAME"`
	Metadata *metadataFlag `help:"Any JSON, or @FILE that holds it; '' removes it." placeholder:"JSON"`
	Only     bool          `help:"Money that another plan or parent takes out of force is meant to go."`
	Version  *int64        `help:"Change the record only if it has this version, as 'show' prints it. Default: the one found." placeholder:"N"`
	changes
}

// Validate refuses an invalid id and a command that changes nothing.
func (c entityUpdateCmd) Validate() error {
	if err := c.entityID.Validate(); err != nil {
		return err
	}
	if c.Name == nil && c.Parent == nil && c.Cascade == nil && c.Detached == nil && c.Plan == nil && c.Metadata == nil {
		return errors.New("nothing is to be changed: give --name, --parent, --cascade, --detached, --plan or --metadata")
	}
	return nil
}

// applyTo returns a copy of the record e with the given fields, with Only from its flag, and with --version if
// given. If --parent removes the parent, it also clears Cascade and Detached. It fails for invalid metadata.
func (c entityUpdateCmd) applyTo(e admin.Entity) (admin.Entity, error) {
	for field, value := range map[*string]*string{&e.Name: c.Name, &e.ParentID: c.Parent, &e.Plan: c.Plan} {
		if value != nil {
			*field = *value
		}
	}
	if e.ParentID == "" && c.Parent != nil { // the settings about the parent go with it
		e.Cascade, e.Detached = false, false
	}
	if c.Cascade != nil {
		e.Cascade = *c.Cascade
	}
	if c.Detached != nil {
		e.Detached = *c.Detached
	}
	if c.Version != nil {
		e.Version = *c.Version
	}
	e.Only = c.Only
	if c.Metadata == nil {
		return e, nil
	}
	var err error
	e.Metadata, err = c.Metadata.jsonValue()
	return e, err
}

// Run changes the given fields of a record and prints the differences. It fails without a record, or with a
// conflict if --version is another. It notes a manager that may undo the change, and an unknown plan or parent;
// a dry run writes nothing.
func (c entityUpdateCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return g.changeTable(ctx, out, func(repo *dynalimit.Repository) error {
		before, err := admin.New(repo).Entities.Get(ctx, c.ID)
		if err != nil {
			return err
		}
		after, err := c.applyTo(before)
		switch {
		case err != nil:
			return err
		case c.DryRun && after.Version != before.Version:
			err = &admin.ConflictError[admin.Entity]{Yours: after, Stored: before}
		case c.DryRun:
			err = after.Validate()
		default:
			after, err = admin.New(repo).Entities.Update(ctx, after)
		}
		if err != nil {
			return err
		}
		if by := before.ManagedBy; by != "" {
			out.Notef("dynalimit: %s is kept by %s, which may undo this", c.ID, term.Plain(by))
		}
		plan, parent := "", "" // set if they change
		if c.Plan != nil {
			plan = *c.Plan
		}
		if c.Parent != nil {
			parent = *c.Parent
		}
		noteUnknown(ctx, repo, out, plan, parent, !after.Cascade && !after.Detached)
		lines := diffFacts(out, entityFacts(before), entityFacts(after))
		old, now := entityToJSON(before), entityToJSON(after)
		return out.Show(entityChange{&old, &now, len(lines) > 0, c.DryRun}, func() { printChange(out, c.ID, lines, c.DryRun) })
	})
}
