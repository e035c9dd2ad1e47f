package admin

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/trail"
)

// The actions of a migration to today's layout, as events name them.
const (
	MigrationStarted  = "migration_started"
	MigrationFinished = "migration_finished"
)

// RecordMigration records that a migration starts, or ended, with what it found.
func (k *Desk) RecordMigration(ctx context.Context, by, op, action string, found trail.Fields) error {
	return k.Table.Change(ctx, op, func() (table.Proposal, error) {
		return k.propose(Deed{By: by, Action: action, Target: trail.System, After: found})
	})
}

// MarkMigrated writes into the version record that no item of an older layout is left,
// with the event that the migration ended. mark makes the record from the one that is
// there, nil for none, with the condition that it still is. It returns the record.
func (k *Desk) MarkMigrated(ctx context.Context, by, op string, found trail.Fields, mark func(old schema.Item, now time.Time) (schema.Item, schema.Statement)) (marked schema.Item, err error) {
	err = k.Table.Change(ctx, op, func() (table.Proposal, error) {
		old, err := k.Table.Get(ctx, op, schema.VersionKey())
		if err != nil {
			return table.Proposal{}, err
		}
		item, unchanged := mark(old, k.Now())
		marked = item
		was, _ := schema.DecodeVersion(old)
		is, _ := schema.DecodeVersion(item)
		before := trail.Fields{"composite_only": was.CompositeOnly}
		if was.Schema != "" {
			before["schema_version"] = was.Schema
		}
		after := trail.Fields{"composite_only": is.CompositeOnly, "schema_version": is.Schema}
		for name, value := range found {
			after[name] = value
		}
		d := Deed{By: by, Action: MigrationFinished, Target: trail.System, Before: before, After: after}
		return k.propose(d, k.Table.Put(item, unchanged))
	})
	return marked, err
}
