package dynalimit

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/schema"
)

func TestCascadeChargesEveryLevel(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("key", "project", "org")
		for round := int64(1); round <= 3; round++ {
			lease := s.acquire("key", Amounts{"rpm": 1, "tpm": 500})
			assert.Equal(t, []string{"key rpm", "key tpm", "project rpm", "project tpm", "org rpm", "org tpm"}, holders(lease.Statuses()), "child first, names sorted")
			for _, status := range lease.Statuses() {
				if status.Limit.Name == "tpm" {
					assert.Equal(t, 10_000-500*round, status.Remaining, status.EntityID)
				}
			}
			assert.Equal(t, Amounts{"rpm": 1, "tpm": 500}, lease.Consumed(), "not thrice")
			for _, id := range []string{"key", "project", "org"} {
				assert.Equal(t, 10_000-500*round, s.level(id, "tpm"), id)
				assert.Equal(t, 1000*round, s.stored(id, "rpm").Consumed, id)
			}
		}
		lease := s.acquire("project", Amounts{"tpm": 100})
		assert.Equal(t, []string{"project tpm", "org tpm"}, holders(lease.Statuses()), "the project itself charges the org")
		assert.Equal(t, int64(8500), s.level("key", "tpm"))
	})
}

func TestCascadeReconcilesEveryLevel(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("key", "project")
		lease := s.acquire("key", Amounts{"tpm": 500})
		levels := func(want int64) {
			t.Helper()
			assert.Equal(t, want, s.level("key", "tpm"))
			assert.Equal(t, want, s.level("project", "tpm"))
		}
		require.NoError(t, lease.Adjust(t.Context(), Amounts{"tpm": 20_000}))
		levels(-10_500)
		require.NoError(t, lease.Adjust(t.Context(), Amounts{"tpm": -20_100}))
		levels(9600)
		require.NoError(t, lease.Consume(t.Context(), Amounts{"tpm": 1600}))
		levels(8000)
		require.NoError(t, lease.Settle(t.Context(), Amounts{"tpm": 1000}))
		levels(9000)
		require.NoError(t, s.acquire("key", Amounts{"tpm": 5000}).Rollback(t.Context()))
		levels(9000)
	})
}

func TestCascadeDenialConsumesNothingAnywhere(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("key", "project", "org")
		for i, full := range []string{"org", "project", "key"} {
			lease, err := s.limiter.Acquire(t.Context(), full, model, Amounts{"tpm": 9500}, WithCascade(CascadeParallel))
			require.NoError(t, err)
			counters := func() (all []int64) {
				for _, id := range []string{"key", "project", "org"} {
					if s.item(id) != nil {
						all = append(all, s.stored(id, "rpm").Consumed, s.stored(id, "tpm").Consumed, s.level(id, "rpm"), s.level(id, "tpm"))
					}
				}
				return all
			}
			s.acquire("key", Amounts{"rpm": 1}) // every bucket exists
			before := counters()
			for range 2 {
				exceeded := s.deny("key", Amounts{"rpm": 2, "tpm": 501})
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
		s.acquire("project", Amounts{"tpm": 9990})
		s.clock.advance(2 * time.Second) // nothing is denied from memory
		exceeded := s.deny("key", Amounts{"rpm": 1, "tpm": 5000})
		assert.Equal(t, []string{"key rpm", "key tpm", "project rpm", "project tpm"}, holders(exceeded.Statuses))
		for i, remaining := range []int64{100, 10_000, 100, 343} {
			assert.Equal(t, remaining, exceeded.Statuses[i].Remaining, "%s: a level that passed is shown as it is after the give-back", holders(exceeded.Statuses)[i])
		}
	})
}

