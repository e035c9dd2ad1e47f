package dynalimit_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// general is an option that says nothing: a call with options takes the general way.
var general = dynalimit.WithChargeMode("")

// remembered is a process that denies calls of user-1 from memory, by limits of the entity's own.
func remembered(t *testing.T, limits ...dynalimit.Limit) *process {
	t.Helper()
	s := newProcess(t, memEngine(t), nil)
	require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "user-1"}, limits))
	all := dynalimit.Amounts{}
	for _, l := range limits {
		all[l.Name] = l.Burst
	}
	s.acquire("user-1", all)
	s.deny("user-1", all)
	require.Zero(t, s.used(func() { s.deny("user-1", all) }).Requests())
	return s
}

// A denial that no store was asked for says the same of whatever is asked, at any instant, as
// the general way does.
func TestShortDenialIsTheGeneralOne(t *testing.T) {
	s := remembered(t, dynalimit.PerMinute("a", 7), dynalimit.PerSecond("b", 3).WithBurst(50), dynalimit.PerDay("c", 90).WithMaxDebt(5), dynalimit.Limit{Name: "d", Capacity: 13, RefillAmount: 7, RefillPeriod: 13 * time.Second}.WithBurst(17))
	denied := 0
	for range 300 {
		amounts := dynalimit.Amounts{}
		for _, name := range []string{"a", "b", "c", "d"} {
			if n := rand.Int64N(120); n < 100 {
				amounts[name] = n
			}
		}
		if len(amounts) == 0 {
			continue
		}
		_, want := s.limiter.Acquire(t.Context(), "user-1", model, amounts, general)
		if want == nil {
			continue
		}
		_, err := s.limiter.Acquire(t.Context(), "user-1", model, amounts)
		require.Equal(t, want, err, "%v", amounts)
		denied++
		s.clock.advance(time.Duration(rand.Int64N(3)) * time.Millisecond)
	}
	assert.Greater(t, denied, 100)
}

// What is wrong with a call is found on the short way as on the general one.
func TestShortWayRefusesWhatIsWrong(t *testing.T) {
	s := remembered(t, dynalimit.PerMinute("rpm", 10), dynalimit.PerMinute("tpm", 10))
	for _, amounts := range []dynalimit.Amounts{
		nil, {}, {"rpm": -1}, {"rpm": 20, "tpm": -1}, {"rpm": 1, "tpm": 1_000_000_000_001}, {"other": 1}, {"rpm": 1, "other": 0}, {"rpm": 20, "a b": 1},
	} {
		_, want := s.limiter.Acquire(t.Context(), "user-1", model, amounts, general)
		require.Error(t, want)
		_, err := s.limiter.Acquire(t.Context(), "user-1", model, amounts)
		assert.Equal(t, want, err, "%v", amounts)
	}
	lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 0})
	assert.Equal(t, dynalimit.Amounts{"rpm": 0}, lease.Used(), "nothing is asked of the bucket")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.limiter.Acquire(ended, "user-1", model, dynalimit.Amounts{"rpm": 10})
	assert.Equal(t, context.Canceled, err)
	require.NoError(t, s.limiter.Close(t.Context()))
	_, err = s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 10})
	assert.Equal(t, dynalimit.ErrClosed, err)
}

// Whatever changes through the repository, the short way ends at once; through another one,
// within the configuration's TTL.
func TestShortWayEndsWithItsConfiguration(t *testing.T) {
	ten := dynalimit.Amounts{"rpm": 10}
	for what, c := range map[string]struct {
		change func(ctx context.Context, s *process) error
		now    func(t *testing.T, s *process)
	}{
		"raised": {
			func(ctx context.Context, s *process) error {
				return s.repo.SetLimits(ctx, admin.Scope{Entity: "user-1"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 1000)})
			},
			func(t *testing.T, s *process) {
				assert.EqualValues(t, 1000, s.deny("user-1", dynalimit.Amounts{"rpm": 999}).Statuses[0].Limit.Capacity)
			},
		},
		"blocked": {
			func(ctx context.Context, s *process) error {
				return s.repo.admin().Limits.SetBlocked(ctx, admin.Scope{Entity: "user-1"}, true)
			},
			func(t *testing.T, s *process) {
				_, err := s.limiter.Acquire(t.Context(), "user-1", model, ten)
				assert.ErrorIs(t, err, dynalimit.ErrBlocked)
			},
		},
		"unlimited": {
			func(ctx context.Context, s *process) error {
				return s.repo.admin().Limits.SetUnlimited(ctx, admin.Scope{Entity: "user-1"})
			},
			func(_ *testing.T, s *process) { s.acquire("user-1", ten) },
		},
		"another limit": {
			func(ctx context.Context, s *process) error {
				return s.repo.SetLimits(ctx, admin.Scope{Entity: "user-1"}, []dynalimit.Limit{dynalimit.PerMinute("tpm", 5)})
			},
			func(t *testing.T, s *process) {
				_, err := s.limiter.Acquire(t.Context(), "user-1", model, ten)
				assert.ErrorAs(t, err, new(*dynalimit.ValidationError))
			},
		},
		"a group": {
			func(ctx context.Context, s *process) error {
				if err := s.repo.SetLimits(ctx, admin.Scope{Everyone: true, Resource: group}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 1)}); err != nil {
					return err
				}
				_, err := s.repo.SetConfig(ctx, admin.Scope{Everyone: true, Resource: model}, admin.LimitConfig{Groups: []string{group}, Version: admin.AnyVersion})
				return err
			},
			func(t *testing.T, s *process) {
				assert.Len(t, s.deny("user-1", ten).Statuses, 2)
			},
		},
	} {
		for _, elsewhere := range []bool{false, true} {
			t.Run(what, func(t *testing.T) {
				s := remembered(t, dynalimit.PerMinute("rpm", 10))
				by := s
				if elsewhere {
					by = s.peer(nil)
				}
				require.NoError(t, c.change(t.Context(), by))
				if elsewhere {
					s.clock.advance(time.Minute + time.Second)
				}
				c.now(t, s)
			})
		}
	}
}

