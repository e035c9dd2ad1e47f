// Package notation parses and formats limits for the command line and the console. It is pure.
package notation

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/calendar"
)

// Example is a limit in this notation, for messages.
const Example = "rpm=100, tpm=40k/1m,burst=80k, or rpd=1000/daily"

const day = 24 * time.Hour

// periods are the periods with their own words.
var periods = []struct {
	length time.Duration
	word   string
}{{time.Second, "a second"}, {time.Minute, "a minute"}, {time.Hour, "an hour"}, {day, "a day"}}

// windows are the words for the windows of quotas.
var windows = map[string]string{"hourly": "hour", "daily": "day", "weekly": "week", "monthly": "month"}

// ParseLimit parses NAME=CAPACITY[/PERIOD][,burst=N][,refill=N][,max-debt=N][,reserve=N][,shadow]. PERIOD is a
// duration such as 30s, 1m, 2h or 1d, and defaults to 1m. A quota is
// NAME=CAPACITY/daily[,zone=ZONE][,alert-at=50+80+100], or hourly, weekly or monthly; of money it is
// NAME=$DOLLARS/daily[,zone=ZONE][,per-model]. A limit of calls in flight is
// NAME=COUNT/concurrent[,hold=DURATION][,longest=DURATION]. ParseReserve describes a reserve. It does not check
// the values.
func ParseLimit(text string) (dynalimit.Limit, error) {
	return parseReserved(text, limitWithoutReserve)
}

// limitWithoutReserve parses a limit as ParseLimit does, from a text without a reserve.
func limitWithoutReserve(text string) (dynalimit.Limit, error) {
	name, rest, found := strings.Cut(text, "=")
	if !found || name == "" {
		return dynalimit.Limit{}, fmt.Errorf("%q is not a limit: write it like %s", text, Example)
	}
	parts := strings.Split(rest, ",")
	capacity, period, timed := strings.Cut(parts[0], "/")
	l := dynalimit.Limit{Name: name, Window: windows[period]}
	var err error
	if l.Capacity, l.Unit, err = parseCounted(capacity); err != nil {
		return dynalimit.Limit{}, fmt.Errorf("%s: %w", text, err)
	}
	switch {
	case l.IsQuota():
	case period == concurrent:
		l = dynalimit.Concurrent(name, l.Capacity, 0)
	case !timed:
		l.RefillPeriod = time.Minute
	default:
		if l.RefillPeriod, err = ParsePeriod(period); err != nil {
			return dynalimit.Limit{}, fmt.Errorf("%s: %w, hourly, daily, weekly or monthly for a quota of the calendar, or concurrent for calls in flight", text, err)
		}
	}
	for _, part := range parts[1:] {
		if err := parsePart(&l, part); err != nil {
			return dynalimit.Limit{}, fmt.Errorf("%s: %w", text, err)
		}
	}
	switch {
	case l.Unit != "" && !l.IsQuota():
		return dynalimit.Limit{}, fmt.Errorf("%s: money is of quotas alone: write a window, such as %s=%s/daily", text, l.Name, capacity)
	case l.PerModel && l.Unit == "":
		return dynalimit.Limit{}, fmt.Errorf("%s: per-model is of money alone: leave it out, or write dollars, such as %s=$50/daily,per-model", text, l.Name)
	}
	return l, nil
}

// concurrent is the word for a limit of calls in flight.
const concurrent = "concurrent"

// parseHold sets the hold (key "hold") or the longest time of a limit of calls in flight. A longer hold raises
// the longest time.
func parseHold(l *dynalimit.Limit, key, value string) error {
	d, err := ParsePeriod(value)
	if err != nil {
		return err
	}
	if key == "hold" {
		l.Hold, l.Longest = d, max(l.Longest, d)
	} else {
		*l = l.WithLongest(d)
	}
	return nil
}

// parseInFlightPart sets the hold or the longest time of a limit of calls in flight. It fails for a limit of
// another kind, and for any other part.
func parseInFlightPart(l *dynalimit.Limit, part, key, value string) error {
	switch {
	case !l.IsConcurrent():
		return fmt.Errorf("%q is of calls in flight alone: leave it out, or write %s=%d/concurrent,%s", part, l.Name, l.Capacity, part)
	case key == "hold" || key == "longest":
		return parseHold(l, key, value)
	default:
		return fmt.Errorf("%q is not of calls in flight: write it like %s=%d/concurrent,hold=1m,longest=10m", part, l.Name, l.Capacity)
	}
}

// parseZone sets the zone of a quota. It fails for an empty zone, and for a limit that is not a quota; it does
// not check that the zone exists.
func parseZone(l *dynalimit.Limit, part, zone string) error {
	switch {
	case !l.IsQuota():
		return fmt.Errorf("%q is of quotas alone: leave it out, or write a window, such as %s=%d/daily,%s", part, l.Name, l.Capacity, part)
	case zone == "":
		return errors.New("the zone is empty: write it like zone=America/Los_Angeles, or leave it out for UTC")
	}
	l.Zone = zone
	return nil
}

