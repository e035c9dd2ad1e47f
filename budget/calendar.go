package budget

import (
	"fmt"
	"sync"
	"time"
)

// switchNotice is how long after a PUT a change of zone, scope or enforcement
// may happen at the earliest, so that every process has seen it by then.
const switchNotice = 10 * time.Minute

// settledWithin is how close a pending change may be before it counts as done:
// other processes may act on their cached copy of it.
const settledWithin = time.Minute

// regime is what changes only between days: the zone, whose quotas count, how
// they are enforced, and the counters hard mode keeps.
type regime struct {
	From        int64 // unix milliseconds; 0 for the first
	Zone        string
	Scope       Scope
	Enforcement Enforcement
	Counters    string // the hard-mode counters beside the label's day, see counterKinds
	// Cap is the day that runs until From, even when the earlier zone's date has
	// moved on. Empty for the first.
	Cap string
}

func (r regime) sameRules(o regime) bool {
	return r.Zone == o.Zone && r.Scope == o.Scope && r.Enforcement == o.Enforcement && r.Counters == o.Counters
}

// calendar is the history of an organisation's regimes, oldest first. Days
// only rise along it: none is entered twice.
type calendar []regime

var zones sync.Map // name → *time.Location; loading one parses the tz database

func loadZone(name string) (*time.Location, error) {
	if z, ok := zones.Load(name); ok {
		return z.(*time.Location), nil
	}
	if name == "" || name == "Local" {
		return nil, fmt.Errorf("%q is not an IANA time zone", name)
	}
	z, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%q is not an IANA time zone", name)
	}
	zones.Store(name, z)
	return z, nil
}

func (r regime) location() *time.Location {
	z, err := loadZone(r.Zone)
	if err != nil {
		return time.UTC // validated before it was stored
	}
	return z
}

// index is the regime in force at t.
func (c calendar) index(t time.Time) int {
	i := len(c) - 1
	for i > 0 && t.UnixMilli() < c[i].From {
		i--
	}
	return i
}

func (c calendar) at(t time.Time) regime { return c[c.index(t)] }

// day is the organisation's day at t.
func (c calendar) day(t time.Time) string {
	i := c.index(t)
	day := dayIn(t, c[i].location())
	if i+1 < len(c) && day > c[i+1].Cap {
		return c[i+1].Cap
	}
	return day
}

// reset is the first instant after t that belongs to another day.
func (c calendar) reset(t time.Time) time.Time {
	i := c.index(t)
	if i+1 < len(c) && c.day(t) >= c[i+1].Cap {
		return time.UnixMilli(c[i+1].From).In(c[i].location())
	}
	return nextDate(t, c[i].location())
}

// of is the regime a day belongs to.
func (c calendar) of(day string) regime { return c[c.indexOf(day)] }

func (c calendar) indexOf(day string) int {
	i := 0
	for i+1 < len(c) && day > c[i+1].Cap {
		i++
	}
	return i
}

// end is the instant the day is over.
func (c calendar) end(day string) time.Time {
	i := c.indexOf(day)
	if i+1 < len(c) && day == c[i+1].Cap {
		return time.UnixMilli(c[i+1].From)
	}
	zone := c[i].location()
	noon, err := time.ParseInLocation(dayLayout+"15", day+"12", zone)
	if err != nil {
		return time.Time{}
	}
	return nextDate(noon, zone)
}

// change returns the calendar after a PUT at now that asks for next. The new
// regime begins at the first instant, at or after the running day's end and at
// least switchNotice after the PUT, when the new zone's date is later than the
// running day; until then the day goes on.
func (c calendar) change(now time.Time, next regime) calendar {
	base := c[:c.index(now)+1]
	at := now
	if i := len(base); i < len(c) && c[i].From <= now.Add(settledWithin).UnixMilli() {
		base = c[:i+1] // too close to take back
		at = time.UnixMilli(c[i].From)
	}
	current := base[len(base)-1]
	if len(base) == len(c) && current.sameRules(next) {
		return c
	}
	running := c.day(at)
	zone := current.location()
	overtime := dayIn(at, zone) > running // a change now dropped had prolonged the day
	if current.sameRules(next) && !overtime {
		return append(calendar(nil), base...)
	}
	from := now.Add(switchNotice)
	if !overtime {
		if end := nextDate(at, zone); end.After(from) {
			from = end
		}
	}
	for dayIn(from, next.location()) <= running {
		from = nextDate(from, next.location())
	}
	next.From, next.Cap = ceilMilli(from), running
	return append(append(calendar(nil), base...), next)
}

// ceilMilli keeps a switch from beginning a fraction before its instant.
func ceilMilli(t time.Time) int64 {
	ms := t.UnixMilli()
	if time.UnixMilli(ms).Before(t) {
		ms++
	}
	return ms
}
