package notation

import (
	"math"
	"strconv"
	"strings"
)

// perToken is how many millitokens a token has.
const perToken = 1000

// Decimal is an amount in millitokens as tokens, exact, for programs: 1234567.5.
func Decimal(milli int64) string {
	sign, whole, rest := parts(milli)
	text := sign + strconv.FormatUint(whole, 10)
	if rest == 0 {
		return text
	}
	digits := strconv.FormatUint(perToken+rest, 10)[1:]
	return text + "." + strings.TrimRight(digits, "0")
}

// parts are the sign, the tokens and the millitokens of an amount.
func parts(milli int64) (sign string, whole, rest uint64) {
	size := uint64(milli)
	if milli < 0 {
		sign, size = "-", -size
	}
	return sign, size / perToken, size % perToken
}

// Tokens is an amount in millitokens as tokens, exact, for people: 1,234,567.5.
func Tokens(milli int64) string {
	text := Decimal(milli)
	whole, rest, fraction := strings.Cut(text, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	whole = sign + grouped(whole)
	if fraction {
		return whole + "." + rest
	}
	return whole
}

// Number is a whole number for people: 1,234,567.
func Number(n int64) string {
	if n < 0 {
		return "-" + grouped(strings.TrimPrefix(strconv.FormatInt(n, 10), "-"))
	}
	return grouped(strconv.FormatInt(n, 10))
}

// grouped puts a comma between each three digits.
func grouped(digits string) string {
	var out strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			out.WriteByte(',')
		}
		out.WriteRune(d)
	}
	return out.String()
}

// Sum adds amounts; one that 64 bits do not hold is the largest, or the least, they do.
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
