package dynalimit

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// What the process's share admitted at one level is given back, once, when it
// denies at another.
func TestShareOfALevelIsGivenBackWhenAnotherDenies(t *testing.T) {
	for name, fault := range map[string]ddbmem.Fault{"known to be away": {Drop: true}, "out of capacity": throttled1} {
		t.Run(name, func(t *testing.T) {
			virtual(t, &Options{Limits: []Limit{PerDay("rpm", 20)}, OnUnavailable: Local, LocalShare: 1}, func(t *testing.T, s *process) {
				s.family("key", "project")
				require.NoError(t, s.repo.SetEntityLimits(t.Context(), "project", model, []Limit{PerDay("rpm", 10)}))
				s.acquire("key", Amounts{"rpm": 1})
				s.down(fault)
				s.acquire("key", Amounts{"rpm": 9})
				for range 20 {
					denied := s.deny("key", Amounts{"rpm": 1})
					assert.Equal(t, []string{"key rpm", "project rpm"}, holders(denied.Statuses))
					assert.Equal(t, int64(9), denied.Statuses[0].Remaining, "of 20, with what was asked for")
				}
				s.db.SetFaults(nil)
				s.recovers()
			})
		})
	}
}

// The process's share admits a call if each of its limits has room, and takes
// nothing of any else.
func TestShareAdmitsByEveryLimit(t *testing.T) {
	virtual(t, &Options{Limits: []Limit{PerDay("a", 10), PerDay("b", 3), PerDay("c", 10)}, OnUnavailable: Local, LocalShare: 1}, func(t *testing.T, s *process) {
		one := Amounts{"a": 1, "b": 1, "c": 1}
		s.acquire("u", one)
		s.down(ddbmem.Fault{Drop: true})
		for range 2 {
			s.acquire("u", one)
		}
		for range 20 {
			denied := s.deny("u", one)
			assert.Equal(t, "b", denied.Primary().Limit.Name)
		}
		s.acquire("u", Amounts{"a": 7, "c": 7})
		s.recovers()
	})
}
