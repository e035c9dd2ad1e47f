package schema

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/bucket"
)

// manyLimits is the image of a bucket with n limits.
func manyLimits(n int) *Image {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("l%04d", i)
	}
	return &Image{Set: NewLimitSets().Of(names), Fingerprint: []byte("12345678"), Limits: make([]Stored, n)}
}

// spendOf spends from the limits whose bit is set, from full ones where full's is.
func spendOf(m *Image, limits, full int) *Spend {
	s := &Spend{Seen: m, Op: Op{ID: make([]byte, 9)}}
	for i := range m.Set.Names {
		if limits&(1<<i) != 0 {
			s.Limits = append(s.Limits, SpendLimit{Index: i, Update: bucket.Update{HasLow: true, Full: full&(1<<i) != 0}})
		}
	}
	return s
}

// However many shapes are asked for, the texts remembered are bounded, and each
// is right when it is built again.
func TestSpendTextsAreBounded(t *testing.T) {
	m := manyLimits(14)
	first := spendOf(m, 1, 0).Statement()
	for i := 1; i < 3*maxSpendTexts; i++ {
		spendOf(m, i, 0).Statement()
		require.LessOrEqual(t, len(m.Set.texts.known), maxSpendTexts)
	}
	assert.Equal(t, first, spendOf(m, 1, 0).Statement())
}

// Sets of one registry share the bound.
func TestSpendTextsOfManySetsAreBounded(t *testing.T) {
	sets := NewLimitSets()
	for i := range 2 * maxSpendTexts {
		set := sets.Of([]string{fmt.Sprintf("l%04d", i)})
		spendOf(&Image{Set: set, Limits: make([]Stored, 1)}, 1, 0).Statement()
		require.LessOrEqual(t, len(sets.texts.known), maxSpendTexts)
	}
}

// An item of another writer may hold more limits than a configuration may.
func TestSpendOfAnyNumberOfLimits(t *testing.T) {
	for _, n := range []int{20, 33, 40, 65, 1000} {
		m := manyLimits(n)
		s := Spend{Seen: m, Op: Op{ID: make([]byte, 9)}, Limits: []SpendLimit{{Index: 1}, {Index: n - 1, Update: bucket.Update{HasLow: true}}}}
		st := s.Statement()
		assert.Contains(t, st.Names, "#0")
		names := map[string]bool{}
		for _, attr := range st.Names {
			names[attr] = true
		}
		assert.True(t, names[fmt.Sprintf("b_l%04d_tk", n-1)], "of %d limits, the last", n)
		s.Limits[1].Index = n - 2
		if n > 20 {
			assert.NotEqual(t, st.Names, s.Statement().Names, "not taken for another")
		}
	}
	all := manyLimits(1000)
	s := Spend{Seen: all, Op: Op{ID: make([]byte, 9)}}
	for i := range all.Set.Names {
		s.Limits = append(s.Limits, SpendLimit{Index: i, Update: bucket.Update{Add: -1 << 62, Low: -1 << 62, High: 1 << 62, HasLow: true}, Consumed: 1 << 62})
	}
	assert.Equal(t, Number(1<<62), s.Statement().Values[":4000"], "the digits of all the numbers, in their places")
}
