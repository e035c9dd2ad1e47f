package tests

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// nLimits are n limits a day whose names begin so, and one of each.
func nLimits(prefix string, n int) ([]dynalimit.Limit, dynalimit.Amounts) {
	limits, amounts := make([]dynalimit.Limit, n), dynalimit.Amounts{}
	for i := range limits {
		limits[i] = dynalimit.PerDay(fmt.Sprintf("%s%02d", prefix, i), 100)
		amounts[limits[i].Name] = 1
	}
	return limits, amounts
}

// WithLimits may not make more limits than a bucket holds; that is said before
// anything is written.
func TestOverrideMakesNoMoreLimitsThanABucketHolds(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		base, _ := nLimits("a", 15)
		over, _ := nLimits("b", 6)
		s := newProcess(t, e, &dynalimit.Options{Limits: base})
		_, err := s.limiter.Acquire(t.Context(), "u", model, dynalimit.Amounts{"a00": 1, "b05": 1}, dynalimit.WithLimits(over...))
		requireInvalid(t, err, "WithLimits")
		assert.ErrorContains(t, err, `"b05"`)
		assert.ErrorContains(t, err, "at most 20")
		assert.Nil(t, s.item("u"))
		s.acquire("u", dynalimit.Amounts{"a00": 1, "b04": 1}, dynalimit.WithLimits(over[:5]...))
		s.acquire("u", dynalimit.Amounts{"a00": 1, "b04": 1}, dynalimit.WithLimits(over[:5]...))
		lease := s.acquire("u", dynalimit.Amounts{"a00": 1, "b04": 1}, dynalimit.WithLimits(append(over[:5:5], base...)...))
		assert.Equal(t, int64(97), s.level("u", "b04"))
		require.NoError(t, lease.Consume(t.Context(), dynalimit.Amounts{"b00": 1}))
		more, _ := nLimits("c", 1)
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, append(more, base...)))
		requireInvalid(t, lease.Consume(t.Context(), dynalimit.Amounts{"b00": 1}), "WithLimits")
	})
}

// All limits may be renamed at once before they have refilled; not twice, until
// the first ones have.
func TestRenamedLimitsStayUntilTheyAreFull(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		set := func(prefix string) dynalimit.Amounts {
			limits, all := nLimits(prefix, schema.MaxLimits)
			s.clock.advance(5 * time.Second)
			require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, limits))
			return all
		}
		first := s.acquire("u", set("a"))
		s.acquire("u", set("b"))
		second := s.acquire("u", set("b"))
		assert.Equal(t, int64(98), s.level("u", "b19"))
		require.Len(t, s.image("u").Set.Names, schema.MaxStored)
		require.NoError(t, first.Adjust(t.Context(), dynalimit.Amounts{"a00": 1}), "of a limit that is configured no more")

		before := s.item("u")
		third := set("c")
		_, err := s.limiter.Acquire(t.Context(), "u", model, third)
		requireInvalid(t, err, "limits")
		for _, part := range []string{"would be 60", `"a00"`, `"b19"`, "at most 40", "wait"} {
			assert.ErrorContains(t, err, part)
		}
		_, err = s.limiter.Check(t.Context(), "u", model, nil)
		requireInvalid(t, err, "limits")
		assert.Equal(t, before, s.item("u"), "nothing was written")
		require.NoError(t, second.Adjust(t.Context(), dynalimit.Amounts{"b00": 1}), "what is charged to the limits there are still is")

		s.clock.advance(time.Hour)
		p := s.peer(nil)
		p.acquire("u", third)
		assert.Len(t, s.image("u").Set.Names, schema.MaxLimits, "the others had refilled")
		assert.Equal(t, int64(99), s.level("u", "c00"))
	})
}

// An item that another writer made may hold any number of limits: that many are
// charged, or said to be too many.
func TestBucketOfAnotherWriterWithManyLimits(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		for _, n := range []int{33, schema.MaxStored, 60} {
			s := newProcess(t, e, nil)
			limits, _ := nLimits("a", n)
			require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, limits[n-3:]))
			item := schema.Item{"PK": schema.String("ENTITY#u"), "SK": schema.String("#BUCKET#" + model), "rf": schema.Number(s.clock.now().UnixMilli())}
			for _, l := range limits {
				for field, v := range map[string]int64{"tk": 50_000, "cp": 100_000, "bx": 100_000, "ra": 100_000, "rp": 86_400_000, "tc": 0} {
					item["b_"+l.Name+"_"+field] = schema.Number(v)
				}
			}
			put(t, s.repo, item)
			both := dynalimit.Amounts{limits[n-1].Name: 1, limits[n-3].Name: 1}
			if n > schema.MaxStored {
				_, err := s.limiter.Acquire(t.Context(), "u", model, both)
				requireInvalid(t, err, "limits")
				assert.Equal(t, item, s.item("u"))
				continue
			}
			for range 2 {
				s.acquire("u", both)
			}
			assert.Equal(t, int64(48), s.level("u", limits[n-1].Name))
			require.Len(t, s.image("u").Set.Names, n)
		}
	})
}
