package notation

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
)

// TestDollarsAreExact: what is shown reads as the same.
func TestDollarsAreExact(t *testing.T) {
	for n, want := range map[int64]string{0: "$0.00", 1: "$0.000001", 16_500: "$0.0165", 50_000_000: "$50.00", math.MaxInt64: "$9223372036854.775807"} {
		assert.Equal(t, want, Dollars(n))
		back, err := ParseDollars(want)
		require.NoError(t, err)
		assert.Equal(t, n, back)
	}
	assert.Equal(t, "-$9223372036854.775808", Dollars(math.MinInt64))
	assert.Equal(t, []string{"$50", "$50.10"}, []string{RoundDollars(50_000_000), RoundDollars(50_100_000)})
	assert.Equal(t, map[string]string{"rpm": "", "usd": dynalimit.USD}, AmountUnits([]string{"rpm=1", "usd=$1"}))
}
