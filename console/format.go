package console

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// formatDollars formats micro-dollars: $1,234.56, without cents from $10,000 on, and with four decimals below a
// cent.
func formatDollars(micros int64) string {
	sign := ""
	n := uint64(micros)
	if micros < 0 {
		sign, n = "−", -n
	}
	switch {
	case n == 0:
		return "$0.00"
	case n < 10_000:
		return fmt.Sprintf("%s$%.4f", sign, float64(n)/1e6)
	case n >= 10_000_000_000:
		return sign + "$" + notation.GroupedNumber(int64((n+500_000)/1_000_000))
	}
	cents := (n + 5_000) / 10_000
	return fmt.Sprintf("%s$%s.%02d", sign, notation.GroupedNumber(int64(cents/100)), cents%100)
}

// exactAmount formats thousandths of tokens, or of micro-dollars if money, for CSV: in tokens or dollars, with
// every decimal and no separators.
func exactAmount(money bool, millis int64) string {
	unit, decimals := uint64(milli), 3
	if money {
		unit, decimals = 1_000_000_000, 9
	}
	sign, n := "", uint64(millis)
	if millis < 0 {
		sign, n = "-", -n
	}
	return fmt.Sprintf("%s%d.%0*d", sign, n/unit, decimals, n%unit)
}

// formatCount formats a count for people: 9,999, 12k, 1.5M, 20M. It rounds from 10,000 on.
func formatCount(n int64) string {
	sign, m := "", uint64(n)
	if n < 0 {
		sign, m = "−", -m
	}
	scaled := func(unit float64, letter string) string {
		x := float64(m) / unit
		if x < 10 {
			return sign + strings.TrimSuffix(strconv.FormatFloat(x, 'f', 1, 64), ".0") + letter
		}
		return sign + strconv.FormatFloat(x, 'f', 0, 64) + letter
	}
	switch {
	case m >= 1_000_000_000:
		return scaled(1e9, "G")
	case m >= 1_000_000:
		return scaled(1e6, "M")
	case m >= 10_000:
		return scaled(1e3, "k")
	}
	return sign + notation.GroupedNumber(int64(m))
}

// formatAmount formats n for people: micro-dollars as dollars if money, else a number of whole tokens.
func formatAmount(money bool, n int64) string {
	if money {
		return formatDollars(n)
	}
	return formatCount(n)
}

// periodText returns the period of a limit as words: "a minute", "a day, UTC", or "at once" for calls in
// flight.
func periodText(l dynalimit.Limit) string {
	if l.IsConcurrent() {
		return "at once"
	}
	if l.IsQuota() {
		zone := l.Zone
		if zone == "" {
			zone = "UTC"
		}
		article := "a "
		if l.Window == "hour" {
			article = "an "
		}
		return article + l.Window + ", " + zone
	}
	return notation.PeriodWord(l.RefillPeriod)
}

// formatSpan formats a length of time for people, rounded: 45 s, 12 min, 5 h 43 min, 3 days. Less than a second
// is "1 s".
func formatSpan(d time.Duration) string {
	switch {
	case d < time.Second:
		return "1 s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", int64(d.Round(time.Second)/time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int64(d.Round(time.Minute)/time.Minute))
	case d < 48*time.Hour:
		m := int64(d.Round(time.Minute) / time.Minute)
		if m%60 == 0 {
			return fmt.Sprintf("%d h", m/60)
		}
		return fmt.Sprintf("%d h %d min", m/60, m%60)
	}
	return fmt.Sprintf("%d days", int64(d.Round(24*time.Hour)/(24*time.Hour)))
}

// describeLimits returns the limits of a source as one text, separated by semicolons. It is "unlimited" for an
// unlimited source, and "" without limits.
func describeLimits(limits []dynalimit.Limit, unlimited bool) string {
	if unlimited {
		return "unlimited"
	}
	texts := make([]string, len(limits))
	for i, l := range limits {
		texts[i] = l.Name + " " + notation.DescribeLimit(l)
	}
	return strings.Join(texts, "; ")
}
