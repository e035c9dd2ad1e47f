package notation

import (
	"fmt"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
)

// AmountExample is an amount in this notation, for messages.
const AmountExample = "rpm=1 or tpm=2000"

// ParseAmounts parses arguments NAME=N, or NAME=$N for money, to amounts by limit: whole tokens, or
// micro-dollars. It refuses repeated names, but does not check the values.
func ParseAmounts(texts []string) (dynalimit.Amounts, error) {
	amounts := make(dynalimit.Amounts, len(texts))
	for _, text := range texts {
		name, count, found := strings.Cut(text, "=")
		if !found || name == "" {
			return nil, fmt.Errorf("%q is not an amount: write it like %s", text, AmountExample)
		}
		n, _, err := parseCounted(count)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		if _, twice := amounts[name]; twice {
			return nil, fmt.Errorf("%s is given twice: give each limit once", name)
		}
		amounts[name] = n
	}
	return amounts, nil
}

// WaitText formats a waiting time, rounded up: 850ms, 12s, 3m12s, 5h30m, 2d4h. It returns "never" for
// dynalimit.Never, "0s" for 0 or less, and "more than 10 years" from there on.
func WaitText(d time.Duration) string {
	switch {
	case d == dynalimit.Never:
		return "never"
	case d <= 0:
		return "0s"
	case d < time.Second:
		return ceilTo(d, time.Millisecond).String()
	case d < time.Hour:
		return PeriodText(ceilTo(d, time.Second))
	}
	d = ceilTo(d, time.Minute)
	if d < day {
		return PeriodText(d)
	}
	if d >= 10*365*day {
		return "more than 10 years"
	}
	d = ceilTo(d, time.Hour)
	text := fmt.Sprintf("%dd", d/day)
	if hours := d % day / time.Hour; hours > 0 {
		text += fmt.Sprintf("%dh", hours)
	}
	return text
}

// ceilTo rounds d up to a multiple of unit, or down where that would overflow.
func ceilTo(d, unit time.Duration) time.Duration {
	if rest := d % unit; rest > 0 {
		if d > time.Duration(1<<63-1)-unit {
			return d - rest
		}
		d += unit - rest
	}
	return d
}

// CountText formats a number with a noun, which gets an s unless the number is 1: 1 bucket, 2 buckets.
func CountText[N int | int64](n N, thing string) string {
	return fmt.Sprintf("%d %s", n, Plural(n, thing, thing+"s"))
}

// Plural returns one for 1, and more for every other number.
func Plural[N int | int64](n N, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}
