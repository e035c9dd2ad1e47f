package usage

import (
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// TestSumsStayAtTheirEnds: a sum that 64 bits do not hold is the most that they do, as exact
// arithmetic says, and stays so whatever is added: how much it was is not known any more.
func TestSumsStayAtTheirEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64().Draw(t, "a"), rapid.Int64().Draw(t, "b")
		exact := new(big.Int).Add(big.NewInt(a), big.NewInt(b))
		want := a + b
		switch {
		case atEnd(a):
			want = a
		case atEnd(b):
			want = b
		case exact.Cmp(big.NewInt(math.MaxInt64)) > 0:
			want = math.MaxInt64
		case exact.Cmp(big.NewInt(math.MinInt64)) < 0:
			want = math.MinInt64
		}
		assert.Equal(t, want, saturatedSum(a, b))
		assert.GreaterOrEqual(t, magnitude(a), int64(0))
	})
	assert.EqualValues(t, math.MaxInt64, magnitude(math.MinInt64))
	for n, want := range map[int64]int64{0: 0, 5: -5, math.MaxInt64: math.MinInt64, math.MinInt64: math.MaxInt64, math.MaxInt64 - 1: -math.MaxInt64 + 1} {
		assert.Equal(t, want, saturatedNegation(n))
	}
}

// TestCountersAreBounded: one whose difference to another 64 bits may not hold is refused.
func TestCountersAreBounded(t *testing.T) {
	image := func(n int64) schema.Item { return schema.Item{"b_rpm_tc": schema.Number(n)} }
	for n, ok := range map[int64]bool{
		maxCounter: true, -maxCounter: true, maxCounter + 1: false, -maxCounter - 1: false, math.MaxInt64: false, math.MinInt64: false,
	} {
		for _, images := range [][2]schema.Item{{image(n), image(0)}, {image(0), image(n)}} {
			c, _, err := Decode(key, "1", noon, images[0], images[1])
			if ok {
				require.NoError(t, err)
				assert.Len(t, Folds([]Change{c}, 0), 1)
				continue
			}
			assert.ErrorContains(t, err, `"rpm"`)
		}
		_, err := DecodeBucket(image(n))
		assert.Equal(t, ok, err == nil, n)
	}
}

// TestChangesAndGapsFit: 64 bits hold what one record changes, and what is missing of a fold
// together with what is missing before it.
func TestChangesAndGapsFit(t *testing.T) {
	for _, sign := range []int64{1, -1} {
		least, most := -sign*maxCounter, sign*maxCounter
		one := Folds([]Change{change(1, 0, counters{"rpm": least}, counters{"rpm": most})}, 0)
		assert.EqualValues(t, sign*2*maxCounter, one[0].Spans[0].Net)
		for off := range int64(4) { // about as far as one fold goes
			from := most - sign*off
			changes := []Change{change(1, 0, counters{"rpm": most - sign}, counters{"rpm": sign}), change(2, 0, counters{"rpm": from}, counters{"rpm": from - sign})}
			got, last := new(big.Int), least
			for _, f := range Folds(changes, 0) {
				s := f.AddGaps(&schema.UsageSnapshot{Hour: noon, Spans: map[string]schema.UsageSpan{"rpm": {Limit: "rpm", Last: last}}}).Spans[0]
				got.Add(got, big.NewInt(s.Missing))
				last = s.Last
			}
			want := new(big.Int).Sub(big.NewInt(most-sign), big.NewInt(least))
			want.Add(want, big.NewInt(from-sign))
			assert.Equal(t, want.String(), got.String(), off)
		}
	}
}

// TestFoldsAreExact: the folds of any changes of any size say together what exact arithmetic says,
// of what was consumed, of what is missing, and of what ended.
func TestFoldsAreExact(t *testing.T) {
	counter := rapid.OneOf(rapid.Int64Range(-maxCounter, maxCounter), rapid.Int64Range(-1000, 1000), rapid.SampledFrom([]int64{-maxCounter, maxCounter})).
		Filter(func(n int64) bool { return n != 0 }) // which is of a bucket that was made anew
	rapid.Check(t, func(t *rapid.T) {
		first := counter.Draw(t, "first")
		var net, missing, dropped, gotNet, gotMissing, gotDropped big.Int
		var changes []Change
		last := first
		for i := range rapid.IntRange(1, 12).Draw(t, "changes") {
			from, to := counter.Draw(t, "from"), counter.Draw(t, "to")
			if from == to { // nothing happens
				continue
			}
			changes = append(changes, change(i, 0, counters{"rpm": from}, counters{"rpm": to}))
			missing.Add(&missing, new(big.Int).Sub(big.NewInt(from), big.NewInt(last)))
			net.Add(&net, new(big.Int).Sub(big.NewInt(to), big.NewInt(from)))
			last = to
		}
		if len(changes) > 0 && rapid.Bool().Draw(t, "ends") {
			changes = append(changes, change(20, 0, counters{"rpm": last}, nil))
			dropped.SetInt64(last)
		}
		seen := schema.UsageSpan{Limit: "rpm", Last: first}
		for _, f := range Folds(changes, 0) {
			require.Len(t, f.Spans, 1)
			gotNet.Add(&gotNet, big.NewInt(f.Spans[0].Net))
			gotDropped.Add(&gotDropped, big.NewInt(f.Spans[0].Dropped))
			s := f.AddGaps(&schema.UsageSnapshot{Hour: noon, Spans: map[string]schema.UsageSpan{"rpm": seen}}).Spans[0]
			gotMissing.Add(&gotMissing, big.NewInt(s.Missing))
			seen.Last = s.Last
		}
		assert.Equal(t, []string{net.String(), missing.String(), dropped.String()}, []string{gotNet.String(), gotMissing.String(), gotDropped.String()})
	})
}

