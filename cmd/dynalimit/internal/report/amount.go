package report

import (
	"strconv"
	"strings"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
)

// amount is a number of millitokens in tokens, to the last one: 1,234.5.
func amount(n int64) string { return typeset(notation.Tokens(n)) }

// count is a whole number: 12,345.
func count(n int64) string { return typeset(notation.Number(n)) }

// typeset has a number begin with a minus sign where it begins with a hyphen.
func typeset(number string) string { return strings.Replace(number, "-", "−", 1) }

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
