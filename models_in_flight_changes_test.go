package dynalimit_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// A lease of unknown buckets that ends before they are known leaves no slot behind, whatever its end names.
func TestAdmittedCallEndsBeforeItsBucketIsKnown(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context, l *dynalimit.Lease) error{
		"settle":         func(ctx context.Context, l *dynalimit.Lease) error { return l.Settle(ctx, nil) },
		"settle another": func(ctx context.Context, l *dynalimit.Lease) error { return l.Settle(ctx, dynalimit.Amounts{"rpm": 5}) },
		"roll back":      func(ctx context.Context, l *dynalimit.Lease) error { return l.Rollback(ctx) },
	} {
		withSlots(t, dynalimit.Concurrent("inflight", 2, time.Minute), func(t *testing.T, s *process) {
			var answers atomic.Bool
			wire := &brokenWire{drop: true, match: func(operation string, _ []byte) bool { return !answers.Load() || operation == "BatchGetItem" }}
			p := s.faulty(&dynalimit.Options{OnUnavailable: dynalimit.Allow}, wire)
			wire.times(-1)
			open, ended := p.acquire("u", inflight), p.acquire("u", dynalimit.Amounts{"inflight": 1, "rpm": 1})
			require.NoError(t, end(t.Context(), ended))
			answers.Store(true)
			wire.times(5) // the first looks for the buckets fail
			elapse(30 * time.Second)
			require.Equal(t, 5, wire.count(), name)
			free, _ := s.slots()
			assert.Equal(t, int64(1), free, name)
			require.NoError(t, open.Settle(t.Context(), nil))
			elapse(15 * time.Second)
			free, _ = s.slots()
			assert.Equal(t, int64(2), free, name)
		})
	}
}

// A lease of unknown buckets ends as soon as they are known: its slot comes back, though it may not be counted yet.
func TestAdmittedCallEndsOnceItsBucketIsKnown(t *testing.T) {
	for wait := time.Duration(0); wait < 4*time.Second; wait += 200 * time.Millisecond {
		withSlots(t, dynalimit.Concurrent("inflight", 2, time.Minute), func(t *testing.T, s *process) {
			wire := &brokenWire{drop: true, match: func(string, []byte) bool { return true }}
			p := s.faulty(&dynalimit.Options{OnUnavailable: dynalimit.Allow}, wire)
			wire.times(-1)
			first, second := p.acquire("u", inflight), p.acquire("u", inflight)
			wire.times(0)
			elapse(wait)
			require.NoError(t, first.Settle(t.Context(), nil))
			require.NoError(t, second.Rollback(t.Context()))
			elapse(30 * time.Second)
			require.NoError(t, p.acquire("u", inflight).Rollback(t.Context()))
			free, _ := s.slots()
			assert.Equal(t, int64(2), free, wait)
		})
	}
}

// Another source makes the limit a bucket for a while. Then each process counts its open calls again.
func TestSlotsThatWereABucketForAWhile(t *testing.T) {
	withSlots(t, dynalimit.Concurrent("inflight", 4, time.Minute), func(t *testing.T, s *process) {
		own, a, b := admin.Scope{Entity: "u"}, s.peer(nil), s.peer(nil)
		buckets := []dynalimit.Limit{dynalimit.PerMinute("inflight", 100), dynalimit.PerMinute("rpm", 100)}
		long, short := a.acquire("u", inflight), a.acquire("u", inflight)
		require.NoError(t, s.repo.SetLimits(t.Context(), own, buckets))
		elapse(time.Minute)
		bucket := b.acquire("u", inflight)
		require.NoError(t, short.Settle(t.Context(), nil))
		require.NoError(t, s.repo.DeleteLimits(t.Context(), own))
		elapse(2 * time.Minute)
		require.NoError(t, bucket.Consume(t.Context(), inflight))
		elapse(2 * time.Minute)
		free, _ := s.slots()
		assert.Equal(t, int64(2), free)
		require.NoError(t, s.repo.SetLimits(t.Context(), own, buckets))
		elapse(time.Minute)
		require.NoError(t, bucket.Settle(t.Context(), nil))
		require.NoError(t, s.repo.DeleteLimits(t.Context(), own))
		elapse(4 * time.Minute)
		free, _ = s.slots()
		assert.Equal(t, int64(3), free)
		require.NoError(t, long.Settle(t.Context(), nil))
		free, _ = s.slots()
		assert.Equal(t, int64(4), free)
	})
}

