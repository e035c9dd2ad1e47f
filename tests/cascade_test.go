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

func TestCascadeDenialConsumesNothingAnywhere(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("key", "project", "org")
		for i, full := range []string{"org", "project", "key"} {
			lease, err := s.limiter.Acquire(t.Context(), full, model, dynalimit.Amounts{"tpm": 9500}, dynalimit.WithCascade(dynalimit.CascadeParallel))
			require.NoError(t, err)
			counters := func() (all []int64) {
				for _, id := range []string{"key", "project", "org"} {
					if s.item(id) != nil {
						all = append(all, s.stored(id, "rpm").Consumed, s.stored(id, "tpm").Consumed, s.level(id, "rpm"), s.level(id, "tpm"))
					}
				}
				return all
			}
			s.acquire("key", dynalimit.Amounts{"rpm": 1}) // every bucket exists
			before := counters()
			for range 2 {
				exceeded := s.deny("key", dynalimit.Amounts{"rpm": 2, "tpm": 501})
				assert.Equal(t, "key", exceeded.EntityID)
				primary := exceeded.Primary()
				assert.Equal(t, "tpm", primary.Limit.Name)
				assert.Equal(t, int64(500), primary.Remaining)
				assert.Equal(t, 6*time.Millisecond, exceeded.RetryAfter)
				for _, status := range exceeded.Statuses {
					denies := status.Limit.Name == "tpm" && (i == 0 && status.EntityID == "org" || i == 1 && status.EntityID != "key" || i == 2)
					assert.Equal(t, denies, status.Exceeded, "%s of %s while %s is full", status.Limit.Name, status.EntityID, full)
				}
				assert.Equal(t, before, counters())
			}
			require.NoError(t, lease.Rollback(t.Context()))
			s.clock.advance(time.Minute)
		}
	})
}

func TestCascadeStatusesOfADenial(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("key", "project")
		s.acquire("project", dynalimit.Amounts{"tpm": 9990})
		s.clock.advance(2 * time.Second) // nothing is denied from memory
		exceeded := s.deny("key", dynalimit.Amounts{"rpm": 1, "tpm": 5000})
		assert.Equal(t, []string{"key rpm", "key tpm", "project rpm", "project tpm"}, holders(exceeded.Statuses))
		for i, remaining := range []int64{100, 10_000, 100, 343} {
			assert.Equal(t, remaining, exceeded.Statuses[i].Remaining, "%s: a level that passed is shown as it is after the give-back", holders(exceeded.Statuses)[i])
		}
	})
}

func TestCascadeRetryAfterIsExact(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "key"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 7), dynalimit.PerMinute("tpm", 977)}))
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "project"}, []dynalimit.Limit{dynalimit.PerHour("tpm", 1013)}))
		s.family("key", "project")
		s.acquire("key", dynalimit.Amounts{"rpm": 7, "tpm": 977})
		s.clock.advance(1237 * time.Millisecond)
		for _, a := range []dynalimit.Amounts{{"rpm": 1}, {"rpm": 3, "tpm": 20}, {"tpm": 100}} {
			wait := s.deny("key", a).RetryAfter
			s.clock.advance(wait - time.Millisecond)
			assert.Equal(t, time.Millisecond, s.deny("key", a).RetryAfter)
			s.clock.advance(time.Millisecond)
			s.acquire("key", a)
		}
	})
}

// The wait covers levels that this process believes to have enough, by an image
// that others have made old.
func TestCascadeRetryAfterCoversWhatOthersTook(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "project"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 200)}))
		s.family("key", "project")
		p := s.peer(perMinute())
		s.acquire("key", dynalimit.Amounts{"rpm": 1})
		s.acquire("key", dynalimit.Amounts{"rpm": 1})
		p.acquire("key", dynalimit.Amounts{"rpm": 90})
		p.acquire("project", dynalimit.Amounts{"rpm": 100})
		s.acquire("project", dynalimit.Amounts{"rpm": 1}) // knows this level, not the other
		s.clock.advance(1200 * time.Millisecond)
		exceeded := s.deny("key", dynalimit.Amounts{"rpm": 60})
		assert.Equal(t, "key", exceeded.Primary().EntityID)
		assert.Equal(t, 30*time.Second, exceeded.RetryAfter.Round(time.Second))
		s.clock.advance(exceeded.RetryAfter - time.Millisecond)
		assert.Equal(t, time.Millisecond, s.deny("key", dynalimit.Amounts{"rpm": 60}).RetryAfter)
		s.clock.advance(time.Millisecond)
		s.acquire("key", dynalimit.Amounts{"rpm": 60})
	})
}