// parsePart sets a field of l from a part of a limit's text after the capacity, such as burst=10, zone=ZONE or
// shadow. It fails for an unknown, malformed or zero part, and for a part of another kind of limit.
func parsePart(l *dynalimit.Limit, part string) error {
	key, value, _ := strings.Cut(part, "=")
	if key == "hold" || key == "longest" || l.IsConcurrent() && part != "shadow" {
		return parseInFlightPart(l, part, key, value)
	}
	switch {
	case key == "zone":
		return parseZone(l, part, value)
	case key == "alert-at":
		return parseAlerts(l, part, value)
	case part == "per-model":
		l.PerModel = true
		return nil
	case part == "shadow":
		l.Shadow = true
		return nil
	}
	field := map[string]*int64{"burst": &l.Burst, "refill": &l.RefillAmount, "max-debt": &l.MaxDebt}[key]
	if field == nil {
		return fmt.Errorf("%q is none of burst=N, refill=N, max-debt=N, reserve=N, zone=ZONE, alert-at=PERCENT, per-model and shadow: write it like %s", part, Example)
	}
	if l.IsQuota() && key != "max-debt" {
		return fmt.Errorf("%q is of buckets alone: a quota is full once in each %s, so leave it out", part, l.Window)
	}
	n, unit, err := parseCounted(value)
	switch {
	case err == nil && n == 0:
		err = fmt.Errorf("%s is 0: it has to be at least 1", key)
	case err == nil && unit != "" && l.Unit == "":
		err = fmt.Errorf("%q is money, and %s is not: write a number, or its capacity in dollars too", part, l.Name)
	}
	*field = n
	return err
}

// ExampleCount is a number in this notation, for messages.
const ExampleCount = "600, 10_000, 10k, 2M or 1e6"

var countText = regexp.MustCompile(`^(-?(?:0|[1-9][0-9]*(?:_[0-9]+)*))(?:(k)|(M)|e([0-9]{1,2}))?$`)

// ParseCount parses a whole number, which may be negative: 600, 10_000, 10k (thousands), 2M (millions), 1e6. It
// refuses a leading 0, which some readers take for octal.
func ParseCount(text string) (int64, error) {
	if m := countText.FindStringSubmatch(text); m != nil {
		zeros, _ := strconv.Atoi("0" + m[4])
		if m[2] != "" {
			zeros = 3
		} else if m[3] != "" {
			zeros = 6
		}
		if n, err := strconv.ParseInt(strings.ReplaceAll(m[1], "_", "")+strings.Repeat("0", zeros), 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%q is not a whole number: write it like %s", text, ExampleCount)
}

// ParsePeriod parses a duration of Go, such as 30s, 1m or 1h30m, or whole days, such as 1d. It does not check
// the sign.
func ParsePeriod(text string) (time.Duration, error) {
	if days, found := strings.CutSuffix(text, "d"); found {
		if n, err := strconv.ParseInt(days, 10, 32); err == nil && n < int64(1<<63-1)/int64(day) {
			return time.Duration(n) * day, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a period: write it like 30s, 1m, 2h or 1d", text)
	}
	return d, nil
}

// DescribeLimit describes a limit in words, without its name: 100 a minute, burst 200; 100 each day in UTC; $50
// each day in UTC.
func DescribeLimit(l dynalimit.Limit) string {
	if l.IsConcurrent() {
		return fmt.Sprintf("%s at once, hold %s, longest %s", GroupedNumber(l.Capacity), PeriodText(l.Hold), PeriodText(l.Longest)) + moreText(l)
	}
	if l.IsQuota() {
		text := fmt.Sprintf("%s each %s in %s", roundInUnit(l.Unit, l.Capacity), l.Window, cmp.Or(l.Zone, "UTC"))
		if l.PerModel {
			text += ", for each model"
		}
		return text + moreText(l)
	}
	text := GroupedNumber(l.Capacity) + " " + PeriodWord(l.RefillPeriod)
	if l.RefillAmount != 0 && l.RefillAmount != l.Capacity {
		text = fmt.Sprintf("%s, refilled by %s %s", GroupedNumber(l.Capacity), GroupedNumber(l.RefillAmount), PeriodWord(l.RefillPeriod))
	}
	if l.Burst != 0 && l.Burst != l.Capacity {
		text += ", burst " + GroupedNumber(l.Burst)
	}
	return text + moreText(l)
}

// moreText describes the parts that a limit may have beside its rate: its maximal debt, reserve, alerts and
// shadow, each after ", ". It is "" without them.
func moreText(l dynalimit.Limit) (text string) {
	if l.MaxDebt != 0 {
		text = ", debt at most " + roundInUnit(l.Unit, l.MaxDebt)
	}
	text += describeReserve(l)
	if l.AlertAt != 0 {
		text += ", alerts at " + PercentsText(l.AlertAt)
	}
	if l.Shadow {
		text += ", in shadow"
	}
	return text
}

// PeriodWord describes a period in words: a minute, every 5m.
func PeriodWord(d time.Duration) string {
	for _, p := range periods {
		if d == p.length {
			return p.word
		}
	}
	return "every " + PeriodText(d)
}

// PeriodText formats a period as ParsePeriod reads it: 1m, 90s, 7d.
func PeriodText(d time.Duration) string {
	if d >= day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// WindowAfter returns the start of a quota's n-th window after the one at now, in now's time zone. It returns
// false for any other limit.
func WindowAfter(l dynalimit.Limit, now time.Time, n int64) (time.Time, bool) {
	of, err := calendar.WindowsOf(l.Window, l.Zone)
	if err != nil {
		return time.Time{}, false
	}
	return time.UnixMilli(of.Start(of.At(now.UnixMilli()) + n)).In(now.Location()), true
}

// WithDefaults returns a copy of limits sorted by name. Where they are not set, the burst and the refill become
// the capacity, and a quota's zone UTC.
func WithDefaults(limits []dynalimit.Limit) []dynalimit.Limit {
	full := slices.Clone(limits)
	for i := range full {
		full[i].Burst = cmp.Or(full[i].Burst, full[i].Capacity)
		full[i].RefillAmount = cmp.Or(full[i].RefillAmount, full[i].Capacity)
		if full[i].IsQuota() {
			full[i].Zone = cmp.Or(full[i].Zone, "UTC")
		}
	}
	slices.SortFunc(full, func(a, b dynalimit.Limit) int { return strings.Compare(a.Name, b.Name) })
	return full
}
