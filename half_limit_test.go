package dynalimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// foreignSetLimits does what the other library's set_limits does to a bucket: it
// sets the parameters of every limit of the list, of new ones without tokens.
func (s *process) foreignSetLimits(entity string, limits ...Limit) {
	s.t.Helper()
	require.NoError(s.t, s.repo.SetLimits(s.t.Context(), Scope{Entity: entity, Resource: model}, limits))
	item := s.item(entity)
	for _, l := range limits {
		l = l.withDefaults()
		for field, n := range map[string]int64{
			"cp": l.Capacity * milli, "bx": l.Burst * milli, "ra": l.RefillAmount * milli, "rp": l.RefillPeriod.Milliseconds(),
		} {
			item["b_"+l.Name+"_"+field] = schema.Number(n)
		}
	}
	put(s.t, s.repo, item)
}

// A limit that has parameters and no tokens is adopted at its burst, whether or
// not the item was claimed with the same configuration before.
func TestLimitWithoutTokensIsAdopted(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		for _, foreign := range []bool{false, true} {
			for _, cold := range []bool{false, true} {
				s := newProcess(t, e, nil)
				require.NoError(t, s.repo.SetLimits(t.Context(), Scope{Everyone: true, Resource: model}, []Limit{rpm}))
				s.acquire("u", Amounts{"rpm": 1})
				if foreign { // a bucket that we never wrote
					item := s.item("u")
					for _, ours := range []string{"cv", "ct", "ci", "op0", "op1", "op2", "op3"} {
						delete(item, ours)
					}
					put(t, s.repo, item)
				}
				s.clock.advance(3 * time.Second)
				s.foreignSetLimits("u", rpm, PerMinute("tpm", 10_000).WithBurst(12_000))
				require.NotContains(t, s.item("u"), "b_tpm_tk")
				p := s
				if cold {
					p = s.peer(nil)
				}
				report, err := p.limiter.Check(t.Context(), "u", model, Amounts{"tpm": 12_000})
				require.NoError(t, err)
				assert.True(t, report.Allowed, "it is full")
				lease := p.acquire("u", Amounts{"rpm": 1, "tpm": 500})
				assert.Equal(t, int64(11_500), s.level("u", "tpm"))
				assert.Equal(t, int64(99), s.level("u", "rpm"))
				assert.Equal(t, int64(500_000), numberOf(s.item("u"), "b_tpm_tc"))
				require.NoError(t, lease.Rollback(t.Context()))
				assert.Equal(t, int64(12_000), s.level("u", "tpm"))
			}
		}
	})
}

// Whatever half of a limit another writer left, an adjust and an acquire make it
// whole.
func TestHalvesOfLimitsAreAdopted(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		for name, lacks := range map[string][]string{
			"tokens": {"tk"}, "tokens and counter": {"tk", "tc"}, "burst": {"bx"}, "rate": {"ra", "rp"}, "rate and tokens": {"tk", "rp"},
		} {
			for _, adjust := range []bool{false, true} {
				s := newProcess(t, e, perMinute())
				lease := s.acquire("u", Amounts{"rpm": 1})
				item := s.item("u")
				item["b_tpm_tk"] = schema.Number(0)
				for _, field := range lacks {
					delete(item, "b_tpm_"+field)
				}
				put(t, s.repo, item)
				p := s
				if adjust {
					require.NoError(t, lease.Adjust(t.Context(), Amounts{"tpm": 700}), name)
				} else {
					p = s.peer(perMinute())
					p.acquire("u", Amounts{"tpm": 700})
				}
				p.acquire("u", Amounts{"tpm": 300})
				assert.Equal(t, int64(9000), s.level("u", "tpm"), name)
			}
		}
	})
}

// A half limit that is not configured goes, as any ghost.
func TestHalfLimitThatIsNotConfiguredGoes(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		require.NoError(t, s.repo.SetLimits(t.Context(), Scope{Everyone: true, Resource: model}, []Limit{rpm}))
		s.acquire("u", Amounts{"rpm": 1})
		item := s.item("u")
		item["b_tpm_bx"], item["b_usd_cp"] = schema.Number(5000), schema.Number(5000)
		put(t, s.repo, item)
		require.NoError(t, s.repo.SetLimits(t.Context(), Scope{Everyone: true, Resource: model}, []Limit{rpm, tpd}))
		s.clock.advance(3 * time.Second)
		s.peer(nil).acquire("u", Amounts{"rpm": 1})
		assert.Equal(t, []string{"rpm", "tpd"}, s.image("u").Set.Names)
	})
}