// Calls that may charge more than one bucket have no short way, although no record limits the
// others yet.
func TestShortWayIsOfOneBucket(t *testing.T) {
	for what, at := range map[string]admin.Scope{"parent": {Entity: "org"}, "group": {Everyone: true, Resource: group}} {
		t.Run(what, func(t *testing.T) {
			s := remembered(t, dynalimit.PerMinute("rpm", 10))
			if what == "group" {
				s.ofGroup(model)
			} else {
				require.NoError(t, s.repo.CreateEntity(t.Context(), admin.Entity{ID: "user-1", ParentID: "org", Cascade: true}))
			}
			for range 2 {
				require.Len(t, s.deny("user-1", dynalimit.Amounts{"rpm": 10}).Statuses, 1)
			}
			require.NoError(t, s.repo.SetLimits(t.Context(), at, []dynalimit.Limit{dynalimit.PerMinute("rpm", 5)}))
			assert.Len(t, s.deny("user-1", dynalimit.Amounts{"rpm": 10}).Statuses, 2)
		})
	}
}

// A limit in shadow denies nobody on the short way either.
func TestShortWayDeniesNothingInShadow(t *testing.T) {
	shadow := dynalimit.PerDay("tpm", 5)
	shadow.Shadow = true
	s := remembered(t, dynalimit.PerMinute("rpm", 10), shadow)
	s.clock.advance(30 * time.Second)
	s.deny("user-1", dynalimit.Amounts{"rpm": 10, "tpm": 5})
	require.Zero(t, s.used(func() { s.deny("user-1", dynalimit.Amounts{"rpm": 10, "tpm": 5}) }).Requests())
	s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "tpm": 5})
}

// A lease that memory served is one that the store granted, whatever is done with it, and
// whatever its caller does to the amounts.
func TestServedLeaseIsAGrantedOne(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, lease *dynalimit.Lease) (left int64){
		"kept": func(*testing.T, *dynalimit.Lease) int64 { return 3 },
		"settled": func(t *testing.T, l *dynalimit.Lease) int64 {
			require.NoError(t, l.Settle(t.Context(), dynalimit.Amounts{"rpm": 2}))
			return 2
		},
		"settled as it is": func(t *testing.T, l *dynalimit.Lease) int64 {
			require.NoError(t, l.Settle(t.Context(), nil))
			require.ErrorIs(t, l.Adjust(t.Context(), dynalimit.Amounts{"rpm": 4}), dynalimit.ErrLeaseEnded)
			require.NoError(t, l.Settle(t.Context(), dynalimit.Amounts{"rpm": 2}))
			require.NoError(t, l.Rollback(t.Context()))
			return 3
		},
		"settled as adjusted": func(t *testing.T, l *dynalimit.Lease) int64 {
			require.NoError(t, l.Adjust(t.Context(), dynalimit.Amounts{"rpm": 4}))
			require.NoError(t, l.Settle(t.Context(), nil))
			require.ErrorIs(t, l.Adjust(t.Context(), dynalimit.Amounts{"rpm": 4}), dynalimit.ErrLeaseEnded)
			return 7
		},
		"adjusted": func(t *testing.T, l *dynalimit.Lease) int64 {
			require.NoError(t, l.Adjust(t.Context(), dynalimit.Amounts{"rpm": 4}))
			return 7
		},
		"consumed": func(t *testing.T, l *dynalimit.Lease) int64 {
			require.NoError(t, l.Consume(t.Context(), dynalimit.Amounts{"rpm": 4}))
			return 7
		},
		"rolled back": func(t *testing.T, l *dynalimit.Lease) int64 {
			require.NoError(t, l.Rollback(t.Context()))
			require.NoError(t, l.Rollback(t.Context()))
			return 0
		},
		"given back in excess": func(t *testing.T, l *dynalimit.Lease) int64 {
			require.ErrorAs(t, l.Adjust(t.Context(), dynalimit.Amounts{"rpm": -4}), new(*dynalimit.ValidationError))
			return 3
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := prefetching(t, 1, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerSecond("rpm", 1000), dynalimit.PerSecond("tpm", 1000)}, Prefetch: time.Second})
				s := all[0]
				(&stream{}).run(t, s, 5*time.Millisecond, 3*time.Second)
				amounts := dynalimit.Amounts{"rpm": 3, "tpm": 0}
				var lease *dynalimit.Lease
				require.Zero(t, s.used(func() { lease = s.acquire("shared", amounts) }).Requests())
				maps.Copy(amounts, dynalimit.Amounts{"rpm": 99, "other": 1})
				assert.False(t, lease.Degraded())
				before := s.stored("shared", "rpm").Consumed
				left := use(t, lease)
				assert.Equal(t, dynalimit.Amounts{"rpm": left, "tpm": 0}, lease.Used())
				statuses := lease.Statuses()
				require.NotEmpty(t, statuses)
				assert.Equal(t, []any{"shared", model, left}, []any{statuses[0].EntityID, statuses[0].Resource, statuses[0].Requested})
				assert.Equal(t, int64(1000), statuses[0].Limit.Burst)
				if name != "consumed" { // which may be served, too
					assert.Equal(t, (left-3)*milli, s.stored("shared", "rpm").Consumed-before)
				}
				stop(t, all)
			})
		})
	}
}
