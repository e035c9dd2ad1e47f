package tests

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
)

// Nothing but an acquire, or a charge, makes a bucket; what it makes is whole.
func TestNoGhostsAfterADeletion(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("key", "project")
		up, down, back := s.acquire("key", dynalimit.Amounts{"tpm": 100}), s.acquire("key", dynalimit.Amounts{"tpm": 100}), s.acquire("key", dynalimit.Amounts{"tpm": 100})
		for _, id := range []string{"key", "project"} {
			s.delete(id)
		}
		require.NoError(t, down.Adjust(t.Context(), dynalimit.Amounts{"tpm": -50}))
		require.NoError(t, back.Rollback(t.Context()))
		assert.Nil(t, s.item("key"))
		assert.Nil(t, s.item("project"))
		require.NoError(t, up.Adjust(t.Context(), dynalimit.Amounts{"tpm": 900}))
		for _, id := range []string{"key", "project"} {
			assert.Equal(t, int64(9100), s.level(id, "tpm"))
			assert.Equal(t, int64(100), s.level(id, "rpm"), "every limit is there")
			assert.True(t, s.image(id).HasRefilled)
		}
		s.acquire("key", dynalimit.Amounts{"rpm": 100, "tpm": 9100})
		s.deny("key", dynalimit.Amounts{"tpm": 1})
	})
}

// A bucket that vanishes while a cascade gives back is not resurrected.
func TestNoGhostFromACompensation(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		s.family("key", "project")
		key := writesOf("key")
		f := &brokenWire{match: key}
		p := s.faulty(perMinute(), f)
		p.acquire("key", dynalimit.Amounts{"rpm": 1})
		s.acquire("project", dynalimit.Amounts{"tpm": 9900})
		f.after = func() { s.delete("key") }
		f.times(1)
		p.deny("key", dynalimit.Amounts{"tpm": 500})
		assert.Equal(t, 1, f.count())
		assert.Nil(t, s.item("key"))
	})
}

// The other's ADD on a deleted bucket leaves an item with tokens and nothing
// else. The next acquire makes it whole, in the debt it shows.
func TestGhostIsHealed(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("key", "project")
		s.acquire("key", dynalimit.Amounts{"rpm": 1, "tpm": 10})
		for _, cold := range []bool{false, true} {
			for _, id := range []string{"key", "project"} {
				s.delete(id)
				s.foreignAdjust(id, 700)
				require.Zero(t, numberOf(s.item(id), "rf"))
			}
			p := s
			if cold {
				p = s.peer(&dynalimit.Options{Limits: s.limiter.own, Cascade: s.limiter.mode})
			}
			p.acquire("key", dynalimit.Amounts{"rpm": 1, "tpm": 500})
			for _, id := range []string{"key", "project"} {
				assert.Equal(t, int64(8800), s.level(id, "tpm"), "min(bx, bx + tk) - 500")
				assert.Equal(t, int64(99), s.level(id, "rpm"))
				assert.Equal(t, int64(8_800_000), s.effective(id, "tpm"), "and the other can use it again")
				assert.NotZero(t, s.image(id).TTL)
			}
			s.deny("key", dynalimit.Amounts{"tpm": 8801})
		}
	})
}

// A lease that meets a ghost: what it gives back is dropped, what it charges
// makes the bucket whole.
func TestLeaseMeetsAGhost(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		for _, warm := range []bool{true, false} {
			down, up := s.acquire("user-1", dynalimit.Amounts{"tpm": 500}), s.acquire("user-1", dynalimit.Amounts{"tpm": 100})
			s.delete("user-1")
			s.foreignAdjust("user-1", 700)
			if warm {
				_, err := s.limiter.Check(t.Context(), "user-1", model, nil)
				require.NoError(t, err)
			}
			before := maps.Clone(s.item("user-1"))
			require.NoError(t, down.Rollback(t.Context()))
			after := s.item("user-1")
			assert.Equal(t, numberOf(before, "b_tpm_tk"), numberOf(after, "b_tpm_tk"))
			require.NoError(t, up.Adjust(t.Context(), dynalimit.Amounts{"tpm": 50}))
			assert.Equal(t, int64(9250), s.level("user-1", "tpm"))
			assert.Equal(t, int64(100), s.level("user-1", "rpm"))
			s.delete("user-1")
		}
	})
}
