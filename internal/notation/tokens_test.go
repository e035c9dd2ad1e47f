package notation

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTokens(t *testing.T) {
	for milli, want := range map[int64]string{
		0: "0", 1: "0.001", -1: "-0.001", 10: "0.01", 500: "0.5", 1000: "1", 1500: "1.5", 999_999: "999.999", 1_000_000: "1,000",
		-1_234_567_890: "-1,234,567.89", 100_000_000: "100,000", math.MaxInt64: "9,223,372,036,854,775.807", math.MinInt64: "-9,223,372,036,854,775.808",
	} {
		assert.Equal(t, want, GroupedTokens(milli), "%d", milli)
	}
	for n, want := range map[int64]string{0: "0", 999: "999", -999: "-999", 1000: "1,000", -123_456: "-123,456", math.MinInt64: "-9,223,372,036,854,775,808"} {
		assert.Equal(t, want, GroupedNumber(n))
	}
}

// TestDecimalsAreExact: each is the amount, whatever its size.
func TestDecimalsAreExact(t *testing.T) {
	for _, milli := range []int64{0, 1, -1, 10, -100, 1001, 1_234_567, math.MaxInt64, math.MinInt64} {
		r, ok := new(big.Rat).SetString(ExactTokens(milli))
		require.True(t, ok)
		assert.Equal(t, big.NewRat(milli, 1000), r)
	}
}

func TestSumDoesNotTurn(t *testing.T) {
	assert.Equal(t, int64(3), SaturatedSum(1, 2))
	assert.Equal(t, int64(math.MaxInt64), SaturatedSum(math.MaxInt64, 1))
	assert.Equal(t, int64(math.MinInt64), SaturatedSum(math.MinInt64, -1))
	assert.Equal(t, int64(-1), SaturatedSum(math.MaxInt64, math.MinInt64))
}
