package notation

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// perToken is the number of millitokens of a token.
const perToken = 1000

// Decimal formats millitokens as exact tokens, for programs: 1234567.5.
func Decimal(milli int64) string {
	sign, size := "", uint64(milli)
	if milli < 0 {
		sign, size = "-", -size
	}
	text := sign + strconv.FormatUint(size/perToken, 10)
	if rest := size % perToken; rest > 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%03d", rest), "0")
	}
	return text
}

// Tokens formats millitokens as exact tokens, for people: 1,234,567.5.
func Tokens(milli int64) string {
	whole, rest, fraction := strings.Cut(Decimal(milli), ".")
	if fraction {
		rest = "." + rest
	}
	return groupDigits(whole) + rest
}

// Number formats a whole number for people: 1,234,567.
func Number(n int64) string { return groupDigits(strconv.FormatInt(n, 10)) }

// groupDigits inserts commas between thousands of a whole number.
func groupDigits(number string) string {
	var out strings.Builder
	digits, negative := strings.CutPrefix(number, "-")
	if negative {
		out.WriteByte('-')
	}
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			out.WriteByte(',')
		}
		out.WriteRune(d)
	}
	return out.String()
}

// Sum returns a + b, or the nearest int64 if that overflows.
func Sum(a, b int64) int64 {
	switch sum := a + b; {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}
