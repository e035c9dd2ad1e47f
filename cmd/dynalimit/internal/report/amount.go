package report

import (
	"strconv"
	"strings"

	"github.com/dynalimit/dynalimit/internal/notation"
)

// amountText formats millitokens as exact tokens: 1,234.5.
func amountText(n int64) string { return typesetMinus(notation.Tokens(n)) }

// countText formats a whole number: 12,345.
func countText(n int64) string { return typesetMinus(notation.Number(n)) }

// typesetMinus replaces a leading hyphen by a minus sign.
func typesetMinus(number string) string { return strings.Replace(number, "-", "−", 1) }

// shareText formats a part as per cent of a whole. It returns "" if the share is meaningless, for
// example after returns above the consumption.
func shareText(part, whole int64) string {
	if whole <= 0 || part < 0 || part > whole {
		return ""
	}
	percent := 100 * float64(part) / float64(whole)
	if part > 0 && percent < 0.1 {
		return "< 0.1 %"
	}
	return strconv.FormatFloat(percent, 'f', 1, 64) + " %"
}

// barWidth returns the share of part in whole as the width of a bar in percent, from 0 to 100.
func barWidth(part, whole int64) string {
	if whole <= 0 || part <= 0 {
		return "0"
	}
	return strconv.FormatFloat(min(100, 100*float64(part)/float64(whole)), 'f', 2, 64)
}
