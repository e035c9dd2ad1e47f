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
	// closeEvery is the interval in which Run looks for due hours.
	closeEvery = 5 * time.Minute
	// closeHold is how long others wait for a closer that died.
	closeHold = time.Minute
	// closeLease is the name of the closer's lease.
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
	// Grace is the time from the end of an hour to its closing: the time by which the stream and the index
	// of snapshots may lag without a sum that is corrected only when the
	// hour is final. Defaults to 15 minutes, at most 25 hours.
	Grace time.Duration
	// Retention is how long sums are kept, where the table has nothing stored yet. Defaults to
	// the stored retention, and then to the defaults of its fields.
	Retention Retention
	// RetentionDiffers is called once if the table's retention differs from Retention.
	// Defaults to nil.
	RetentionDiffers func(stored Retention)
	// Namespaces are the namespaces to close; "" is the layout without one. Defaults to all
	// registered ones, and the layout without one.
	Namespaces []string
	// Writers bounds how many items are written at once. Defaults to 16.
	Writers int
	// Closed receives each hour that was closed or recomputed, one at a time. Defaults to
	// nil.
	Closed func(ClosedHour)
	// Failed receives the failures of Run, which goes on. Defaults to nil.
	Failed func(error)
	// Now returns the time; the time of DynamoDB's answers wins over it. Defaults to
	// time.Now.
	Now func() time.Time
}

const leastRetentionDays = 40 * 24 * time.Hour

// check returns a *ValidationError for a bad namespace, clock or retention.
func (o *CloserOptions) check() error {
	for i, name := range o.Namespaces {
		if reason := schema.EntityRule.Check(name); name != "" && reason != "" {
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

// setDefaults sets the unset options to their defaults, except Retention. It sorts a copy of the namespaces and
// removes repetitions.
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

// expiryOf returns the time to live of a sum, in Unix seconds: the end of its window plus the retention of such
// windows. It is 0 if the sum is kept for ever.
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
