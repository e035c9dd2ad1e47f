package usage

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	// maxCounter bounds a counter that is read, on both sides: then the difference of two is
	// exact. A limiter gives out at most 2^50 millitokens at once.
	maxCounter = 1 << 61
	// maxMoved bounds the movement of the counters of a fold of several changes, so that 64 bits
	// hold its missing amount together with the one before it.
	maxMoved = 1<<62 - 1
)

// checkCounters returns an error for a counter beyond 2^61 millitokens either way, because the difference of
// two may then exceed 64 bits. It names one such limit.
func checkCounters(counters map[string]int64) error {
	for name, n := range counters {
		if n > maxCounter || n < -maxCounter {
			return fmt.Errorf("the counter of limit %q is %d: more than 2^61 millitokens cannot be summed", name, n)
		}
	}
	return nil
}

// saturatedSum returns a + b, or the nearest 64-bit number. If a or b is the largest or smallest number
// already, it returns that, because the true value is unknown.
func saturatedSum(a, b int64) int64 {
	sum := a + b
	switch {
	case atEnd(a):
		return a
	case atEnd(b):
		return b
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	}
	return sum
}

// saturatedNegation returns -n. It maps the smallest and the largest int64, which stand for unknown values, to
// each other.
func saturatedNegation(n int64) int64 {
	switch n {
	case math.MaxInt64:
		return math.MinInt64
	case math.MinInt64:
		return math.MaxInt64
	}
	return -n
}

// atEnd reports whether a number is the most, or the least, that 64 bits hold.
func atEnd(n int64) bool { return n == math.MaxInt64 || n == math.MinInt64 }

// magnitude returns the absolute value of n, at most the largest 64-bit number.
func magnitude(n int64) int64 {
	switch {
	case n == math.MinInt64:
		return math.MaxInt64
	case n < 0:
		return -n
	}
	return n
}

// CheckSum returns an error that names the first limit with the largest or smallest int64 as its sum, because
// the true sum is unknown. It returns nil otherwise.
func CheckSum(s *schema.UsageSum) error {
	for _, counts := range sumMaps(s) {
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			if n := counts[name]; atEnd(n) {
				return fmt.Errorf("the sum of limit %q of %s %q on %q since %s is beyond 64 bits: it is written as %d",
					name, s.Kind, s.ID, s.Resource, s.Start.UTC().Format("2006-01-02T15:04Z"), n)
			}
		}
	}
	return nil
}
