package aggregator

import (
	"cmp"
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	// mostWindows bounds one query: a year of hours, and a bit.
	mostWindows = 10_000
	// Years between these can be written, and sort, as keys have them.
	firstYear, lastYear = 1970, 9998
)

// lengths are how long windows are at least, about.
var lengths = map[schema.UsageWindow]time.Duration{schema.UsageHourly: time.Hour, schema.UsageDaily: 24 * time.Hour, schema.UsageMonthly: 28 * 24 * time.Hour}

// ask is a query that was checked.
type ask struct {
	schema.UsageSeries
	window Window
	// from and to are where the first window begins and the last one ends.
	from, to time.Time
	now      time.Time
	// utc says that days and months are those of UTC, as the table has them.
	utc bool
	// closed is the first hour that is not closed, and live are the hours from then on, by
	// resource: they are summed now.
	closed time.Time
	live   map[string][]piece
}

// stored is the window's name in the table.
var stored = map[Window]schema.UsageWindow{Hour: schema.UsageHourly, Day: schema.UsageDaily, Month: schema.UsageMonthly}

// check checks a query.
func (r *Reader) check(ctx context.Context, s schema.UsageSeries, q Query) (ask, error) {
	if err := called(ctx, r != nil && r.table != nil, "reader", "NewReader"); err != nil {
		return ask{}, err
	}
	if err := checkSeries(s, q.Resource); err != nil {
		return ask{}, err
	}
	s.Resource, s.Window = q.Resource, schema.UsageHourly
	a := ask{UsageSeries: s, window: cmp.Or(q.Window, Hour), now: r.now(), utc: r.calendar.UTC()}
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
	a.from, a.to = r.calendar.Floor(w, from), r.calendar.Floor(w, to)
	if a.to.Before(to) {
		a.to = r.calendar.Next(w, a.to)
	}
	return a, r.checkKept(&a)
}

// checkSeries checks whose usage is asked for.
func checkSeries(s schema.UsageSeries, resource string) error {
	field, reason := "id", ""
	switch s.Kind {
	case schema.UsageOfResource:
		field, reason = "resource", schema.CheckResource(s.ID)
	case schema.UsageOfPlan:
		field, reason = "plan", schema.CheckEntity(s.ID)
	case schema.UsageOfChildren:
		field, reason = "parent", schema.CheckEntity(s.ID)
	case schema.UsageOfEntity:
		reason = schema.CheckEntity(s.ID)
	}
	if reason == "" && resource != "" {
		field, reason = "query.Resource", schema.CheckResource(resource)
	}
	if reason != "" {
		return invalid(field, "%s", reason)
	}
	return nil
}

// checkKept refuses days and months that can only be summed from hours that may be gone.
func (r *Reader) checkKept(a *ask) error {
	if a.window == Hour || r.calendar.UTC() || r.retention == 0 {
		return nil
	}
	if oldest := a.now.Add(-r.retention); a.from.Before(oldest) {
		return invalid("query.From", "begins the %s of %s, but in the zone %s it is summed from hours, which are kept for %d days; ask for later ones, read in UTC, where days and months are kept, or say with options.Retention how long hours are",
			a.window, a.from.Format(time.DateOnly), r.calendar.Zone, r.retention/(24*time.Hour))
	}
	return nil
}

// openHour is the hour that is now.
func (a *ask) openHour() time.Time { return a.now.UTC().Truncate(time.Hour) }

// asksOpen reports whether the hour that is now is in one of the windows.
func (a *ask) asksOpen() bool {
	open := a.openHour()
	return !open.Before(a.from) && open.Before(a.to)
}
