package notation

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dynalimit/dynalimit"
)

const perDollar = 1_000_000

// ParseDollars parses dollars with up to six decimals, such as 12.50 or $0.0165, into micro-dollars. It refuses
// a sign.
func ParseDollars(text string) (int64, error) {
	bad := fmt.Errorf("%q is not an amount of dollars: write it like 12.50, with up to six decimals", text)
	whole, decimals, point := strings.Cut(strings.TrimPrefix(text, "$"), ".")
	if len(decimals) > 6 || point && decimals == "" {
		return 0, bad
	}
	digits := whole + decimals + strings.Repeat("0", 6-len(decimals))
	if whole == "" || strings.ContainsAny(digits, "+-_") {
		return 0, bad
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, bad
	}
	return n, nil
}

// Dollars formats micro-dollars with two to six decimals: $50.00, $0.0165.
func Dollars(micros int64) string {
	return dollarsWith(micros, func(whole int64) string { return strconv.FormatInt(whole, 10) })
}

// GroupedDollars formats micro-dollars with two to six decimals and commas between thousands: $8,252.508.
func GroupedDollars(micros int64) string { return dollarsWith(micros, GroupedNumber) }

// dollarsWith formats micro-dollars with two to six decimals. write formats the whole dollars.
func dollarsWith(micros int64, write func(whole int64) string) string {
	sign, n := "", uint64(micros)
	if micros < 0 {
		sign, n = "-", -n
	}
	decimals := fmt.Sprintf("%06d", n%perDollar)
	for len(decimals) > 2 && strings.HasSuffix(decimals, "0") {
		decimals = decimals[:len(decimals)-1]
	}
	return sign + "$" + write(int64(n/perDollar)) + "." + decimals //nolint:gosec // a millionth of an int64
}

// RoundDollars formats micro-dollars like Dollars, but whole dollars without cents: $50.
func RoundDollars(micros int64) string { return strings.TrimSuffix(Dollars(micros), ".00") }

// AmountInUnit formats an amount of a limit for people: micro-dollars as dollars if the unit is USD, else whole
// tokens.
func AmountInUnit(unit string, n int64) string {
	if unit == dynalimit.USD {
		return Dollars(n)
	}
	return GroupedNumber(n)
}

// UsedInUnit formats a used amount in millitokens for people, as exact tokens with commas. If the unit is USD,
// the amount is in thousandths of a micro-dollar, and the text is grouped dollars, cut to micro-dollars.
func UsedInUnit(unit string, milli int64) string {
	if unit == dynalimit.USD {
		return GroupedDollars(milli / perToken)
	}
	return GroupedTokens(milli)
}

// ExactInUnit formats a used amount in millitokens for programs, as exact tokens. If the unit is USD, the
// amount is in thousandths of a micro-dollar, and the text is dollars without $, with six or nine decimals.
func ExactInUnit(unit string, milli int64) string {
	if unit != dynalimit.USD {
		return ExactTokens(milli)
	}
	sign, n := "", uint64(milli)
	if milli < 0 {
		sign, n = "-", -n
	}
	const millis = perDollar * perToken
	text := fmt.Sprintf("%s%d.%09d", sign, n/millis, n%millis)
	return strings.TrimSuffix(text, "000")
}

// roundInUnit formats an amount as AmountInUnit does, but whole dollars without cents.
func roundInUnit(unit string, n int64) string {
	if unit == dynalimit.USD {
		return RoundDollars(n)
	}
	return GroupedNumber(n)
}

// parseCounted parses a number of tokens or, after $, dollars into micro-dollars. unit is dynalimit.USD for
// dollars, else "".
func parseCounted(text string) (n int64, unit string, err error) {
	if strings.HasPrefix(text, "$") {
		n, err = ParseDollars(text)
		return n, dynalimit.USD, err
	}
	n, err = ParseCount(text)
	return n, "", err
}

// AmountUnits returns the unit of each amount NAME=N by name: dynalimit.USD with a $, else "". It ignores
// malformed numbers.
func AmountUnits(texts []string) map[string]string {
	units := make(map[string]string, len(texts))
	for _, text := range texts {
		name, count, _ := strings.Cut(text, "=")
		_, units[name], _ = parseCounted(count)
	}
	return units
}
