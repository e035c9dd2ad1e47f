package schema

import "time"

const (
	skUsageKept    = "#USAGE_KEPT"
	attrKeepHours  = "keep_hours"
	attrKeepDays   = "keep_days"
	attrKeepMonths = "keep_months"
	attrKeptSince  = "kept_since"
	attrKeptBefore = "kept_before"
	// attrKeptCount counts the changes. It differs from the attribute of limits and entities, which the role
	// that writes usage may not write.
	attrKeptCount = "kept_version"
)

// UsageRetention is the time for which sums of a table's usage are kept after their window. A process that
// writes usage obeys it, even against its own options.
type UsageRetention struct {
	// Hours, Days and Months are whole seconds; 0 means for ever.
	Hours, Days, Months time.Duration
	// Since is the start of Hours, zero for always. Hours before it are kept for Before.
	Since  time.Time
	Before time.Duration
	// Version counts the changes; 0 if no retention is stored.
	Version int64
	// HoursOnly means that Days and Months are not stored yet: no Closer has run.
	HoursOnly bool
}

// Spans returns the retention of sums of hours, days and months. -1 means for ever, and 0 not stored; all are 0
// if no retention is stored.
func (r UsageRetention) Spans() (hours, days, months time.Duration) {
	if r.Version == 0 {
		return 0, 0, 0
	}
	span := func(kept time.Duration) time.Duration {
		if kept == 0 {
			return -1
		}
		return kept
	}
	if hours = span(r.Hours); r.HoursOnly {
		return hours, 0, 0
	}
	return hours, span(r.Days), span(r.Months)
}

// UsageKept returns the key of the table's UsageRetention, which all its namespaces share.
func UsageKept() Key { return Key{"SYSTEM#", skUsageKept} }

// Oldest returns the start of the oldest hour for which sums certainly still exist at now. It is the zero time
// if hours are kept for ever.
func (r UsageRetention) Oldest(now time.Time) time.Time {
	oldest := keptFrom(now, r.Hours)
	before := keptFrom(now, r.Before)
	if r.Since.Before(before) {
		before = r.Since
	}
	if before.After(oldest) {
		return before
	}
	return oldest
}

// keptFrom returns now less a retention. It returns the zero time for a retention of 0, which means for ever.
func keptFrom(now time.Time, kept time.Duration) time.Time {
	if kept == 0 {
		return time.Time{}
	}
	return now.Add(-kept)
}

// WithSpans returns the retention with new durations, the next version and HoursOnly false. If Hours of a
// stored retention changes, Since becomes since, and Before the shortest retention that may still apply to
// earlier hours.
func (r UsageRetention) WithSpans(hours, days, months time.Duration, since time.Time) UsageRetention {
	next := UsageRetention{Hours: hours, Days: days, Months: months, Since: r.Since, Before: r.Before, Version: r.Version + 1}
	if r.Version == 0 || r.Hours == hours {
		return next
	}
	next.Since, next.Before = since, r.Hours
	if r.Oldest(since).After(keptFrom(since, r.Hours)) { // hours of before r.Since are still there
		next.Before = r.Before
	}
	return next
}

// Item returns the item that stores the retention, in whole seconds. It leaves out days and months with
// HoursOnly, and Since and Before with a zero Since.
func (r UsageRetention) Item() Item {
	item := UsageKept().Attributes()
	for _, k := range r.storedDurations() {
		item[k.attr] = Number(int64(*k.to / time.Second))
	}
	item[attrKeptCount] = Number(r.Version)
	if r.HoursOnly {
		delete(item, attrKeepDays)
		delete(item, attrKeepMonths)
	}
	if r.Since.IsZero() {
		delete(item, attrKeptBefore)
		return item
	}
	item[attrKeptSince] = Number(r.Since.Unix())
	return item
}

// keptAs is a duration with its attribute.
type keptAs struct {
	attr string
	to   *time.Duration
}

// storedDurations returns the durations of r with the names of their attributes. The pointers refer to r.
func (r *UsageRetention) storedDurations() []keptAs {
	return []keptAs{{attrKeepHours, &r.Hours}, {attrKeepDays, &r.Days}, {attrKeepMonths, &r.Months}, {attrKeptBefore, &r.Before}}
}

// SetMissing returns the update that sets hours, days, months and version where the item lacks them. With
// HoursOnly it leaves days and months alone.
func (r UsageRetention) SetMissing() Statement {
	b := newStatementBuilder()
	item := r.Item()
	for _, attr := range []string{attrKeepHours, attrKeepDays, attrKeepMonths, attrKeptCount} {
		if value := item[attr]; value != nil {
			name := b.name(attr)
			b.set = append(b.set, name+" = if_not_exists("+name+", "+b.value(value)+")")
		}
	}
	return b.build()
}

// Unchanged returns the condition that the stored retention still has the version of old. old is nil if nothing
// was stored.
func (UsageRetention) Unchanged(old Item) Statement {
	b := newStatementBuilder()
	if old == nil {
		b.requireAbsent(PK)
	} else {
		b.requireCompare(attrKeptCount, "=", old[attrKeptCount])
	}
	return b.build()
}

// DecodeUsageRetention reads a retention. It returns the zero UsageRetention for an absent item, and an error
// for a malformed number.
func DecodeUsageRetention(item Item) (r UsageRetention, err error) {
	if len(item) == 0 {
		return r, nil
	}
	d := &decoder{item: item}
	for _, k := range r.storedDurations() {
		seconds, _ := d.number(k.attr)
		*k.to = time.Duration(seconds) * time.Second
	}
	if since, there := d.number(attrKeptSince); there {
		r.Since = time.Unix(since, 0).UTC()
	}
	r.Version, _ = d.number(attrKeptCount)
	r.HoursOnly = item[attrKeepMonths] == nil
	return r, d.err
}
