package dynalimit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/sources"
)

var blocked = schema.ConfigItem{Blocked: true}

// isBlocked checks that an error is a block of an entity, at a source.
func isBlocked(t *testing.T, err error, entity string, source sources.Source) {
	t.Helper()
	var b *dynalimit.BlockedError
	require.ErrorAs(t, err, &b)
	require.ErrorIs(t, err, dynalimit.ErrBlocked)
	assert.Equal(t, entity, b.EntityID)
	assert.Equal(t, model, b.Resource)
	assert.Equal(t, source, b.Source)
	assert.Equal(t, source == sources.Plan || source == sources.PlanDefault, b.Plan == "pro")
	assert.ErrorContains(t, err, string(source))
	assert.NotErrorIs(t, err, dynalimit.ErrLimitExceeded)
	_, ok := dynalimit.RetryAfter(errors.Join(errors.New("other"), err))
	assert.False(t, ok, "no wait helps")
}

// A block at any source wins over all that more specific sources say.
func TestBlockedAtAnySource(t *testing.T) {
	for source, owner := range ofSource {
		for name, above := range map[string]schema.ConfigItem{"limited": limited(dynalimit.Amounts{"rpm": 10}), "unlimited": unlimited} {
			t.Run(string(source)+" below "+name, func(t *testing.T) {
				testEngines(t, func(t *testing.T, e *engine) {
					s := onPlan(t, e, perMinute())
					for l, o := range ofSource {
						if l != source {
							s.says(o, above)
						}
					}
					s.says(owner, blocked)
					_, err := s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})
					isBlocked(t, err, "user-1", source)
					_, err = s.limiter.Wait(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})
					isBlocked(t, err, "user-1", source)
					err = s.limiter.Do(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1}, func(context.Context, *dynalimit.Lease) error {
						assert.Fail(t, "called")
						return nil
					})
					isBlocked(t, err, "user-1", source)
					_, err = s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithLimits(dynalimit.PerMinute("rpm", 5)), dynalimit.WithOnUnavailable(dynalimit.Allow))
					isBlocked(t, err, "user-1", source)
					assert.Nil(t, s.item("user-1"))
				})
			})
		}
	}
}

// A block ends waits within the TTL of configuration, of waiters of this process at once. No waiter
// asks the store for a change that does not concern it.
func TestBlockEndsWaits(t *testing.T) {
	for name, test := range map[string]struct {
		owner schema.ConfigOwner
		here  bool
	}{
		"the entity": {owner: schema.ConfigOwner{Entity: "key"}}, "its parent": {owner: schema.ConfigOwner{Entity: "org"}}, "its parent, in this process": {schema.ConfigOwner{Entity: "org"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			inFamily(t, func(t *testing.T, s *process) {
				s.says(ofSystem, limited(dynalimit.Amounts{"rpm": 100_000}))
				s.says(schema.ConfigOwner{Entity: "key"}, schema.ConfigItem{Limits: []schema.ConfigLimit{{Name: "rpm", Capacity: 1, Burst: 1, RefillAmount: 1, RefillPeriod: 24 * time.Hour}}})
				s.acquire("key", dynalimit.Amounts{"rpm": 1})
				ended := make(chan error, 3)
				for range 3 {
					go func() {
						_, err := s.limiter.Wait(t.Context(), "key", model, dynalimit.Amounts{"rpm": 1})
						ended <- err
					}()
				}
				elapse(10*time.Minute + time.Second)
				most := time.Minute + time.Second
				began := time.Now()
				if test.here {
					most = 0
					quiet := s.used(func() {
						for range 20 {
							s.repo.InvalidateConfig("somebody", "")
							synctest.Wait()
						}
					})
					assert.Zero(t, quiet.Requests())
					require.NoError(t, s.repo.SetBlocked(t.Context(), admin.Scope{Entity: "org"}, true))
				} else {
					s.says(test.owner, blocked)
				}
				for range 3 {
					isBlocked(t, <-ended, test.owner.Entity, sources.EntityDefault)
				}
				assert.LessOrEqual(t, time.Since(began), most)
			})
		})
	}
}

// A block that is known outlasts an outage, whatever the policy and however long.
func TestBlockedInAnOutage(t *testing.T) {
	virtual(t, &dynalimit.Options{OnUnavailable: dynalimit.Allow, Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)}}, func(t *testing.T, s *process) {
		s.says(ofEntity, blocked)
		_, err := s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})
		isBlocked(t, err, "user-1", sources.Entity)
		s.down(ddbmem.Fault{Drop: true})
		for range 4 {
			_, err = s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})
			isBlocked(t, err, "user-1", sources.Entity)
			s.clock.advance(30 * time.Minute)
		}
		lease := s.acquire("user-2", dynalimit.Amounts{"rpm": 1})
		assert.True(t, lease.Degraded())
		s.recovers()
	})
}

