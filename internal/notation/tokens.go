package notation

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// perToken is the number of millitokens of a token.
const perToken = 1000

// ExactTokens formats millitokens as an exact decimal number of tokens, for programs: 1234567.5.
func ExactTokens(milli int64) string {
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

// GroupedTokens formats millitokens as exact tokens with commas between thousands, for people: 1,234,567.5.
func GroupedTokens(milli int64) string {
	whole, rest, fraction := strings.Cut(ExactTokens(milli), ".")
	if fraction {
		rest = "." + rest
	}
	return groupDigits(whole) + rest
}

// GroupedNumber formats a whole number with commas between thousands, for people: 1,234,567.
func GroupedNumber(n int64) string { return groupDigits(strconv.FormatInt(n, 10)) }

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

// SaturatedSum returns a + b, or the nearest int64 if that overflows.
func SaturatedSum(a, b int64) int64 {
	switch sum := a + b; {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}