// The limit was a bucket for a moment, within a hold. A process that saw neither change gives back no slot of a call
// that began since: its own slot is none of the new ones.
func TestSlotsThatWereABucketForAMoment(t *testing.T) {
	withSlots(t, dynalimit.Concurrent("inflight", 4, time.Minute), func(t *testing.T, s *process) {
		own, old := admin.Scope{Entity: "u"}, s.peer(nil)
		call := old.acquire("u", inflight)
		require.NoError(t, s.repo.SetLimits(t.Context(), own, []dynalimit.Limit{dynalimit.PerMinute("inflight", 100), dynalimit.PerMinute("rpm", 100)}))
		s.peer(nil).acquire("u", dynalimit.Amounts{"rpm": 1})
		require.NoError(t, s.repo.DeleteLimits(t.Context(), own))
		elapse(time.Second)
		s.peer(nil).acquire("u", inflight)
		require.NoError(t, call.Settle(t.Context(), nil))
		free, _ := s.slots()
		assert.Equal(t, int64(3), free)
	})
}

// A process makes the limit a bucket, and its image is of before other processes renewed their slots: none of the
// slots stays in the item.
func TestChangeOfKindFromAnOldImage(t *testing.T) {
	withSlots(t, dynalimit.Concurrent("inflight", 4, time.Minute), func(t *testing.T, s *process) {
		holder, p := s.peer(nil), s.peer(nil)
		holder.acquire("u", inflight)
		p.acquire("u", dynalimit.Amounts{"rpm": 1})
		elapse(45 * time.Second)
		_, epochs := s.slots()
		require.Equal(t, []int64{0, 1}, epochs)
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "u"}, []dynalimit.Limit{dynalimit.PerMinute("inflight", 100), dynalimit.PerMinute("rpm", 100)}))
		elapse(16 * time.Second)
		p.acquire("u", dynalimit.Amounts{"rpm": 1})
		for name := range s.item("u") {
			assert.NotContains(t, name, "s_inflight_h")
		}
	})
}

// Amounts of an outage that were counted while the limit was a bucket are dropped: slots have no counter. Those of
// other limits are written.
func TestCountsOfABucketThatHasSlotsNow(t *testing.T) {
	withSlots(t, dynalimit.Concurrent("inflight", 4, time.Minute), func(t *testing.T, s *process) {
		own := admin.Scope{Entity: "u"}
		require.NoError(t, s.repo.SetLimits(t.Context(), own, []dynalimit.Limit{dynalimit.PerMinute("inflight", 100), dynalimit.PerMinute("rpm", 100)}))
		wire := &brokenWire{drop: true, match: func(string, []byte) bool { return true }}
		p := s.faulty(&dynalimit.Options{OnUnavailable: dynalimit.Allow}, wire)
		p.acquire("u", inflight)
		wire.times(-1)
		p.acquire("u", dynalimit.Amounts{"inflight": 2, "rpm": 3})
		require.NoError(t, s.repo.DeleteLimits(t.Context(), own))
		s.peer(nil).acquire("u", inflight)
		wire.times(0)
		elapse(30 * time.Second)
		h := p.limiter.Health()
		assert.Equal(t, map[string]int64{"inflight": 2}, map[string]int64(h.Dropped))
		assert.Empty(t, h.Waiting)
		assert.Equal(t, int64(3000), s.stored("u", "rpm").Consumed)
	})
}

