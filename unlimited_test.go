package dynalimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/levels"
)

var unlimited = schema.ConfigItem{Unlimited: true}

// An unlimited entity is admitted whatever it asks for, and nothing of it is written.
func TestUnlimitedEntityIsChargedNothing(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		s.says(ofResource, limited(Amounts{"rpm": 1}))
		s.says(ofEntityDefault, unlimited)
		lease := s.acquire("user-1", Amounts{"rpm": 1_000_000, "whatever": 5})
		assert.False(t, lease.Degraded())
		assert.Empty(t, lease.Consumed(), "it holds nothing")
		assert.Empty(t, lease.Statuses())
		require.NoError(t, lease.Adjust(t.Context(), Amounts{"rpm": 5, "whatever": -100}))
		require.NoError(t, lease.Consume(t.Context(), Amounts{"other": 5}))
		assert.Empty(t, lease.Consumed())
		require.NoError(t, lease.Settle(t.Context(), Amounts{"rpm": 7}))
		require.ErrorIs(t, lease.Adjust(t.Context(), Amounts{"rpm": 1}), ErrLeaseEnded)
		require.NoError(t, lease.Rollback(t.Context()))
		require.NoError(t, s.acquire("user-1", Amounts{"rpm": 1}).Rollback(t.Context()))
		_, err := s.limiter.Wait(t.Context(), "user-1", model, Amounts{"rpm": 1_000_000})
		require.NoError(t, err)
		assert.Nil(t, s.item("user-1"))
		assert.Equal(t, levels.Resource, s.acquire("user-2", Amounts{"rpm": 1}).Statuses()[0].Level)
	})
}

func TestUnlimitedAcquiresAskNobodyWhenWarm(t *testing.T) {
	s := memProcess(t, perMinute())
	s.says(ofEntity, unlimited)
	heard := listen(t)
	s = s.on(s.repo, &Options{Observer: heard})
	cold := s.used(func() { s.acquire("user-1", Amounts{"rpm": 1}) })
	assert.Equal(t, int64(1), cold.Requests())
	warm := s.used(func() {
		require.NoError(t, s.acquire("user-1", Amounts{"rpm": 1}).Settle(t.Context(), Amounts{"rpm": 2}))
	})
	assert.Zero(t, warm.Requests())
	ends := heard.take()
	assert.NotContains(t, ends[0], "memory")
	assert.Contains(t, ends[1], "memory")
}

func TestUnlimitedIsReported(t *testing.T) {
	s := memProcess(t, perMinute())
	s.says(ofEntity, unlimited)
	report, err := s.limiter.Check(t.Context(), "user-1", model, Amounts{"rpm": 1_000_000})
	require.NoError(t, err)
	assert.Equal(t, &Report{Allowed: true, Unlimited: true, OnUnavailable: Block}, report)
	assert.Empty(t, report.Available())
	report, err = s.limiter.Check(t.Context(), "user-2", model, Amounts{"rpm": 1})
	require.NoError(t, err)
	assert.False(t, report.Unlimited)
}

// In a cascade, an unlimited level is just not charged.
func TestUnlimitedLevelOfACascade(t *testing.T) {
	for name, who := range map[string]struct{ unlimited, charged string }{
		"the child":  {"key", "org"},
		"the parent": {"org", "key"},
	} {
		t.Run(name, func(t *testing.T) {
			bothModes(t, func(t *testing.T, s *process) {
				s.family("key", "org")
				s.says(schema.ConfigOwner{Entity: who.unlimited}, unlimited)
				lease := s.acquire("key", Amounts{"rpm": 10, "whatever": 3})
				assert.False(t, lease.Degraded())
				assert.Equal(t, []string{who.charged + " rpm"}, holders(lease.Statuses()))
				assert.Equal(t, Amounts{"rpm": 10}, lease.Consumed())
				require.NoError(t, lease.Adjust(t.Context(), Amounts{"rpm": 5, "whatever": 4}))
				require.NoError(t, lease.Consume(t.Context(), Amounts{"rpm": 5, "whatever": 4}))
				assert.Equal(t, int64(80), s.level(who.charged, "rpm"))
				require.NoError(t, lease.Settle(t.Context(), Amounts{"rpm": 1, "whatever": 9}))
				assert.Equal(t, int64(99), s.level(who.charged, "rpm"))
				assert.Nil(t, s.item(who.unlimited))
				assert.Equal(t, who.charged, s.deny("key", Amounts{"rpm": 100}).Primary().EntityID)
			})
		})
	}
}

func TestWithLimitsLimitsAnUnlimitedEntity(t *testing.T) {
	s := memProcess(t, perMinute())
	s.says(ofEntity, unlimited)
	lease := s.acquire("user-1", Amounts{"rps": 1, "rpm": 1000}, WithLimits(PerSecond("rps", 1)))
	assert.Equal(t, []string{"user-1 rps"}, holders(lease.Statuses()))
	s.deny("user-1", Amounts{"rps": 1}, WithLimits(PerSecond("rps", 1)))
}

