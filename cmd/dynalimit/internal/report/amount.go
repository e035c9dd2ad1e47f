package report

import (
	"fmt"
	"strconv"
	"strings"
)

// milli is how many millitokens a token has.
const milli = 1000

// amount is a number of millitokens in tokens, to the last one: 1,234.5.
func amount(n int64) string {
	sign, rest := "", uint64(n)
	if n < 0 {
		sign, rest = "−", -rest
	}
	text := sign + grouped(rest/milli)
	if thousandths := rest % milli; thousandths > 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%03d", thousandths), "0")
	}
	return text
}

// count is a whole number: 12,345.
func count(n int64) string {
	if n < 0 {
		return "−" + grouped(-uint64(n))
	}
	return grouped(uint64(n))
}

// grouped is a number with a comma before every three digits.
func grouped(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// share is a part of a whole in per cent; empty where a share says nothing, as where some
// gave back more than they took.
func share(part, whole int64) string {
	if whole <= 0 || part < 0 || part > whole {
		return ""
	}
	percent := 100 * float64(part) / float64(whole)
	if part > 0 && percent < 0.1 {
		return "< 0.1 %"
	}
	return strconv.FormatFloat(percent, 'f', 1, 64) + " %"
}

// width is a part of a whole as a bar shows it, from 0 to 100.
func width(part, whole int64) string {
	if whole <= 0 || part <= 0 {
		return "0"
	}
	return strconv.FormatFloat(min(100, 100*float64(part)/float64(whole)), 'f', 2, 64)
}
