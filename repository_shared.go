package dynalimit

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/layout"
	"github.com/dynalimit/dynalimit/internal/legacy"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
)

// Package admin works on what init sets.
func init() {
	shared.Of = func(repository any) shared.Repository { return repository.(*Repository).shared() }
}

// shared returns the repository as package admin sees it.
func (r *Repository) shared() shared.Repository {
	if !r.made() {
		return shared.Repository{Usable: r.usable}
	}
	return shared.Repository{
		Author: r.author, Anonymous: r.anonymous, Compatible: r.readable,
		Table: r.guarded, Keys: r.keys, Clock: r.clock, Log: r.log, Sets: r.sets, IDs: &r.ids, Events: r.events, Usable: r.usable,
		CheckAmounts: func(amounts map[string]int64) error { return checkAmounts(amounts, false) },
		Layout: shared.Layout{
			Refresh: r.layout.Refresh, Note: r.layout.Note, Check: r.layout.Check, KindError: r.layout.KindError, Malformed: r.layout.Malformed, Current: r.layout.CompositeOnly,
			Mark: func(old schema.Item, now time.Time) (schema.Item, schema.Statement) {
				return schema.MarkedVersion(old, layout.SchemaVersion, layout.ClientVersion, layout.Writer, now)
			},
			Turner: r.buckets.Takeover.Turner, Turned: r.buckets.Takeover.LogTurned,
			TakeOver: r.buckets.Takeover.Config,
			Older: func(ctx context.Context, owners ...schema.ConfigOwner) (legacy.Limits, error) {
				older, _, err := r.buckets.Takeover.Limits(ctx, owners...)
				return older, err
			},
		},
		Told: shared.Told{
			Owners:     r.evictConfig,
			Entities:   func(ids map[string]bool) { r.configs.evict(func(k configKey) bool { return ids[k.entity] }) },
			Everything: func() { r.configs.evict(func(configKey) bool { return true }) },
			Refilled:   r.listeners.refilled,
		},
	}
}

// evictConfig forgets the configurations that the owners' records are part of. It looks at
// each once, however many the owners. It is called before a change is written, and after,
// because a read that began before the write ended may have seen the old items.
func (r *Repository) evictConfig(owners ...schema.ConfigOwner) {
	levels, plans, ofPlans := map[schema.ConfigOwner]bool{}, map[string]bool{}, map[string]bool{}
	for _, o := range owners {
		if o = o.Normal(); o.Plan == "" {
			levels[o] = true
		} else {
			plans[o.Plan], ofPlans[o.Resource] = true, true
		}
	}
	if len(levels) > 0 {
		r.configs.evict(func(k configKey) bool {
			return levels[schema.ConfigOwner{}] || levels[schema.ConfigOwner{Resource: k.resource}] ||
				levels[schema.ConfigOwner{Entity: k.entity, Resource: k.resource}] ||
				levels[schema.ConfigOwner{Entity: k.entity}.Normal()]
		})
	}
	if len(plans) > 0 {
		r.configs.evictPlans(plans, func(k configKey) bool { return ofPlans[k.resource] || ofPlans[schema.DefaultResource] })
	}
}

// As returns a repository whose changes, see package admin, are made by a principal: an
// address, an ARN, the name of a service, at most 256 characters that can be seen. It
// shares everything else with this one. A principal that cannot be recorded is a
// *ValidationError of the change, before anything is written.
func (r *Repository) As(principal string) *Repository {
	if r == nil {
		return nil
	}
	return &Repository{connection: r.connection, author: principal}
}
