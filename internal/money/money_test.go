package money

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMicrosRoundHalfUp(t *testing.T) {
	for _, tc := range []struct {
		picos string
		want  int64
	}{
		{"0", 0},
		{"499999", 0},
		{"500000", 1},
		{"1960000", 2},
		{"16500000000", 16_500},
		{"-499999", 0},
		{"-500000", 0},
		{"-500001", -1},
		{"-1000000", -1},
		{"9223372036854775807000000", math.MaxInt64},
		{"9223372036854775807600000", math.MaxInt64},
		{"-9223372036854775808900000", math.MinInt64},
	} {
		p, err := ParsePicos(tc.picos)
		require.NoError(t, err)
		assert.Equal(t, tc.want, p.Micros(), tc.picos)
		assert.Equal(t, tc.picos, p.String())
	}
	_, err := ParsePicos("1e9")
	require.Error(t, err)
	_, err = ParsePicos("170141183460469231731687303715884105728")
	require.Error(t, err)
}

func TestPercentIsRoundedHalfUp(t *testing.T) {
	for _, tc := range []struct {
		micros, quota int64
		want          float64
	}{
		{10_000_000, 20_000_000, 50},
		{9_499_999, 10_000_000, 95},
		{9_494_999, 10_000_000, 94.9},
		{10_006_500, 10_000_000, 100.1},
		{5, 0, 0},
		{-1_000_000, 10_000_000, -10},
		{1_000_000_000_000, 1_000_000_000_000, 100},
	} {
		assert.InDelta(t, tc.want, FromMicros(tc.micros).PercentOf(tc.quota), 1e-9, "%d of %d", tc.micros, tc.quota)
	}
}

// A percentage that is far beyond all quotas is neither negative nor small.
func TestLargePercentagesAreLarge(t *testing.T) {
	for _, micros := range []int64{math.MaxInt64 / 1001, math.MaxInt64 / 1000, math.MaxInt64 / 999, math.MaxInt64 / 10, math.MaxInt64} {
		for _, sign := range []int64{1, -1} {
			got, want := FromMicros(sign*micros).PercentOf(1), 100*float64(sign)*float64(micros)
			assert.InEpsilon(t, want, got, 1e-12, "%d", micros)
		}
	}
}

// FuzzPicos checks every operation against math/big.
func FuzzPicos(f *testing.F) {
	f.Add(int64(1), uint64(2), int64(-1), uint64(math.MaxUint64), int64(7))
	f.Add(int64(math.MaxInt64), uint64(math.MaxUint64), int64(0), uint64(1), int64(100))
	f.Add(int64(math.MinInt64), uint64(0), int64(-1), uint64(1), int64(1_000_000))
	f.Fuzz(func(t *testing.T, ahi int64, alo uint64, bhi int64, blo uint64, factor int64) {
		a, b := Picos{ahi, alo}, Picos{bhi, blo}
		factor &= math.MaxInt32
		require.Equal(t, clamp(new(big.Int).Add(a.toBig(), b.toBig())), a.Add(b).String())
		require.Equal(t, a.toBig().Cmp(b.toBig()), a.Cmp(b))
		if b != minPicos && a != minPicos {
			require.Equal(t, clamp(new(big.Int).Sub(a.toBig(), b.toBig())), a.Sub(b).String())
			product := clamp(new(big.Int).Mul(a.toBig(), big.NewInt(factor)))
			if product != minPicos.String() { // saturates one short of the lower end
				require.Equal(t, product, a.Mul(factor).String())
			}
			rounded := new(big.Int).Add(a.toBig(), big.NewInt(picosPerMicro/2))
			rounded.Div(rounded, big.NewInt(picosPerMicro)) // Euclidean: floor for a positive divisor
			if rounded.IsInt64() {
				require.Equal(t, rounded.Int64(), a.Micros())
			}
		}
		back, err := ParsePicos(a.String())
		require.NoError(t, err)
		require.Equal(t, a, back)
		tokens, rate := int64(alo%100_000_000), int64(blo%1_000_000_000_000)
		require.Equal(t, new(big.Int).Mul(big.NewInt(tokens), big.NewInt(rate)).String(), Cost(tokens, rate).String())
	})
}

func clamp(n *big.Int) string {
	switch {
	case n.Cmp(maxPicos.toBig()) > 0:
		return maxPicos.String()
	case n.Cmp(minPicos.toBig()) < 0:
		return minPicos.String()
	}
	return n.String()
}
