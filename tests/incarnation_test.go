package tests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/inside"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// waysOfGoing are the ways in which a bucket goes.
var waysOfGoing = map[string]func(s *process, entity string){
	"deleted": func(s *process, entity string) { require.NoError(s.t, s.repo.DeleteEntity(s.t.Context(), entity)) },
	"expired": (*process).delete,
}

// What a lease took from a bucket that is gone is not given back to the one that
// was made after it, which began full.
func TestGiveBackGoesToTheBucketThatWasTakenFrom(t *testing.T) {
	for way, remove := range waysOfGoing {
		for ending, end := range map[string]func(s *process, lease *dynalimit.Lease) error{
			"rollback": func(s *process, lease *dynalimit.Lease) error { return lease.Rollback(s.t.Context()) },
			"settle": func(s *process, lease *dynalimit.Lease) error {
				return lease.Settle(s.t.Context(), dynalimit.Amounts{"tpm": 10})
			},
			"adjust": func(s *process, lease *dynalimit.Lease) error {
				return lease.Adjust(s.t.Context(), dynalimit.Amounts{"tpm": -80})
			},
		} {
			for _, aware := range []bool{false, true} {
				t.Run(way+" "+ending, func(t *testing.T) {
					testEngines(t, func(t *testing.T, e *engine) {
						s := newProcess(t, e, perDay(100))
						other := s.peer(perDay(100))
						lease := s.acquire("u", dynalimit.Amounts{"tpm": 90})
						remove(s, "u")
						other.acquire("u", dynalimit.Amounts{"tpm": 60})
						if aware {
							s.acquire("u", dynalimit.Amounts{"tpm": 10})
							other.acquire("u", dynalimit.Amounts{"tpm": 30})
						} else {
							other.acquire("u", dynalimit.Amounts{"tpm": 40})
						}
						require.NoError(t, end(s, lease))
						assert.Zero(t, s.level("u", "tpm"), "all of the new bucket's tokens are taken")
						assert.Equal(t, int64(100_000), s.stored("u", "tpm").Consumed)
					})
				})
			}
		}
	}
}

// A lease that took from both gives back to each what it took there, the newest
// first.
func TestLeaseOfTwoBuckets(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perDay(100))
		lease := s.acquire("u", dynalimit.Amounts{"tpm": 50})
		s.delete("u")
		s.peer(perDay(100)).acquire("u", dynalimit.Amounts{"tpm": 60})
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 20}))
		require.Equal(t, int64(20), s.level("u", "tpm"))
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": -5}))
		assert.Equal(t, int64(25), s.level("u", "tpm"))
		require.NoError(t, lease.Consume(t.Context(), dynalimit.Amounts{"tpm": 10}))
		assert.Equal(t, int64(15), s.level("u", "tpm"))
		assert.Equal(t, dynalimit.Amounts{"tpm": 75}, lease.Consumed())
		require.NoError(t, lease.Rollback(t.Context()))
		assert.Equal(t, int64(40), s.level("u", "tpm"), "25 went back, 50 were gone with the first bucket")
		assert.Empty(t, lease.Consumed()["tpm"])
	})
}

// backTo gives one token back to an incarnation of u's bucket.
func (s *process) backTo(incarnation []byte) *lane.Op {
	cfg := configOf(s.limiter.own)
	return lane.NewAdjust(s.t.Context(), []plan.Signed{{Name: "tpm", Amount: -1000}}, incarnation, cfg)
}

// A process that does not know the bucket gives back to several incarnations of
// it: each gets its own.
func TestGiveBacksToSeveralBuckets(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perDay(100))
		s.acquire("u", dynalimit.Amounts{"tpm": 50})
		l := s.peer(perDay(100)).limiter.lanes.Of("u", model)
		is, was := s.image("u").Incarnation, []byte("another's")
		require.NotEmpty(t, is)
		ops := []*lane.Op{s.backTo(is), s.backTo(was), s.backTo(nil), s.backTo(is)}
		l.Submit(ops...)
		for _, o := range ops {
			<-o.Done
			require.NoError(t, o.Result.Err)
		}
		assert.Equal(t, int64(52), s.level("u", "tpm"))
	})
}

// A charge whose answer is late may have met a bucket that was made meanwhile: what it took
// there is given back there, but if the lease has taken from another one since.
func TestLateChargeOfANewBucket(t *testing.T) {
	for name, since := range map[string]bool{"nothing taken since": false, "taken since": true} {
		t.Run(name, func(t *testing.T) {
			virtual(t, &dynalimit.Options{Limits: perDay(100).Limits, CleanupTimeout: 100 * time.Millisecond}, func(t *testing.T, s *process) {
				lease := s.acquire("u", dynalimit.Amounts{"tpm": 1})
				s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 200 * time.Millisecond} })
				requireUnconfirmed(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 50}), dynalimit.Amounts{"tpm": 50})
				elapse(50 * time.Millisecond) // its second try is under way
				s.db.SetFaults(nil)
				s.delete("u")
				s.peer(perDay(100)).acquire("u", dynalimit.Amounts{"tpm": 7})
				elapse(time.Second)
				require.Equal(t, int64(57_000), s.stored("u", "tpm").Consumed)
				doubt := s.limiter.Health().Doubt["tpm"]
				left := int64(7_000)
				if since {
					*inside.Levels(lease)[0].Incarnation = []byte("another's")
					left += 50_000
				}
				require.NoError(t, lease.Rollback(t.Context()))
				assert.Equal(t, left, s.stored("u", "tpm").Consumed)
				assert.Equal(t, left-7_000, (s.limiter.Health().Doubt["tpm"]-doubt)*milli)
			})
		})
	}
}
