// Package notation is how limits are typed and read on the command line. It is pure.
package notation

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
)

// Example is a limit in this notation, for messages.
const Example = "rpm=100, tpm=40k/1m, or tpm=40k/1m,burst=80k"

const day = 24 * time.Hour

// periods have words of their own.
var periods = []struct {
	length time.Duration
	word   string
}{{time.Second, "a second"}, {time.Minute, "a minute"}, {time.Hour, "an hour"}, {day, "a day"}}

// Limit reads NAME=CAPACITY[/PERIOD][,burst=N][,refill=N]; PERIOD is a time such as 30s,
// 1m, 2h or 1d and defaults to 1m. Whether the values make a limit is for the library to
// say.
func Limit(text string) (dynalimit.Limit, error) {
	name, rest, found := strings.Cut(text, "=")
	if !found || name == "" {
		return dynalimit.Limit{}, fmt.Errorf("%q is not a limit: write it like %s", text, Example)
	}
	parts := strings.Split(rest, ",")
	capacity, period, timed := strings.Cut(parts[0], "/")
	l := dynalimit.Limit{Name: name, RefillPeriod: time.Minute}
	var err error
	if l.Capacity, err = Count(capacity); err != nil {
		return dynalimit.Limit{}, fmt.Errorf("%s: %w", text, err)
	}
	if timed {
		if l.RefillPeriod, err = Period(period); err != nil {
			return dynalimit.Limit{}, fmt.Errorf("%s: %w", text, err)
		}
	}
	for _, part := range parts[1:] {
		if err := more(&l, part); err != nil {
			return dynalimit.Limit{}, fmt.Errorf("%s: %w", text, err)
		}
	}
	return l, nil
}

// more reads what follows the capacity.
func more(l *dynalimit.Limit, part string) error {
	key, value, _ := strings.Cut(part, "=")
	field := map[string]*int64{"burst": &l.Burst, "refill": &l.RefillAmount}[key]
	if field == nil {
		return fmt.Errorf("%q is neither burst=N nor refill=N: write it like %s", part, Example)
	}
	n, err := Count(value)
	if err == nil && n == 0 {
		err = fmt.Errorf("%s is 0: it has to be at least 1", key)
	}
	*field = n
	return err
}

// ExampleCount is a number in this notation, for messages.
const ExampleCount = "600, 10_000, 10k, 2M or 1e6"

var countText = regexp.MustCompile(`^(-?(?:0|[1-9][0-9]*(?:_[0-9]+)*))(?:(k)|(M)|e([0-9]{1,2}))?$`)

// Count reads a whole number: 600, 10_000, 10k (thousands), 2M (millions), 1e6. A number
// that starts with 0 would be octal to some readers and is refused.
func Count(text string) (int64, error) {
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

// Period reads a time such as 30s, 1m, 2h or 1d.
func Period(text string) (time.Duration, error) {
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

// Describe is a limit in words: 100 a minute, burst 200.
func Describe(l dynalimit.Limit) string {
	text := Number(l.Capacity) + " " + PeriodWord(l.RefillPeriod)
	if l.RefillAmount != 0 && l.RefillAmount != l.Capacity {
		text = fmt.Sprintf("%s, refilled by %s %s", Number(l.Capacity), Number(l.RefillAmount), PeriodWord(l.RefillPeriod))
	}
	if l.Burst != 0 && l.Burst != l.Capacity {
		text += ", burst " + Number(l.Burst)
	}
	return text
}

// PeriodWord is a period in words: a minute, every 5m.
func PeriodWord(d time.Duration) string {
	for _, p := range periods {
		if d == p.length {
			return p.word
		}
	}
	return "every " + PeriodText(d)
}

// PeriodText is a period as Period reads it: 1m, 90s, 7d.
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

// WithDefaults are limits as they are stored: sorted by name, burst and refill said.
func WithDefaults(limits []dynalimit.Limit) []dynalimit.Limit {
	full := slices.Clone(limits)
	for i := range full {
		full[i].Burst = cmp.Or(full[i].Burst, full[i].Capacity)
		full[i].RefillAmount = cmp.Or(full[i].RefillAmount, full[i].Capacity)
	}
	slices.SortFunc(full, func(a, b dynalimit.Limit) int { return strings.Compare(a.Name, b.Name) })
	return full
}