// Nor does the age of what is known of a child hide that a parent that it charges is
// blocked.
func TestBlockedParentInALongOutage(t *testing.T) {
	virtual(t, &dynalimit.Options{OnUnavailable: dynalimit.Allow, Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)}}, func(t *testing.T, s *process) {
		s.family("key", "project", "org")
		lease := s.acquire("key", dynalimit.Amounts{"rpm": 1})
		s.says(schema.ConfigOwner{Entity: "org"}, blocked)
		sharedOf(s.repo).Told.Owners(schema.ConfigOwner{Entity: "org"})
		_, err := s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"rpm": 1})
		isBlocked(t, err, "org", sources.EntityDefault)
		s.down(ddbmem.Fault{Drop: true})
		for range 4 {
			_, err = s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"rpm": 1})
			isBlocked(t, err, "org", sources.EntityDefault)
			isBlocked(t, lease.Consume(t.Context(), dynalimit.Amounts{"rpm": 1}), "org", sources.EntityDefault)
			s.clock.advance(30 * time.Minute)
		}
		require.NoError(t, lease.Rollback(t.Context()))
		s.recovers()
	})
}

// A change that gets no answer, made or not, leaves in force what was known.
func TestChangeThatIsNotAnsweredForgetsNoBlock(t *testing.T) {
	for name, change := range map[string]func(ctx context.Context, r *repository) error{
		"one source": func(ctx context.Context, r *repository) error {
			return r.SetLimits(ctx, admin.Scope{Everyone: true}, oneLimit)
		},
		"a plan": func(ctx context.Context, r *repository) error {
			return r.SetLimits(ctx, admin.Scope{Plan: "pro"}, oneLimit)
		},
		"many sources": func(ctx context.Context, r *repository) error {
			errs, err := r.SetConfigs(ctx, []admin.ScopedConfig{{Scope: admin.Scope{Everyone: true}, Config: admin.LimitConfig{Limits: oneLimit}}})
			return errors.Join(append(errs, err)...)
		},
	} {
		for outcome, unanswered := range map[string]func(*ddbmem.Request) bool{
			"not made": func(*ddbmem.Request) bool { return true },
			"unknown":  func(q *ddbmem.Request) bool { return q.Operation == "TransactWriteItems" },
		} {
			t.Run(name+", "+outcome, func(t *testing.T) {
				virtual(t, &dynalimit.Options{OnUnavailable: dynalimit.Allow, Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)}}, func(t *testing.T, s *process) {
					s.enrols(schema.EntityRecord{ID: "user-1", Plan: "pro"})
					s.says(ofPlanDefault, blocked)
					_, err := s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})
					isBlocked(t, err, "user-1", sources.PlanDefault)
					_, err = s.repo.GetConfig(t.Context(), admin.Scope{Everyone: true})
					require.NoError(t, err)
					s.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: unanswered(q)} })
					require.Error(t, change(t.Context(), s.repo))
					s.down(ddbmem.Fault{Drop: true})
					_, err = s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})
					isBlocked(t, err, "user-1", sources.PlanDefault)
					s.recovers()
					require.NoError(t, change(t.Context(), s.repo))
				})
			})
		}
	}
}

// What was admitted while nothing was known is counted, although the entity turns out to
// be blocked.
func TestBlockedAfterAnAdmissionWithoutConfiguration(t *testing.T) {
	virtual(t, &dynalimit.Options{OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
		s.says(ofEntity, schema.ConfigItem{Blocked: true, Limits: limited(dynalimit.Amounts{"rpm": 10}).Limits})
		s.down(ddbmem.Fault{Drop: true})
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 3})
		assert.True(t, lease.Degraded())
		s.recovers()
		_, err := s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})
		isBlocked(t, err, "user-1", sources.Entity)
		require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"rpm": 4}))
		s.recovers()
		assert.Equal(t, int64(4), s.stored("user-1", "rpm").Consumed/milli)
		assert.Equal(t, int64(9), s.level("user-1", "rpm"), "the bucket answered when 1 more was used")
	})
}

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
				assert.Equal(t, dynalimit.Amounts{"rpm": 10}, lease.Used())
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
		assert.Equal(t, dynalimit.Amounts{"rpm": 120}, lease.Used())
		assert.Equal(t, group, s.denied(lease.Consume(t.Context(), dynalimit.Amounts{"rpm": 60})).Primary().Resource)
		require.NoError(t, lease.Consume(t.Context(), dynalimit.Amounts{"jobs": 1}), "who is unlimited has every limit")
		lift(group)
		require.NoError(t, lease.Consume(t.Context(), dynalimit.Amounts{"rpm": 60}))
		for _, want := range []int64{180, 10} {
			assert.Equal(t, dynalimit.Amounts{"rpm": want}, lease.Used())
			for _, on := range []string{model, group} {
				assert.Equal(t, want, s.storedOn("team", on, "rpm").Consumed/milli, on)
			}
			require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"rpm": 10 - want}))
		}
	})
}

func TestBlockIsInForceWithinOneTTL(t *testing.T) {
	for name, opts := range map[string]*dynalimit.Options{"plain": {}, "with Prefetch": {Prefetch: time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts.Limits = []dynalimit.Limit{dynalimit.PerSecond("rpm", 1000)}
				s := liveProcess(t, memEngine(t), opts)
				for range 300 { // with Prefetch, much is debited ahead
					s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
					elapse(10 * time.Millisecond)
				}
				s.says(ofSystem, blocked)
				for began := time.Now(); ; elapse(10 * time.Millisecond) {
					_, err := s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})
					if err != nil {
						isBlocked(t, err, "user-1", sources.System)
						break
					}
					require.LessOrEqual(t, time.Since(began), time.Minute)
				}
				_, err := s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})
				isBlocked(t, err, "user-1", sources.System)
			})
		})
	}
}
