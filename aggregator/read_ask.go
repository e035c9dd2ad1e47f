package aggregator

import (
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// ask is a query that was checked.
type ask struct {
	schema.UsageSeries
	window Window
	// from and to are where the first window begins and the last one ends.
	from, to time.Time
	now      time.Time
	// utc says that days and months are those of UTC, as the table has them.
	utc bool
	// unsure says that it is not known whether all hours are there that are summed.
	unsure bool
	// closed is the first hour that is not closed, and live are the hours from then on, by
	// resource: they are summed now.
	closed time.Time
	live   map[string][]piece
}

// stored is the window's name in the table.
var stored = map[Window]schema.UsageWindow{Hour: schema.UsageHourly, Day: schema.UsageDaily, Month: schema.UsageMonthly}

// openHour returns the start of the current hour, which no Closer closes yet.
func (a *ask) openHour() time.Time { return a.now.UTC().Truncate(time.Hour) }

// includesOpenHour reports whether the query includes the current hour.
func (a *ask) includesOpenHour() bool {
	open := a.openHour()
	return !open.Before(a.from) && open.Before(a.to)
}

// storedWindows returns the windows with stored sums that add up to the query's: a day for days, and a day and
// a month for months. It is nil for hours, and in a zone other than UTC.
func (a *ask) storedWindows() []schema.UsageWindow {
	switch {
	case !a.utc:
		return nil
	case a.window == Day:
		return []schema.UsageWindow{schema.UsageDaily}
	case a.window == Month:
		return []schema.UsageWindow{schema.UsageDaily, schema.UsageMonthly}
	}
	return nil
}

// liveBetween returns the live hours of the query's resource that begin at or after from and before to.
func (a *ask) liveBetween(from, to time.Time) list[piece] {
	within := slices.Clone(a.live[a.Resource])
	return listOf(slices.DeleteFunc(within, func(p piece) bool { return p.start.Before(from) || !p.start.Before(to) })...)
}

// earlierOf returns the earlier of two instants.
func earlierOf(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