// A call that an outage's policy admitted ends as what it was counted as, though the limit is of another kind by now:
// slots come back, and tokens give back no slot of another call.
func TestAdmittedCallEndsUnderAnotherKind(t *testing.T) {
	buckets := []dynalimit.Limit{dynalimit.PerMinute("inflight", 100), dynalimit.PerMinute("rpm", 100)}
	for name, end := range map[string]func(ctx context.Context, l *dynalimit.Lease) error{
		"settle":         func(ctx context.Context, l *dynalimit.Lease) error { return l.Settle(ctx, nil) },
		"settle another": func(ctx context.Context, l *dynalimit.Lease) error { return l.Settle(ctx, dynalimit.Amounts{"rpm": 5}) },
		"roll back":      func(ctx context.Context, l *dynalimit.Lease) error { return l.Rollback(ctx) },
	} {
		for _, slotsFirst := range []bool{true, false} {
			withSlots(t, dynalimit.Concurrent("inflight", 4, time.Minute), func(t *testing.T, s *process) {
				own := admin.Scope{Entity: "u"}
				setKind := func(slots bool) {
					if slots {
						require.NoError(t, s.repo.DeleteLimits(t.Context(), own))
					} else {
						require.NoError(t, s.repo.SetLimits(t.Context(), own, buckets))
					}
					elapse(2 * time.Minute)
				}
				setKind(false)
				wire := &brokenWire{drop: true, match: func(string, []byte) bool { return true }}
				p := s.faulty(&dynalimit.Options{OnUnavailable: dynalimit.Allow}, wire)
				if slotsFirst {
					setKind(true)
				}
				p.acquire("u", dynalimit.Amounts{"rpm": 1}) // knows the kind
				wire.times(-1)
				admitted := p.acquire("u", inflight)
				require.True(t, admitted.Degraded())
				wire.times(0)
				elapse(10 * time.Second)
				setKind(!slotsFirst)
				require.NoError(t, admitted.Consume(t.Context(), dynalimit.Amounts{"rpm": 1})) // knows the other kind
				if slotsFirst {
					setKind(true)
				}
				p.acquire("u", inflight)
				require.NoError(t, end(t.Context(), admitted))
				elapse(3 * time.Minute)
				free, _ := s.slots()
				assert.Equal(t, int64(3), free, "%s, slots first: %t", name, slotsFirst)
			})
		}
	}
}

// A process that still has the configuration of before counts the slots that its calls take, also by Consume: it renews
// them, and gives them back.
func TestCallByAnOlderConfigurationKeepsItsSlot(t *testing.T) {
	withSlots(t, dynalimit.Concurrent("inflight", 4, time.Minute), func(t *testing.T, s *process) {
		own, old := admin.Scope{Entity: "u"}, s.peer(nil)
		require.NoError(t, s.repo.SetLimits(t.Context(), own, []dynalimit.Limit{dynalimit.PerMinute("inflight", 100), dynalimit.PerMinute("rpm", 100)}))
		tokens := old.acquire("u", inflight)
		elapse(10 * time.Second)
		require.NoError(t, s.repo.DeleteLimits(t.Context(), own))
		require.NoError(t, s.peer(nil).acquire("u", inflight).Settle(t.Context(), nil))
		require.NoError(t, tokens.Consume(t.Context(), inflight))
		require.NoError(t, tokens.Settle(t.Context(), dynalimit.Amounts{"rpm": 1}))
		free, _ := s.slots()
		assert.Equal(t, int64(4), free)
		call := old.acquire("u", inflight)
		elapse(3 * time.Minute)
		require.NoError(t, s.peer(nil).acquire("u", inflight).Settle(t.Context(), nil)) // frees the slots whose hold has run out
		free, _ = s.slots()
		assert.Equal(t, int64(3), free)
		require.NoError(t, call.Settle(t.Context(), nil))
		free, _ = s.slots()
		assert.Equal(t, int64(4), free)
	})
}

// A call of unknown buckets that was counted as tokens gives back no slot of another call, though the limit is one of
// calls in flight at its end.
func TestAdmittedCallOfUnknownBucketsEndsUnderAnotherKind(t *testing.T) {
	withSlots(t, dynalimit.Concurrent("inflight", 4, time.Minute), func(t *testing.T, s *process) {
		own := admin.Scope{Entity: "u"}
		require.NoError(t, s.repo.SetLimits(t.Context(), own, []dynalimit.Limit{dynalimit.PerMinute("inflight", 100), dynalimit.PerMinute("rpm", 100)}))
		wire := &brokenWire{drop: true, match: func(string, []byte) bool { return true }}
		p := s.faulty(&dynalimit.Options{OnUnavailable: dynalimit.Allow}, wire)
		wire.times(-1)
		admitted := p.acquire("u", inflight)
		wire.times(0)
		elapse(30 * time.Second) // its bucket is found and told
		require.NoError(t, s.repo.DeleteLimits(t.Context(), own))
		elapse(2 * time.Minute)
		p.acquire("u", inflight)
		require.NoError(t, admitted.Settle(t.Context(), nil))
		elapse(time.Minute)
		free, _ := s.slots()
		assert.Equal(t, int64(3), free)
	})
}