func TestCascadeRetryAfterIsExact(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		require.NoError(t, s.repo.SetLimits(t.Context(), Scope{Entity: "key"}, []Limit{PerMinute("rpm", 7), PerMinute("tpm", 977)}))
		require.NoError(t, s.repo.SetLimits(t.Context(), Scope{Entity: "project"}, []Limit{PerHour("tpm", 1013)}))
		s.family("key", "project")
		s.acquire("key", Amounts{"rpm": 7, "tpm": 977})
		s.clock.advance(1237 * time.Millisecond)
		for _, a := range []Amounts{{"rpm": 1}, {"rpm": 3, "tpm": 20}, {"tpm": 100}} {
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
		require.NoError(t, s.repo.SetLimits(t.Context(), Scope{Entity: "project"}, []Limit{PerMinute("rpm", 200)}))
		s.family("key", "project")
		p := s.peer(perMinute())
		s.acquire("key", Amounts{"rpm": 1})
		s.acquire("key", Amounts{"rpm": 1})
		p.acquire("key", Amounts{"rpm": 90})
		p.acquire("project", Amounts{"rpm": 100})
		s.acquire("project", Amounts{"rpm": 1}) // knows this level, not the other
		s.clock.advance(1200 * time.Millisecond)
		exceeded := s.deny("key", Amounts{"rpm": 60})
		assert.Equal(t, "key", exceeded.Primary().EntityID)
		assert.Equal(t, 30*time.Second, exceeded.RetryAfter.Round(time.Second))
		s.clock.advance(exceeded.RetryAfter - time.Millisecond)
		assert.Equal(t, time.Millisecond, s.deny("key", Amounts{"rpm": 60}).RetryAfter)
		s.clock.advance(time.Millisecond)
		s.acquire("key", Amounts{"rpm": 60})
	})
}

func TestCascadeLevelsMayHaveOtherLimits(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s = s.on(s.repo, &Options{Cascade: s.limiter.desk.mode}) // no fallback limits
		s.family("key", "project", "org")
		require.NoError(t, s.repo.SetLimits(t.Context(), Scope{Entity: "key"}, []Limit{PerMinute("rpm", 10)}))
		require.NoError(t, s.repo.SetLimits(t.Context(), Scope{Entity: "org"}, []Limit{PerMinute("tpm", 1000), PerMinute("usd", 5)}))
		lease := s.acquire("key", Amounts{"rpm": 1, "tpm": 600})
		assert.Equal(t, []string{"key rpm", "org tpm"}, holders(lease.Statuses()))
		assert.Nil(t, s.item("project"), "nothing limits it")
		assert.Equal(t, []string{"org tpm"}, holders(s.deny("key", Amounts{"tpm": 500}).Statuses))
		require.NoError(t, lease.Adjust(t.Context(), Amounts{"usd": 2}))
		assert.Equal(t, int64(3), s.level("org", "usd"))
		require.NoError(t, lease.Rollback(t.Context()))
		assert.Equal(t, int64(1000), s.level("org", "tpm"))
		assert.Equal(t, int64(5), s.level("org", "usd"))
		assert.Equal(t, int64(10), s.level("key", "rpm"))
		_, err := s.limiter.Acquire(t.Context(), "key", model, Amounts{"rps": 1})
		assert.Contains(t, requireInvalid(t, err, "amounts[rps]").Reason, `["rpm" "tpm" "usd"]`)
	})
}

func TestOnlyCascadingEntitiesChargeTheirParent(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		s.family("project", "org")
		require.NoError(t, s.repo.CreateEntity(t.Context(), Entity{ID: "key", ParentID: "project"}))
		s.acquire("key", Amounts{"rpm": 1})
		assert.Nil(t, s.item("project"))
		assert.Nil(t, s.item("org"))
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
		s.chain(maxDepth, "")
		lease := s.acquire("level-0", Amounts{"rpm": 1})
		assert.Len(t, lease.Statuses(), 8)
		require.NoError(t, lease.Rollback(t.Context()))
		assert.Equal(t, int64(100), s.level("level-7", "rpm"))
		put(t, s.repo, schema.EntityRecord{ID: "level-x", ParentID: "level-0", Cascade: true}.Item(s.repo.keys, nil))
		assert.Len(t, s.acquire("level-x", Amounts{"rpm": 1}).Statuses(), 8, "the nearest")
		assert.EqualValues(t, 1*milli, s.stored("level-x", "rpm").Consumed)
		assert.EqualValues(t, 1*milli, s.stored("level-6", "rpm").Consumed)
		assert.EqualValues(t, 0, s.stored("level-7", "rpm").Consumed)
	})
}

