// Package calendar knows the windows of a calendar in a time zone: hours, days, weeks and
// months. It says which one an instant is in and when one begins. Every instant is an argument.
package calendar

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // IANA zones must work on hosts without a zone database
)

// NextDate returns the first instant after t with another local date than t's. It walks the zone's own
// transitions, because midnight may not exist (Santiago on 2026-09-06), and days last 23 to 25 hours.
func NextDate(t time.Time, zone *time.Location) time.Time {
	t = t.In(zone)
	day := dateOf(t, zone)
	for {
		_, offset := t.Zone()
		fixed := time.FixedZone("", offset)
		y, m, d := t.In(fixed).Date()
		midnight := time.Date(y, m, d+1, 0, 0, 0, 0, fixed)
		_, end := t.ZoneBounds()
		if end.IsZero() || midnight.Before(end) {
			return midnight.In(zone)
		}
		if t = end.In(zone); dateOf(t, zone) != day {
			return t
		}
	}
}

// dateOf returns the local date of an instant, in days since 1970-01-01.
func dateOf(t time.Time, zone *time.Location) int64 {
	y, m, d := t.In(zone).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / secondsOfDay
}

const secondsOfDay = 24 * 3600

var zones sync.Map // name → *time.Location; loading one parses the tz database

// isZoneName reports whether a name may be an IANA time zone. It is false for names that only a host knows:
// other spellings of a path, the host's own zone, and zones with leap seconds.
func isZoneName(name string) bool {
	return len(name) <= longestZone && !strings.Contains("/"+name+"/", "//") && !strings.Contains("/"+name, "/./") && !slices.Contains([]string{"Local", "localtime", "posixrules"}, name) &&
		!strings.HasPrefix(name, "posix/") && !strings.HasPrefix(name, "right/")
}

// longestZone is more than the longest name has.
const longestZone = 64

// LoadZone returns an IANA time zone by its name, from the tz database or from a cache of the process, which it
// fills. It returns an error for any other name.
func LoadZone(name string) (*time.Location, error) {
	if z, ok := zones.Load(name); ok {
		return z.(*time.Location), nil
	}
	if !isZoneName(name) {
		return nil, fmt.Errorf("%q is not an IANA time zone", name[:min(len(name), longestZone)])
	}
	z, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%q is not an IANA time zone", name)
	}
	zones.Store(name, z)
	return z, nil
}