// A call of unknown buckets that a policy gives a further slot, once its bucket is known, gives both back.
func TestAdmittedCallOfUnknownBucketsConsumesAndEnds(t *testing.T) {
	withSlots(t, dynalimit.Concurrent("inflight", 4, time.Minute), func(t *testing.T, s *process) {
		wire := &brokenWire{drop: true, match: func(string, []byte) bool { return true }}
		p := s.faulty(&dynalimit.Options{OnUnavailable: dynalimit.Allow}, wire)
		wire.times(-1)
		admitted := p.acquire("u", inflight)
		wire.times(0)
		elapse(30 * time.Second)
		p.acquire("u", dynalimit.Amounts{"rpm": 1}) // knows the bucket
		wire.times(-1)
		require.NoError(t, admitted.Consume(t.Context(), inflight))
		wire.times(0)
		elapse(30 * time.Second)
		free, _ := s.slots()
		assert.Equal(t, int64(2), free)
		require.NoError(t, admitted.Settle(t.Context(), nil))
		elapse(30 * time.Second)
		free, _ = s.slots()
		assert.Equal(t, int64(4), free)
	})
}

// A call that an outage's policy admitted and that kept its slot for the longest time gives back no slot of another
// call at its late end, whether or not its bucket was known.
func TestAdmittedCallEndsAfterItsSlotLapsed(t *testing.T) {
	for _, known := range []bool{true, false} {
		withSlots(t, dynalimit.Concurrent("inflight", 2, 30*time.Second).WithLongest(2*time.Minute), func(t *testing.T, s *process) {
			wire := &brokenWire{drop: true, match: func(string, []byte) bool { return true }}
			p := s.faulty(&dynalimit.Options{OnUnavailable: dynalimit.Allow}, wire)
			if known {
				p.acquire("u", dynalimit.Amounts{"rpm": 1})
			}
			wire.times(-1)
			leaked := p.acquire("u", inflight)
			wire.times(0)
			elapse(90 * time.Second)
			p.acquire("u", inflight)
			elapse(50 * time.Second)
			require.NoError(t, leaked.Settle(t.Context(), nil))
			elapse(20 * time.Second)
			assert.Equal(t, inflight, p.limiter.Health().InFlight, known)
		})
	}
}

// A call of unknown buckets that was counted as a slot gives it back, though the limit is a bucket at its end.
func TestAdmittedSlotOfUnknownBucketsEndsAsTokens(t *testing.T) {
	for _, knows := range []bool{true, false} {
		withSlots(t, dynalimit.Concurrent("inflight", 4, time.Minute), func(t *testing.T, s *process) {
			own := admin.Scope{Entity: "u"}
			wire := &brokenWire{drop: true, match: func(string, []byte) bool { return true }}
			p := s.faulty(&dynalimit.Options{OnUnavailable: dynalimit.Allow}, wire)
			wire.times(-1)
			admitted := p.acquire("u", inflight)
			wire.times(0)
			elapse(30 * time.Second) // its bucket is found and told
			if knows {
				require.NoError(t, admitted.Consume(t.Context(), dynalimit.Amounts{"rpm": 1}))
			}
			require.NoError(t, s.repo.SetLimits(t.Context(), own, []dynalimit.Limit{dynalimit.PerMinute("inflight", 100), dynalimit.PerMinute("rpm", 100)}))
			elapse(2 * time.Minute)
			require.NoError(t, admitted.Settle(t.Context(), nil))
			require.NoError(t, s.repo.DeleteLimits(t.Context(), own))
			elapse(2 * time.Minute)
			require.NoError(t, p.acquire("u", inflight).Settle(t.Context(), nil))
			free, _ := s.slots()
			assert.Equal(t, int64(4), free, "knows its bucket: %t", knows)
		})
	}
}
