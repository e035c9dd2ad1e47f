package aggregator

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/usage"
)

const opUsage = "read usage"

// mostWindows bounds one query: a year of hours, and a bit.
const mostWindows = 10_000

// lengths are how long windows are at least, about.
var lengths = map[schema.UsageWindow]time.Duration{schema.UsageHourly: time.Hour, schema.UsageDaily: 24 * time.Hour, schema.UsageMonthly: 28 * 24 * time.Hour}

// usageSource is the table of the usage, with the options of its reading.
type usageSource struct {
	table    *table.Table
	keys     schema.Keys
	calendar usage.Calendar
	began    time.Time // zero where that is not known
	now      func() time.Time
}

// checkQuery validates a query of a series and returns it with defaults: hours, up to now, from 24 hours
// before. It widens from and to to whole windows. A *ValidationError names an invalid field, such as From for
// more than 10,000 windows.
func (s *usageSource) checkQuery(of schema.UsageSeries, q Query) (ask, error) {
	if err := checkSeries(of, q.Resource); err != nil {
		return ask{}, err
	}
	of.Resource, of.Window = q.Resource, schema.UsageHourly
	a := ask{UsageSeries: of, window: cmp.Or(q.Window, Hour), now: s.now(), utc: s.calendar.UTC()}
	to := q.To
	if to.IsZero() {
		to = a.now
	}
	from := q.From
	if from.IsZero() {
		from = to.Add(-24 * time.Hour)
	}
	w, known := stored[a.window]
	switch {
	case !known:
		return ask{}, invalid("query.Window", "is %q; give Hour, Day or Month", q.Window)
	case !from.Before(to):
		return ask{}, invalid("query.From", "%s is not before To %s; exchange them", from.Format(time.RFC3339), to.Format(time.RFC3339))
	case from.Year() < firstYear || to.Year() > lastYear:
		return ask{}, invalid("query.From", "%s or To %s is in no year from %d to %d; correct it", from.Format(time.RFC3339), to.Format(time.RFC3339), firstYear, lastYear)
	case to.Sub(from)/lengths[w] > mostWindows:
		return ask{}, invalid("query.From", "%s is more than %d windows of a %s before To; ask for less at once, or for longer windows", from.Format(time.RFC3339), mostWindows, a.window)
	}
	a.from, a.to = s.calendar.Floor(w, from), s.calendar.Floor(w, to)
	if a.to.Before(to) {
		a.to = s.calendar.Next(w, a.to)
	}
	return a, nil
}

// checkKept returns an error for days or months in another zone than UTC if the retention may have removed
// their hours. It sets a.unsure, so that no window is final, if the table stores no retention.
func (s *usageSource) checkKept(ctx context.Context, a *ask) error {
	if !s.sumsHours(a) {
		return nil
	}
	item, err := s.table.Get(ctx, opUsage, schema.UsageKept())
	if err != nil {
		return err
	}
	kept, err := schema.DecodeUsageRetention(item)
	if err != nil {
		return err
	}
	return s.refuseGone(a, kept)
}

// sumsHours reports whether the windows of a query can only be summed from hours.
func (s *usageSource) sumsHours(a *ask) bool { return a.window != Hour && !s.calendar.UTC() }

// refuseGone returns an error if the query needs hours that the retention has removed. It sets a.unsure if no
// retention is stored, so that no window is final.
func (s *usageSource) refuseGone(a *ask, kept schema.UsageRetention) error {
	if !s.sumsHours(a) {
		return nil
	}
	a.unsure = kept.Version == 0
	if oldest := kept.Oldest(a.now); a.from.Before(oldest) {
		return invalid("query.From", "begins the %s of %s, but in the zone %s it is summed from hours, which are kept from %s on; ask for later ones, or read in UTC, where days and months are kept",
			a.window, a.from.Format(time.DateOnly), s.calendar.Zone, oldest.UTC().Format(time.DateOnly))
	}
	return nil
}

// readClosed sets a.closed to the first hour that is not closed; before the first closing, to the hour at which
// that would begin. It moves a.from up to the first window that may have usage.
func (s *usageSource) readClosed(ctx context.Context, a *ask) error {
	item, err := s.table.Get(ctx, opUsage, s.keys.UsageClosed())
	if err != nil {
		return err
	}
	cursor, err := schema.DecodeUsageCursor(item)
	if a.closed = cursor.Closed; a.closed.IsZero() {
		a.closed = usage.FirstCursor(a.now).Closed
	}
	if first := s.calendar.Floor(stored[a.window], s.firstHour(cursor)); first.After(a.from) {
		a.from = first
	}
	return err
}

// firstHour returns the first hour that may have usage: that of the table's creation, or an
// earlier closed one.
func (s *usageSource) firstHour(cursor schema.UsageCursor) time.Time {
	if !cursor.Closed.IsZero() && cursor.First.Before(s.began) {
		return cursor.First
	}
	return s.began
}

// checkSeries returns a *ValidationError for an invalid id of a series, by its kind, or an invalid resource of
// a query. The resource may be empty.
func checkSeries(s schema.UsageSeries, resource string) error {
	field, reason := "id", ""
	switch s.Kind {
	case schema.UsageOfResource:
		field, reason = "resource", schema.ResourceRule.Check(s.ID)
	case schema.UsageOfPlan:
		field, reason = "plan", schema.EntityRule.Check(s.ID)
	case schema.UsageOfChildren:
		field, reason = "parent", schema.EntityRule.Check(s.ID)
	case schema.UsageOfEntity:
		reason = schema.EntityRule.Check(s.ID)
	}
	if reason == "" && resource != "" {
		field, reason = "query.Resource", schema.ResourceRule.Check(resource)
	}
	if reason != "" {
		return invalid(field, "%s", reason)
	}
	return nil
}

// skimResources returns the resources with items below a prefix of a partition, sorted. It makes one request
// for each resource and skips the resource's other items.
func (s *usageSource) skimResources(ctx context.Context, partition, prefix string) list[string] {
	return func(yield func(string, error) bool) {
		for from := prefix; ; {
			found := ""
			q := table.Query{Op: opUsage, Hash: schema.PK, Value: partition, From: from, To: prefix + "~", Page: 1}
			err := forEach(s.table.Items(ctx, q), func(item schema.Item) bool {
				found, _, _ = strings.Cut(strings.TrimPrefix(schema.KeyOf(item).SK, prefix), "#")
				return false
			})
			if err == nil && found == "" || !yield(found, err) || err != nil {
				return
			}
			from = prefix + found + "$" // the byte behind "#"
		}
	}
}

// bucketResources returns the resources of an entity's buckets, sorted.
func (s *usageSource) bucketResources(ctx context.Context, entity string) list[string] {
	q := table.Query{Op: "list the buckets", Hash: schema.PK, Value: s.keys.Entity(entity), Prefix: schema.BucketsOf}
	return convertList(s.table.Items(ctx, q), func(item schema.Item) (string, error) {
		return strings.TrimPrefix(schema.KeyOf(item).SK, schema.BucketsOf), nil
	})
}