func TestCascadeCycleIsAnError(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.chain(3, "level-1")
		_, err := s.limiter.Acquire(t.Context(), "level-0", model, Amounts{"rpm": 1})
		assert.Contains(t, requireInvalid(t, err, "entity").Reason, "level-1 is its own ancestor")
		assert.Nil(t, s.item("level-0"))
	})
}

func TestCascadeRemembersDenialsOfEveryLevel(t *testing.T) {
	for _, mode := range []CascadeMode{CascadeParallel, CascadeTransaction} {
		s := memProcess(t, perMinute())
		s.family("key", "project")
		s.acquire("project", Amounts{"tpm": 9990})
		s.acquire("key", Amounts{"rpm": 1})
		first := s.deny("key", Amounts{"tpm": 100}, WithCascade(mode))
		used := s.used(func() {
			again := s.deny("key", Amounts{"tpm": 100}, WithCascade(mode))
			assert.Equal(t, first.RetryAfter, again.RetryAfter)
		})
		assert.Zero(t, used.Requests(), "a parent's memory denies before anything is written")
	}
}

func TestCascadeModePerCall(t *testing.T) {
	s := memProcess(t, perMinute())
	s.family("key", "project")
	s.acquire("key", Amounts{"rpm": 1})
	used := s.used(func() { s.acquire("key", Amounts{"rpm": 1}, WithCascade(CascadeTransaction)) })
	assert.Equal(t, int64(1), used.Operations["TransactWriteItems"].Requests)
	assert.Zero(t, used.Operations["UpdateItem"].Requests)
	used = s.used(func() { s.acquire("user-1", Amounts{"rpm": 1}, WithCascade(CascadeTransaction)) })
	assert.Zero(t, used.Operations["TransactWriteItems"].Requests, "one level needs no transaction")
}

func TestCascadeSeesANewParentWithinTheConfigTTL(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		p := s.peer(perMinute())
		p.acquire("key", Amounts{"rpm": 1}) // the bucket is there before the record
		s.family("key", "project")
		s.acquire("key", Amounts{"rpm": 1})
		assert.Equal(t, int64(1000), s.stored("project", "rpm").Consumed, "at once in the process that wrote it")
		s.clock.advance(time.Minute)
		p.acquire("key", Amounts{"rpm": 1})
		assert.Equal(t, int64(2000), s.stored("project", "rpm").Consumed)
		require.NoError(t, s.repo.DeleteEntity(t.Context(), "key"))
		require.NoError(t, s.repo.CreateEntity(t.Context(), Entity{ID: "key", ParentID: "other", Cascade: true}))
		s.clock.advance(2 * time.Minute) // past the cache's grace too
		p.acquire("key", Amounts{"rpm": 1})
		assert.Equal(t, int64(1000), s.stored("other", "rpm").Consumed, "the new parent")
		assert.Equal(t, int64(2000), s.stored("project", "rpm").Consumed)
	})
}

// A chain that became too deep stops no traffic: its nearest levels are charged,
// and the operator is told once.
func TestChainThatIsTooDeepChargesItsNearestLevels(t *testing.T) {
	var log bytes.Buffer
	opts := perMinute()
	opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := memProcess(t, opts)
	s.chain(maxDepth+2, "") // as by two tools at once: each chain was short when it was made
	for range 2 {
		s.acquire("level-0", Amounts{"rpm": 1})
	}
	for i := range maxDepth {
		assert.Equal(t, int64(98), s.level(fmt.Sprint("level-", i), "rpm"), i)
	}
	assert.Nil(t, s.item(fmt.Sprint("level-", maxDepth)))
	assert.Equal(t, 1, strings.Count(log.String(), "too many levels of parents"))
	assert.Contains(t, log.String(), "ancestor=level-8")
}
