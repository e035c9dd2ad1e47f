// Package shared is the common part of package admin and the Repository that it administers:
// the table, and the notifications to the limiters of this process.
package shared

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/legacy"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/trail"
)

// Of returns a *dynalimit.Repository as package admin sees it. Package dynalimit sets it, so that
// its users see no method for admin.
var Of func(repository any) Repository

// Repository is a Repository as package admin sees it.
type Repository struct {
	// Author is the default principal of changes, and Anonymous allows changes without one. Reason is stored in
	// their events.
	Author    string
	Reason    string
	Anonymous bool
	// Compatible refuses the same as zae-limiter.
	Compatible bool

	// Table requires of every change that the namespace is active.
	Table *table.Table
	Keys  schema.Keys
	Clock *ddb.Clock
	Log   *slog.Logger
	Sets  *schema.LimitSets
	// IDs draws the ids of events, and Events says where events lie and how long they are
	// kept.
	IDs    *trail.IDs
	Events trail.Layout
	Layout Layout
	Told   Told
	// Usable refuses a repository that was not made, and a context that has ended.
	Usable func(context.Context) error
	// CheckAmounts refuses amounts that an acquire would refuse under any limits.
	CheckAmounts func(map[string]int64) error
}

// Layout is the knowledge of the table's layout.
type Layout struct {
	// Check refuses a table with an unknown layout. Refresh does so by reading the version record
	// now, and Note by the given one.
	Check, Refresh func(context.Context) error
	Note           func(context.Context, schema.Item) error
	// Mark marks the version record: no item of the older layout is left.
	Mark func(old schema.Item, now time.Time) (schema.Item, schema.Statement)
	// KindError is the error of a limit of an unknown kind, at where; any other stays.
	KindError func(where string, err error) error
	// Malformed is the error of a bucket that cannot be understood.
	Malformed func(error) error
	// Current reports whether no item of the older layout is left.
	Current func() bool
	// Turner turns items of the older layout, TakeOver an owner's limits. Older reads
	// those of owners, and turns nothing. Both ask the table once in a while.
	Turner   *legacy.Turner
	TakeOver func(context.Context, schema.ConfigOwner) error
	Older    func(context.Context, ...schema.ConfigOwner) (legacy.Limits, error)
	// Turned tells the operator of items that were turned.
	Turned func(ctx context.Context, t legacy.Turned, entity, resource string)
}

// Told are the notifications of changes.
type Told struct {
	// Owners drops the cached configurations of owners, Entities the cached
	// entities, and Everything the whole cache.
	Owners     func(...schema.ConfigOwner)
	Entities   func(ids map[string]bool)
	Everything func()
	// Refilled lets limiters use tokens that a bucket was given by hand.
	Refilled func(entity, resource string)
}

// CheckCompatible returns a *fault.ValidationError for limits that zae-limiter would not serve: some names of
// resources, quotas, and bursts below the capacity. The error names the field.
func CheckCompatible(resource, field string, limits []schema.ConfigLimit) error {
	refuse := func(field, reason string) error {
		return &fault.ValidationError{Package: "dynalimit", Field: field, Code: fault.InvalidRequest, Reason: reason}
	}
	if resource != "" && resource != schema.DefaultResource {
		if reason := schema.CompatibleRule.Check(resource); reason != "" {
			return refuse("resource", reason+" (RepositoryOptions.Compatible is set: zae-limiter refuses others)")
		}
	}
	for _, l := range limits {
		l = l.WithDefaults()
		if l.Window != "" {
			return refuse(field, fmt.Sprintf("makes %q a quota of each %s; give a token bucket (RepositoryOptions.Compatible is set: zae-limiter knows no quotas)", l.Name, l.Window))
		}
		if l.Burst < l.Capacity {
			return refuse(field, fmt.Sprintf("has a burst of %d for %q, below its capacity of %d; raise the burst or lower the capacity (RepositoryOptions.Compatible is set: zae-limiter refuses such limits)",
				l.Burst, l.Name, l.Capacity))
		}
	}
	return nil
}
