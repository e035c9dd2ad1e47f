package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/trail"
)

// Usage administers the usage of a table, which its namespaces share. It is called on a repository
// without a namespace.
type Usage struct{ d *desk }

// UsageRetention says how long sums of usage are kept after their window, in whole seconds, at
// most 100 years; below 0 for ever. A field is 0 while it is not stored.
type UsageRetention struct {
	// Hours is for sums of an hour, Days for those of a day (at least 40 days, because months are
	// summed from days), Months for those of a month.
	Hours, Days, Months time.Duration
	// Version counts the changes; AnyVersion, in a change, stands for all of them.
	Version int64
}

const (
	opRetention        = "change the retention of usage"
	longestRetention   = 100 * 365 * 24 * time.Hour
	leastRetentionDays = 40 * 24 * time.Hour
	// retentionNotice is how long processes may go by the retention of before.
	retentionNotice = 15 * time.Minute
)

// Retention returns the stored retention. It is zero while no process has written usage.
func (u Usage) Retention(ctx context.Context) (UsageRetention, error) {
	if err := u.checkWholeTable(ctx); err != nil {
		return UsageRetention{}, err
	}
	_, stored, err := u.readStored(ctx)
	return publicRetention(stored), err
}

// SetRetention stores a retention if the stored one has its Version. All processes that write
// usage obey it, from the hour after next on at the latest. Earlier hours keep the
// expiry of their time. It returns r with its new Version. It writes nothing if r is stored
// already. It fails with an error that matches ErrConflict if another writer changed it meanwhile, and with a
// *ValidationError for bad input.
func (u Usage) SetRetention(ctx context.Context, r UsageRetention) (UsageRetention, error) {
	if err := r.validate(); err != nil {
		return UsageRetention{}, err
	}
	if err := u.checkWholeTable(ctx); err != nil {
		return UsageRetention{}, err
	}
	if err := u.d.checkChange(ctx); err != nil {
		return UsageRetention{}, err
	}
	var next schema.UsageRetention
	err := u.d.Table.Change(ctx, opRetention, func() (table.Proposal, error) {
		item, stored, err := u.readStored(ctx)
		if err != nil {
			return table.Proposal{}, err
		}
		if r.Version != AnyVersion && r.Version != stored.Version {
			return table.Proposal{}, fmt.Errorf("dynalimit: the retention of usage is at version %d, not %d: somebody changed it; read it again and repeat your change on it: %w", stored.Version, r.Version, ErrConflict)
		}
		since := schema.UsageHourly.Next(u.d.Clock.Now().Add(retentionNotice))
		next = stored.WithSpans(max(0, r.Hours), max(0, r.Days), max(0, r.Months), since)
		if next.Hours == stored.Hours && next.Days == stored.Days && next.Months == stored.Months && stored.Version > 0 && !stored.HoursOnly {
			next = stored
			return table.Proposal{}, nil
		}
		what := deed{action: "usage_retention_set", target: audit.System, after: fieldsOf(next), was: item, is: next.Item()}
		if stored.Version > 0 {
			what.before = fieldsOf(stored)
		}
		return u.d.propose(what, u.d.Table.PutPart(what.is, stored.Unchanged(item)))
	})
	if err != nil {
		return UsageRetention{}, err
	}
	return publicRetention(next), nil
}

// checkWholeTable returns an error for an unusable repository, or one bound to a namespace, because all
// namespaces share the retention.
func (u Usage) checkWholeTable(ctx context.Context) error {
	if err := u.d.Usable(ctx); err != nil {
		return err
	}
	if name := u.d.Keys.Name(); name != "" {
		return invalid("repository", "is bound to the namespace %q, and the retention of usage is the table's; use one without RepositoryOptions.Namespace", name)
	}
	return nil
}

// readStored reads the retention from the table, and returns its item too. They are nil and zero if it is not
// stored.
func (u Usage) readStored(ctx context.Context) (schema.Item, schema.UsageRetention, error) {
	item, err := u.d.Table.Get(ctx, "read the retention of usage", schema.UsageKept())
	if err != nil {
		return nil, schema.UsageRetention{}, err
	}
	stored, err := schema.DecodeUsageRetention(item)
	return item, stored, err
}

// validate returns an error for a span outside its bounds, or not in whole seconds. A negative
// span, which is for ever, is valid.
func (r UsageRetention) validate() error {
	for _, f := range []struct {
		field       string
		kept, least time.Duration
	}{{"Hours", r.Hours, time.Hour}, {"Days", r.Days, leastRetentionDays}, {"Months", r.Months, time.Hour}} {
		if f.kept >= 0 && (f.kept < f.least || f.kept > longestRetention || f.kept%time.Second != 0) {
			return invalid("retention."+f.field, "is %v; give whole seconds from %v to %v, or a negative one for ever", f.kept, f.least, longestRetention)
		}
	}
	return nil
}

// publicRetention returns the table's stored retention of hours, days and months as a Retention for callers.
// Each is -1 if kept for ever, and 0 if not stored yet.
func publicRetention(r schema.UsageRetention) (to UsageRetention) {
	to.Hours, to.Days, to.Months = r.Spans()
	to.Version = r.Version
	return to
}

// fieldsOf returns the durations of a retention as fields of an audit event, in seconds; 0 means for ever.
func fieldsOf(r schema.UsageRetention) trail.Fields {
	return trail.Fields{"hours_seconds": int64(r.Hours / time.Second), "days_seconds": int64(r.Days / time.Second), "months_seconds": int64(r.Months / time.Second)}
}
