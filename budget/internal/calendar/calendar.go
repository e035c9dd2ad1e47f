// Package calendar knows an organisation's days: which one an instant belongs to,
// when it ends, which rules are in force on it, and when its sums are complete. It
// takes time as an argument and knows neither money nor the store.
package calendar

import "time"

// SwitchNotice is how long after a PUT a change of zone, scope or enforcement
// may happen at the earliest, so that every process has seen it by then.
const SwitchNotice = 10 * time.Minute

// settledWithin is how close a pending change may be before it counts as done:
// other processes may act on their cached copy of it.
const settledWithin = time.Minute

// Calendar is the history of an organisation's regimes, oldest first. Days
// only rise along it: none is entered twice.
type Calendar []Regime

// index is the regime in force at t.
func (c Calendar) index(t time.Time) int {
	i := len(c) - 1
	for i > 0 && t.UnixMilli() < c[i].From {
		i--
	}
	return i
}

// At is the regime in force at t.
func (c Calendar) At(t time.Time) Regime { return c[c.index(t)] }

// Day is the organisation's day at t.
func (c Calendar) Day(t time.Time) string {
	i := c.index(t)
	day := dayIn(t, c[i].location())
	if i+1 < len(c) && day > c[i+1].Cap {
		return c[i+1].Cap
	}
	return day
}

// Reset is the first instant after t that belongs to another day.
func (c Calendar) Reset(t time.Time) time.Time {
	i := c.index(t)
	if i+1 < len(c) && c.Day(t) >= c[i+1].Cap {
		return time.UnixMilli(c[i+1].From).In(c[i].location())
	}
	return nextDate(t, c[i].location())
}

// Of is the regime a day belongs to.
func (c Calendar) Of(day string) Regime { return c[c.indexOf(day)] }

func (c Calendar) indexOf(day string) int {
	i := 0
	for i+1 < len(c) && day > c[i+1].Cap {
		i++
	}
	return i
}

// End is the instant the day is over.
func (c Calendar) End(day string) time.Time {
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

// Change returns the calendar after a PUT at now that asks for next. The new
// regime begins at the first instant, at or after the running day's end and at
// least SwitchNotice after the PUT, when the new zone's date is later than the
// running day; until then the day goes on.
func (c Calendar) Change(now time.Time, next Regime) Calendar {
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
	running := c.Day(at)
	zone := current.location()
	overtime := dayIn(at, zone) > running // a change now dropped had prolonged the day
	if current.sameRules(next) && !overtime {
		return append(Calendar(nil), base...)
	}
	from := now.Add(SwitchNotice)
	if !overtime {
		if end := nextDate(at, zone); end.After(from) {
			from = end
		}
	}
	for dayIn(from, next.location()) <= running {
		from = nextDate(from, next.location())
	}
	next.From, next.Cap = ceilMilli(from), running
	return append(append(Calendar(nil), base...), next)
}

// ceilMilli keeps a switch from beginning a fraction before its instant.
func ceilMilli(t time.Time) int64 {
	ms := t.UnixMilli()
	if time.UnixMilli(ms).Before(t) {
		ms++
	}
	return ms
}
