package dynalimit

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/layout"
	"github.com/dynalimit/dynalimit/internal/legacy"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
)

// Package admin works with the functions that init sets.
func init() {
	shared.Of = func(repository any) shared.Repository { return repository.(*Repository).shared() }
}

// shared returns the parts of the repository that package admin uses. For a repository that NewRepository did
// not make, Usable returns an error.
func (r *Repository) shared() shared.Repository {
	if !r.made() {
		return shared.Repository{Usable: r.checkUsable}
	}
	return shared.Repository{
		Author: r.author, Reason: r.reason, Anonymous: r.anonymous, Compatible: r.readable,
		Table: r.guarded, Keys: r.keys, Clock: r.clock, Log: r.log, Sets: r.sets, IDs: &r.ids, Events: r.events, Usable: r.checkUsable,
		CheckAmounts: func(amounts map[string]int64) error { return checkAmounts(amounts, false) },
		Layout: shared.Layout{
			Refresh: r.layout.Refresh, Note: r.layout.NoteRecord, Check: r.layout.Check, KindError: r.layout.KindError, Malformed: r.layout.MalformedError, Current: r.layout.CompositeOnly,
			Mark: func(old schema.Item, now time.Time) (schema.Item, schema.Statement) {
				return schema.MarkedVersion(old, layout.SchemaVersion, layout.ClientVersion, layout.Writer, now)
			},
			Turner: r.buckets.Takeover.Turner, Turned: r.buckets.Takeover.LogTurned,
			TakeOver: r.buckets.Takeover.ConvertConfig,
			Older: func(ctx context.Context, owners ...schema.ConfigOwner) (legacy.Limits, error) {
				older, _, err := r.buckets.Takeover.ReadLimits(ctx, owners...)
				return older, err
			},
		},
		Told: shared.Told{
			Owners:     r.configs.InvalidateOwners,
			Entities:   r.configs.InvalidateEntities,
			Everything: func() { r.configs.Invalidate("", "") },
			Refilled:   r.listeners.notifyRefilled,
		},
	}
}

// As returns a repository with another principal for changes (package admin): an address, an ARN, the
// name of a service, at most 256 visible characters. It shares everything else with this one. With a
// principal that cannot be recorded, changes fail with a *ValidationError before any write.
func (r *Repository) As(principal string) *Repository {
	if r == nil {
		return nil
	}
	return &Repository{connection: r.connection, author: principal, reason: r.reason}
}

// WithReason returns a repository that stores a reason in the events of its changes: at most 500 visible characters.
// It shares everything else with this one. With a reason that cannot be recorded, changes fail with a
// *ValidationError before any write.
func (r *Repository) WithReason(reason string) *Repository {
	if r == nil {
		return nil
	}
	return &Repository{connection: r.connection, author: r.author, reason: reason}
}
