package zae

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/calendar"
	"github.com/dynalimit/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// stored is one limit of a configuration item: l_{name}_{field}, or w_{name}_{field} for a
// quota of a session.
type stored struct {
	item   schema.Item
	prefix string
}

// numberField returns the number in a field of a stored limit. ok is false if it is missing. A number that is
// not a 64-bit integer reads as -1, which no limit accepts.
func (s stored) numberField(field string) (n int64, ok bool) {
	v, ok := s.item[s.prefix+field].(*types.AttributeValueMemberN)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(v.Value, 10, 64)
	if err != nil {
		n = -1
	}
	return n, true
}

// textField returns a text field of the stored limit, or "".
func (s stored) textField(field string) string { return schema.Text(s.item, s.prefix+field) }

// storedLimits returns the limits of a configuration item by their names, as references into the item. It fails
// for a name under both prefixes, as zae-limiter does.
func storedLimits(item schema.Item) (map[string]stored, error) {
	limits := map[string]stored{}
	for attr := range item {
		for _, prefix := range []string{"l_", "w_"} {
			rest, is := strings.CutPrefix(attr, prefix)
			name, isCapacity := strings.CutSuffix(rest, "_cp")
			if !is || !isCapacity || name == "" {
				continue
			}
			if _, twice := limits[name]; twice {
				return nil, errTwice
			}
			limits[name] = stored{item, prefix + name + "_"}
		}
	}
	return limits, nil
}

// convertLimit returns the limit for the manifest, without defaults. without is true if the manifest must leave
// it out. lacks is the reason, or describes a part that a manifest cannot express; differs describes one that
// it expresses differently.
func (s stored) convertLimit(name string) (l dynalimit.Limit, without bool, lacks, differs string) {
	capacity, _ := s.numberField("cp")
	refill, hasRefill := s.numberField("ra")
	if !hasRefill {
		refill = capacity
	}
	seconds, _ := s.numberField("rp")
	l = dynalimit.Limit{Name: name, Capacity: capacity, RefillAmount: refill, RefillPeriod: time.Duration(seconds) * time.Second}
	if burst, has := s.numberField("bx"); has { // until 0.9
		l.Burst = burst
	} else if capacity > refill { // from 0.10 on the capacity is the ceiling
		l.Capacity, l.Burst = refill, capacity
	}
	if session, is := s.numberField("rsa"); is {
		return l, true, fmt.Sprintf("%s of each %s from its first use: there are no such windows here; write a quota of the calendar, such as {capacity: %d, window: day}, or a bucket",
			notation.GroupedNumber(capacity), notation.PeriodText(time.Duration(session)*time.Second), capacity), ""
	}
	if compact := s.textField("rsched"); compact != "" {
		window, why := windowOf(compact, schema.Text(s.item, "sched_tz"))
		if why != "" {
			return l, true, why, ""
		}
		l = dynalimit.Limit{Name: name, Capacity: capacity, Window: window.Unit().String(), Zone: window.Zone()}
	}
	if _, at, reason := schema.CheckLimits([]schema.ConfigLimit{schema.ConfigLimit(l)}); reason != "" {
		return l, true, "invalid limits" + at + ": " + reason, ""
	}
	if compact := s.textField("sched"); compact != "" {
		lacks = fmt.Sprintf("other amounts at the hours of %s: the manifest has those of all other hours; apply another manifest at these", cronEntries(compact))
	}
	if soft, _ := s.item[s.prefix+"soft"].(*types.AttributeValueMemberBOOL); soft != nil && soft.Value {
		l.Shadow = true
		differs = "a soft limit becomes one in shadow, which makes no debt"
	}
	return l, false, lacks, differs
}

// windowOf converts a compact cron, such as 1m0h0 for each midnight, to the windows of a quota in zone, UTC by
// default. why is the reason that it cannot, else "".
func windowOf(compact, zone string) (w calendar.Windows, why string) {
	unit := map[string]string{"1m0": "hour", "1m0h0": "day", "1m0h0w1": "week", "1m0h0D1": "month"}[compact]
	if unit == "" {
		return w, fmt.Sprintf("it is reset by the cron %s: windows here begin with the hour, the day, Monday or the month; write one of these", cronEntries(compact))
	}
	if zone == "" {
		zone = "UTC"
	}
	if unit == "hour" && !hasWholeHours(zone) {
		return w, fmt.Sprintf("its hours are those of %s, which do not begin with the hours of UTC; windows here do: write {window: hour} if that is close enough", zone)
	}
	if unit == "hour" {
		zone = "UTC"
	}
	w, err := calendar.WindowsOf(unit, zone)
	if err != nil {
		return w, fmt.Sprintf("its zone is %q: %v", zone, err)
	}
	return w, ""
}

// hasWholeHours reports whether the hours of a zone begin with those of UTC, in January and July. Only then do
// its hourly windows begin as here. It is true for an unknown zone, which is refused later.
func hasWholeHours(zone string) bool {
	location, err := calendar.LoadZone(zone)
	if err != nil {
		return true // the zone is refused by its name
	}
	for _, month := range []time.Month{time.January, time.July} {
		if _, offset := time.Date(2026, month, 1, 0, 0, 0, 0, location).Zone(); offset%3600 != 0 {
			return false
		}
	}
	return true
}

// cronEntries converts a compact schedule to quoted crons joined by "and": 1m0h0-6 is "0 0-6 * * *".
func cronEntries(compact string) string {
	var out []string
	for _, entry := range strings.Split(strings.TrimPrefix(compact, "1"), ";") {
		fields := map[byte]string{}
		for i := 0; i < len(entry); {
			end := i + 1
			for end < len(entry) && strings.IndexByte("0123456789-,/*", entry[end]) >= 0 {
				end++
			}
			fields[entry[i]] = entry[i+1 : end]
			i = end
		}
		var cron []string
		for _, tag := range []byte("mhDMw") {
			if fields[tag] == "" {
				fields[tag] = "*"
			}
			cron = append(cron, fields[tag])
		}
		out = append(out, strconv.Quote(strings.Join(cron, " ")))
	}
	return strings.Join(out, " and ")
}
