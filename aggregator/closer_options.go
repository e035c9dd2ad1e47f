package aggregator

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/usage"
)

const (
	defaultGrace         = 15 * time.Minute
	defaultRetentionDays = 400 * 24 * time.Hour
	// mostGrace leaves an hour open no longer than until it is final.
	mostGrace = usage.FinalAfter
	// closeEvery is how often Run looks what is due.
	closeEvery = 5 * time.Minute
	// closeHold is how long others wait for a closer that died.
	closeHold = time.Minute
	// closeLease is the name of the lease of whoever closes.
	closeLease = "usage-closer"
)

// Retention is how long sums are kept after their window, by the window: at most 100 years
// each, in whole seconds. A negative one is for ever. The table stores it, and all processes obey
// that: the first one that writes usage stores its own, and admin.Usage changes it.
type Retention struct {
	// Hours is for sums of an hour. Defaults to 90 days, as snapshots are kept.
	Hours time.Duration
	// Days is for sums of a day. Defaults to 400 days, at least 40: months are summed from
	// days.
	Days time.Duration
	// Months is for sums of a month. Defaults to for ever.
	Months time.Duration
}

// CloserOptions configures a Closer. The zero value gives the defaults that the fields name.
type CloserOptions struct {
	// Grace is how long after its end an hour is closed: how long the stream and the index
	// that lists snapshots may lag behind without a sum that is corrected only when the
	// hour is final. Defaults to 15 minutes, at most 25 hours.
	Grace time.Duration
	// Retention is how long sums are kept, where the table has nothing stored yet. Defaults to
	// the stored retention, and then to the defaults of its fields.
	Retention Retention
	// RetentionDiffers hears, once, of the table's retention where that is not Retention.
	// Defaults to nobody.
	RetentionDiffers func(stored Retention)
	// Namespaces are those whose hours are closed; "" is what has none. Defaults to all
	// that are registered, and what has none.
	Namespaces []string
	// Writers bounds how many items are written at once. Defaults to 16.
	Writers int
	// Closed is told of each hour that was closed or made anew, one at a time. Defaults to
	// nobody.
	Closed func(ClosedHour)
	// Failed is told why Run could not close what was due; it goes on. Defaults to nobody.
	Failed func(error)
	// Now says what time it is; where DynamoDB's answers say another, theirs counts. Defaults to
	// time.Now.
	Now func() time.Time
}

const leastRetentionDays = 40 * 24 * time.Hour

// check says what is wrong with a time or a name.
func (o *CloserOptions) check() error {
	for i, name := range o.Namespaces {
		if reason := schema.CheckNamespace(name); name != "" && reason != "" {
			return invalid(fmt.Sprintf("options.Namespaces[%d]", i), "%s", reason)
		}
	}
	if reason := ddb.CheckSource(o.Now); reason != "" {
		return invalid("options.Now", "%s", reason)
	}
	return cmp.Or(
		checkRetention("options.Retention.Hours", o.Retention.Hours),
		checkRetention("options.Retention.Days", o.Retention.Days),
		checkRetention("options.Retention.Months", o.Retention.Months),
	)
}

func (o *CloserOptions) setDefaults() {
	o.Namespaces = slices.Clone(o.Namespaces)
	slices.Sort(o.Namespaces)
	o.Namespaces = slices.Compact(o.Namespaces)
	if o.Grace == 0 {
		o.Grace = defaultGrace
	}
	if o.Writers == 0 {
		o.Writers = defaultWriters
	}
	if o.Closed == nil {
		o.Closed = func(ClosedHour) {}
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// expiryOf returns the time to live of a sum; 0 if it is kept for ever.
func expiryOf(r schema.UsageRetention, w schema.UsageWindow, start time.Time) int64 {
	kept := r.Months
	switch w {
	case schema.UsageHourly:
		kept = r.Hours
	case schema.UsageDaily:
		kept = r.Days
	case schema.UsageMonthly:
	}
	if kept == 0 {
		return 0
	}
	return w.Next(start).Add(kept).Unix()
}
