package tests

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/schema"
)

var unlimited = schema.ConfigItem{Unlimited: true}

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
				lease := s.acquire("key", dynalimit.Amounts{"rpm": 10, "whatever": 3})
				assert.False(t, lease.Degraded())
				assert.Equal(t, []string{who.charged + " rpm"}, holders(lease.Statuses()))
				assert.Equal(t, dynalimit.Amounts{"rpm": 10}, lease.Consumed())
				require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"rpm": 5, "whatever": 4}))
				require.NoError(t, lease.Consume(t.Context(), dynalimit.Amounts{"rpm": 5, "whatever": 4}))
				assert.Equal(t, int64(80), s.level(who.charged, "rpm"))
				require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"rpm": 1, "whatever": 9}))
				assert.Equal(t, int64(99), s.level(who.charged, "rpm"))
				assert.Nil(t, s.item(who.unlimited))
				assert.Equal(t, who.charged, s.deny("key", dynalimit.Amounts{"rpm": 100}).Primary().EntityID)
			})
		})
	}
}

// Who waits in line when the limits are lifted is admitted within one TTL.
func TestUnlimitedEndsWaits(t *testing.T) {
	inFamily(t, func(t *testing.T, s *process) {
		s.says(schema.ConfigOwner{Entity: "org"}, limited(dynalimit.Amounts{"rpm": 1000}))
		s.says(schema.ConfigOwner{Entity: "key"}, schema.ConfigItem{Limits: []schema.ConfigLimit{{Name: "rpm", Capacity: 1, Burst: 1, Amount: 1, PeriodSeconds: 86_400}}})
		s.acquire("key", dynalimit.Amounts{"rpm": 1})
		ended := make(chan error, 3)
		for range 3 {
			go func() {
				_, err := s.limiter.Wait(t.Context(), "key", model, dynalimit.Amounts{"rpm": 1})
				ended <- err
			}()
		}
		elapse(5 * time.Minute)
		s.says(schema.ConfigOwner{Entity: "key"}, unlimited)
		began := time.Now()
		for range 3 {
			require.NoError(t, <-ended)
		}
		assert.LessOrEqual(t, time.Since(began), time.Minute+time.Second)
		assert.Equal(t, int64(4000), s.stored("org", "rpm").Consumed)
		assert.Equal(t, int64(1000), s.stored("key", "rpm").Consumed)
	})
}

// A lease that asks for more goes by the limits in force: where they were lifted it is not
// denied, and what it uses is still charged to the bucket that it took from.
func TestLiftedLimitsDenyNoConsume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := grouped(t, memEngine(t), nil)
		lift := func(on string) {
			require.NoError(t, s.repo.admin().Limits.SetUnlimited(t.Context(), admin.Scope{Entity: "team", Resource: on}))
		}
		lease := s.acquire("team", dynalimit.Amounts{"rpm": 60})
		lift(model)
		require.NoError(t, lease.Consume(t.Context(), dynalimit.Amounts{"rpm": 60}))
		assert.Equal(t, dynalimit.Amounts{"rpm": 120}, lease.Consumed())
		assert.Equal(t, group, s.denied(lease.Consume(t.Context(), dynalimit.Amounts{"rpm": 60})).Primary().Resource)
		require.NoError(t, lease.Consume(t.Context(), dynalimit.Amounts{"jobs": 1}), "who is unlimited has every limit")
		lift(group)
		require.NoError(t, lease.Consume(t.Context(), dynalimit.Amounts{"rpm": 60}))
		for _, want := range []int64{180, 10} {
			assert.Equal(t, dynalimit.Amounts{"rpm": want}, lease.Consumed())
			for _, on := range []string{model, group} {
				assert.Equal(t, want, s.storedOn("team", on, "rpm").Consumed/milli, on)
			}
			require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"rpm": 10 - want}))
		}
	})
}