func TestCascadeLevelsMayHaveOtherLimits(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s = s.on(s.repo, &dynalimit.Options{Cascade: s.limiter.mode}) // no fallback limits
		s.family("key", "project", "org")
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "key"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)}))
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "org"}, []dynalimit.Limit{dynalimit.PerMinute("tpm", 1000), dynalimit.PerMinute("usd", 5)}))
		lease := s.acquire("key", dynalimit.Amounts{"rpm": 1, "tpm": 600})
		assert.Equal(t, []string{"key rpm", "org tpm"}, holders(lease.Statuses()))
		assert.Nil(t, s.item("project"), "nothing limits it")
		assert.Equal(t, []string{"org tpm"}, holders(s.deny("key", dynalimit.Amounts{"tpm": 500}).Statuses))
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"usd": 2}))
		assert.Equal(t, int64(3), s.level("org", "usd"))
		require.NoError(t, lease.Rollback(t.Context()))
		assert.Equal(t, int64(1000), s.level("org", "tpm"))
		assert.Equal(t, int64(5), s.level("org", "usd"))
		assert.Equal(t, int64(10), s.level("key", "rpm"))
		_, err := s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"rps": 1})
		assert.Contains(t, requireInvalid(t, err, "amounts[rps]").Reason, `["rpm" "tpm" "usd"]`)
	})
}

// chain stores records of n levels as another tool might, unchecked.
func (s *process) chain(n int, last string) {
	s.t.Helper()
	for i := range n {
		parent := fmt.Sprintf("level-%d", i+1)
		if i == n-1 {
			parent = last
		}
		put(s.t, s.repo, schema.EntityRecord{ID: fmt.Sprintf("level-%d", i), ParentID: parent, Cascade: true}.Item(s.repo.keys, nil))
	}
}

func TestCascadeDepthIsBounded(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.chain(schema.MaxDepth, "")
		lease := s.acquire("level-0", dynalimit.Amounts{"rpm": 1})
		assert.Len(t, lease.Statuses(), 8)
		require.NoError(t, lease.Rollback(t.Context()))
		assert.Equal(t, int64(100), s.level("level-7", "rpm"))
		put(t, s.repo, schema.EntityRecord{ID: "level-x", ParentID: "level-0", Cascade: true}.Item(s.repo.keys, nil))
		assert.Len(t, s.acquire("level-x", dynalimit.Amounts{"rpm": 1}).Statuses(), 8, "the nearest")
		assert.EqualValues(t, 1*milli, s.stored("level-x", "rpm").Consumed)
		assert.EqualValues(t, 1*milli, s.stored("level-6", "rpm").Consumed)
		assert.EqualValues(t, 0, s.stored("level-7", "rpm").Consumed)
	})
}

func TestCascadeCycleIsAnError(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.chain(3, "level-1")
		_, err := s.limiter.Acquire(t.Context(), "level-0", model, dynalimit.Amounts{"rpm": 1})
		assert.Contains(t, requireInvalid(t, err, "entity").Reason, "level-1 is its own ancestor")
		assert.Nil(t, s.item("level-0"))
	})
}

func TestCascadeModePerCall(t *testing.T) {
	s := memProcess(t, perMinute())
	s.family("key", "project")
	s.acquire("key", dynalimit.Amounts{"rpm": 1})
	used := s.used(func() {
		s.acquire("key", dynalimit.Amounts{"rpm": 1}, dynalimit.WithCascade(dynalimit.CascadeTransaction))
	})
	assert.Equal(t, int64(1), used.Operations["TransactWriteItems"].Requests)
	assert.Zero(t, used.Operations["UpdateItem"].Requests)
	used = s.used(func() {
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1}, dynalimit.WithCascade(dynalimit.CascadeTransaction))
	})
	assert.Zero(t, used.Operations["TransactWriteItems"].Requests, "one level needs no transaction")
}

func TestCascadeSeesANewParentWithinTheConfigTTL(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		p := s.peer(perMinute())
		p.acquire("key", dynalimit.Amounts{"rpm": 1}) // the bucket is there before the record
		s.family("key", "project")
		s.acquire("key", dynalimit.Amounts{"rpm": 1})
		assert.Equal(t, int64(1000), s.stored("project", "rpm").Consumed, "at once in the process that wrote it")
		s.clock.advance(time.Minute)
		p.acquire("key", dynalimit.Amounts{"rpm": 1})
		assert.Equal(t, int64(2000), s.stored("project", "rpm").Consumed)
		require.NoError(t, s.repo.DeleteEntity(t.Context(), "key"))
		require.NoError(t, s.repo.CreateEntity(t.Context(), admin.Entity{ID: "key", ParentID: "other", Cascade: true}))
		s.clock.advance(2 * time.Minute) // past the cache's grace too
		p.acquire("key", dynalimit.Amounts{"rpm": 1})
		assert.Equal(t, int64(1000), s.stored("other", "rpm").Consumed, "the new parent")
		assert.Equal(t, int64(2000), s.stored("project", "rpm").Consumed)
	})
}
