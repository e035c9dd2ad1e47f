package tests

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/levels"
)

// Naming a limit that a level has, but not the one that won, says which level won, which
// one has it, and what to do.
func TestHiddenLimitIsTold(t *testing.T) {
	s := memProcess(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("usd", 5)}})
	s.enrols(schema.EntityRecord{ID: "user-1", Plan: "pro"})
	s.says(ofSystem, limited(dynalimit.Amounts{"rps": 1, "images": 1}))
	s.says(ofResource, limited(dynalimit.Amounts{"rps": 1, "tpm": 1}))
	for _, test := range []struct {
		won                 levels.Level
		limit, hidden, lift string
	}{
		{levels.PlanDefault, "tpm", "level resource", "Limits.Set for the plan"},
		{levels.PlanDefault, "images", "level system", "Limits.Set for the plan"},
		{levels.PlanDefault, "usd", "level options", "Limits.Set for the plan"},
		{levels.Plan, "rps", "level resource", "Limits.Set for the plan"},
		{levels.Entity, "rps", "level resource", "Limits.Set for the entity"},
	} {
		s.says(ofLevel[test.won], limited(dynalimit.Amounts{"rpm": 10}))
		p := s.peer(&dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("usd", 5)}})
		lease := p.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		_, err := p.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1, test.limit: 1}, dynalimit.WithLimits(dynalimit.PerDay("tpd", 5)))
		for _, err := range []error{err, lease.Adjust(t.Context(), dynalimit.Amounts{test.limit: 1}), lease.Consume(t.Context(), dynalimit.Amounts{test.limit: 1})} {
			requireInvalid(t, err, "amounts["+test.limit+"]")
			assert.ErrorContains(t, err, "(level "+string(test.won)+") won")
			assert.ErrorContains(t, err, "("+test.hidden+"), which has it")
			assert.ErrorContains(t, err, "admin."+test.lift)
		}
		p.skipsNoHidden("user-1", test.limit)
		_, err = p.limiter.Check(t.Context(), "user-1", model, dynalimit.Amounts{test.limit: 1})
		requireInvalid(t, err, "amounts["+test.limit+"]")
	}
}

// A limit that a parent has is not hidden: it is charged there.
func TestLimitHiddenAtTheChildAndInForceAtTheParent(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("key", "org")
		s.says(schema.ConfigOwner{Entity: "key"}, limited(dynalimit.Amounts{"rps": 10}))
		assert.Equal(t, []string{"org tpm"}, holders(s.acquire("key", dynalimit.Amounts{"tpm": 1}).Statuses()))
	})
}

// skipsNoHidden checks that WithIgnoreUnknown skips a limit nowhere that a level has which
// is not in force, beside rpm, which is: otherwise any list of an entity's own would lift
// the limits that everybody has.
func (s *process) skipsNoHidden(entity, hidden string) {
	s.t.Helper()
	ctx, both := s.t.Context(), dynalimit.Amounts{"rpm": 1, hidden: 1}
	lease := s.acquire(entity, dynalimit.Amounts{"rpm": 1, "images_of_none": 1}, dynalimit.WithIgnoreUnknown())
	_, err := s.limiter.Acquire(ctx, entity, model, both, dynalimit.WithIgnoreUnknown())
	_, waitErr := s.limiter.Wait(ctx, entity, model, both, dynalimit.WithIgnoreUnknown())
	_, checkErr := s.limiter.Check(ctx, entity, model, both, dynalimit.WithIgnoreUnknown())
	for _, err := range []error{err, waitErr, checkErr, lease.Consume(ctx, both), lease.Adjust(ctx, both), lease.Settle(ctx, both)} {
		requireInvalid(s.t, err, "amounts["+hidden+"]")
	}
	require.NoError(s.t, lease.Settle(ctx, dynalimit.Amounts{"rpm": 1, "images_of_none": 5}))
}

// A call that nothing would limit is refused, whatever it ignores.
func TestWithIgnoreUnknownNeedsOneLimit(t *testing.T) {
	s := memProcess(t, perMinute())
	_, err := s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"images": 1, "audio": 1}, dynalimit.WithIgnoreUnknown())
	requireInvalid(t, err, "amounts[audio]")
	_, err = s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"images": 1, "rpm": 0}, dynalimit.WithIgnoreUnknown())
	require.NoError(t, err, "it names one, though it takes nothing of it")
	_, err = memProcess(t, nil).limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithIgnoreUnknown())
	requireInvalid(t, err, "limits")
}