// A lease keeps to the bucket that it took from, if the limits are lifted or set while it
// is out.
func TestUnlimitedWhileALeaseIsOut(t *testing.T) {
	s := memProcess(t, perMinute())
	lease := s.acquire("user-1", Amounts{"rpm": 10})
	s.says(ofEntity, unlimited)
	s.repo.evictConfig(ofEntity)
	free := s.acquire("user-1", Amounts{"rpm": 1000})
	require.NoError(t, lease.Settle(t.Context(), Amounts{"rpm": 4}))
	assert.Equal(t, int64(96), s.level("user-1", "rpm"))
	s.says(ofEntity, limited(Amounts{"rpm": 100}))
	s.repo.evictConfig(ofEntity)
	require.NoError(t, free.Settle(t.Context(), Amounts{"rpm": 500}))
	assert.Equal(t, int64(96), s.level("user-1", "rpm"))
}

// A call whose lane learns that the limits were lifted meanwhile starts again, and is
// admitted.
func TestUnlimitedIsLearnedOnTheWay(t *testing.T) {
	s := memProcess(t, nil)
	s.says(ofEntity, limited(Amounts{"rpm": 10}))
	s.acquire("user-1", Amounts{"rpm": 5}) // and caches these limits
	s.says(ofEntity, limited(Amounts{"rpm": 20}))
	s.peer(nil).acquire("user-1", Amounts{"rpm": 1}, WithLimits(PerMinute("rpm", 20)))
	s.says(ofEntity, unlimited)
	assert.Empty(t, s.acquire("user-1", Amounts{"rpm": 5}).Statuses())
	report, err := s.limiter.Check(t.Context(), "user-1", model, nil)
	require.NoError(t, err)
	assert.True(t, report.Unlimited)
}

// What is known to be unlimited needs no table; what is not known is degraded.
func TestUnlimitedInAnOutage(t *testing.T) {
	virtual(t, nil, func(t *testing.T, s *process) {
		s.says(ofEntity, unlimited)
		s.says(schema.ConfigOwner{Entity: "user-2"}, unlimited)
		s.says(ofSystem, limited(Amounts{"rpm": 10}))
		s.acquire("user-1", Amounts{"rpm": 1})
		s.acquire("user-3", Amounts{"rpm": 1})
		s.down(ddbmem.Fault{Drop: true})
		_, err := s.limiter.Acquire(t.Context(), "user-3", model, Amounts{"rpm": 1})
		require.ErrorIs(t, err, ErrUnavailable)
		require.Eventually(t, func() bool { return s.limiter.Health().Open }, time.Minute, time.Second)
		lease := s.acquire("user-1", Amounts{"rpm": 100})
		assert.False(t, lease.Degraded())
		require.NoError(t, lease.Settle(t.Context(), Amounts{"rpm": 50}))
		unread := s.acquire("user-2", Amounts{"rpm": 100}, WithOnUnavailable(Allow))
		assert.True(t, unread.Degraded(), "nothing is known of it")
		s.recovers()
		require.NoError(t, unread.Settle(t.Context(), Amounts{"rpm": 100, "whatever": 1}))
		assert.False(t, unread.Degraded())
		assert.Nil(t, s.item("user-2"))
	})
}

// Who waits in line when the limits are lifted is admitted within one TTL.
func TestUnlimitedEndsWaits(t *testing.T) {
	inFamily(t, func(t *testing.T, s *process) {
		s.says(schema.ConfigOwner{Entity: "org"}, limited(Amounts{"rpm": 1000}))
		s.says(schema.ConfigOwner{Entity: "key"}, schema.ConfigItem{Limits: []schema.ConfigLimit{{Name: "rpm", Capacity: 1, Burst: 1, Amount: 1, PeriodSeconds: 86_400}}})
		s.acquire("key", Amounts{"rpm": 1})
		ended := make(chan error, 3)
		for range 3 {
			go func() {
				_, err := s.limiter.Wait(t.Context(), "key", model, Amounts{"rpm": 1})
				ended <- err
			}()
		}
		elapse(5 * time.Minute)
		s.says(schema.ConfigOwner{Entity: "key"}, unlimited)
		began := time.Now()
		for range 3 {
			require.NoError(t, <-ended)
		}
		assert.LessOrEqual(t, time.Since(began), s.repo.configs.ttl()+leastRecheck)
		assert.Equal(t, int64(4000), s.stored("org", "rpm").Consumed)
		assert.Equal(t, int64(1000), s.stored("key", "rpm").Consumed)
	})
}