// TestWhatALevelCountsAlone is exact where 64 bits hold it, and at their ends where they do not.
func TestWhatALevelCountsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64().Draw(t, "a"), rapid.Int64().Draw(t, "b")
		exact := new(big.Int).Sub(big.NewInt(a), big.NewInt(b))
		got := Entry{Net: counts{"rpm": a, "rpm^": b}}.byLimit(true).Net
		switch {
		case atEnd(a):
			assert.Equal(t, a, got["rpm"])
		case atEnd(b) || !exact.IsInt64():
			assert.Equal(t, exact.Sign() > 0, got["rpm"] == math.MaxInt64)
			assert.True(t, atEnd(got["rpm"]))
		case exact.Sign() == 0:
			assert.NotContains(t, got, "rpm")
		default:
			assert.Equal(t, exact.Int64(), got["rpm"])
		}
	})
}

// TestFoldsThat64BitsDoNotHold are written in pieces, each of which they hold; together they
// are what was consumed.
func TestFoldsThat64BitsDoNotHold(t *testing.T) {
	var changes []Change
	want := new(big.Int)
	for i := range 5 { // a bucket that is made anew again and again
		changes = append(changes, change(2*i, time.Duration(i), nil, counters{"rpm": maxCounter}), change(2*i+1, time.Duration(i), counters{"rpm": maxCounter}, nil))
		want.Add(want, big.NewInt(maxCounter))
	}
	got, events := new(big.Int), int64(0)
	for _, f := range Folds(changes, 0) {
		require.Len(t, f.Spans, 1)
		assert.GreaterOrEqual(t, f.Spans[0].Net, int64(0))
		got.Add(got, big.NewInt(f.Spans[0].Net))
		events += f.Events
	}
	assert.Equal(t, want.String(), got.String())
	assert.EqualValues(t, 10, events)

	gaps := Folds([]Change{
		change(1, 0, counters{"rpm": -maxCounter}, counters{"rpm": -maxCounter + 1}),
		change(2, 0, counters{"rpm": maxCounter}, counters{"rpm": maxCounter - 1}), change(3, 0, counters{"rpm": -maxCounter}, counters{"rpm": 0}),
	}, 0)
	assert.Greater(t, len(gaps), 1)
}

// TestTotalsThat64BitsDoNotHold are the most that they do, and said to be.
func TestTotalsThat64BitsDoNotHold(t *testing.T) {
	for sign, want := range map[int64]int64{1: math.MaxInt64, -1: math.MinInt64} {
		s := NewSums(schema.UsageHourly, noon)
		for i := range 6 {
			n := sign * maxCounter
			if i == 5 {
				n = -n // and it is not known any more by how much
			}
			s.AddGroups(used(fmt.Sprint("key-", i), "", "", counts{"rpm": n, "tpm": 1}))
		}
		sums := s.All()
		require.Len(t, sums, 1)
		assert.Equal(t, want, sums[0].Net["rpm"])
		assert.EqualValues(t, 6, sums[0].Net["tpm"])
		assert.ErrorContains(t, CheckSum(&sums[0]), `"rpm" of resource "gpt-4"`)
	}
	to, more := NewTally(), schema.UsageSum{Net: counts{"rpm": math.MaxInt64 - 1}, Unrecorded: counts{"rpm": math.MaxInt64 - 1}}
	AddSum(&to, &more)
	require.NoError(t, CheckSum(&to))
	AddSum(&to, &more)
	assert.EqualValues(t, math.MaxInt64, to.Net["rpm"])
	assert.EqualValues(t, math.MaxInt64, to.Unrecorded["rpm"])
	AddSnapshot(&to, &schema.UsageSnapshot{Spans: map[string]schema.UsageSpan{"rpm": {Net: maxCounter}}})
	assert.EqualValues(t, math.MaxInt64, to.Net["rpm"])
}
