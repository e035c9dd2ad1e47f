package dynalimit

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// The later form of a charge may meet tokens that hold part of the credit already,
// so the debt that an expiry covers is counted without any.
func TestLaterFormCountsOnNoCreditForItsDebt(t *testing.T) {
	const now = 1_000_000
	rate := bucket.Rate{Burst: 100 * milli, Amount: milli, Period: 1000}
	image := &schema.Image{
		Set: schema.NewLimitSets().Of([]string{"rpm"}), Fingerprint: []byte("12345678"), HasRefilled: true, Refilled: now - 10_000,
		TTL: (now + 150_000) / 1000, Limits: []schema.Stored{{Rate: rate, Tokens: -10 * milli}},
	}
	v := plan.NewView(image, &plan.Config{Fingerprint: []byte("12345678"), Limits: []plan.Limit{{Name: "rpm", Rate: rate}}}, plan.Current, now)
	charge := plan.Sums{{Name: "rpm", Amounts: bucket.Amounts{Adjust: 45 * milli}}}
	assert.Equal(t, plan.Spend, v.Plan(charge, plan.Rules{}).Kind, "10 tokens of debt less 10 of credit, and 45 more: 50 are covered")
	assert.Equal(t, plan.Claim, v.Plan(charge, plan.Rules{Later: true}).Kind, "the 10 may be in the tokens already")
}

// A refusal after a try that nobody answered says nothing about that try.
func TestRefusalAfterAnUnansweredTryIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, PerDay("rpm", 100))
		lease, err := l.Acquire(t.Context(), "u", "m", Amounts{"rpm": 10})
		require.NoError(t, err)
		for name, call := range map[string]func() error{
			"take": func() error {
				_, err := l.Acquire(t.Context(), "u", "m", Amounts{"rpm": 5})
				return err
			},
			"give-back": func() error { return lease.Adjust(t.Context(), Amounts{"rpm": -5}) },
		} {
			var tries atomic.Int32
			db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
				if q.Operation != "UpdateItem" {
					return ddbmem.Fault{}
				}
				if tries.Add(1) == 1 {
					return ddbmem.Fault{Lose: true}
				}
				return ddbmem.Fault{Error: &ddbmem.Error{Code: "ValidationException"}}
			})
			var unconfirmed *UnconfirmedError
			require.ErrorAs(t, call(), &unconfirmed, name)
			assert.False(t, unconfirmed.NotWritten, name)
			db.SetFaults(nil)
		}
	})
}

// An image that was seen later than now, for the clock went back, is not recent.
func TestMemoryOfTheFutureDeniesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		back := time.Duration(0)
		repo := e.repository(t, &RepositoryOptions{Now: func() time.Time { return time.Now().Add(-back) }})
		require.NoError(t, repo.SetSystemLimits(t.Context(), []Limit{PerDay("rpm", 100)}, nil))
		l, err := New(repo, nil)
		require.NoError(t, err)
		other := inSlot(t, e, repo.Table(), 1)
		lease, err := other.Acquire(t.Context(), "u", "m", Amounts{"rpm": 60})
		require.NoError(t, err)
		_, err = l.Acquire(t.Context(), "u", "m", Amounts{"rpm": 40})
		require.NoError(t, err)
		require.NoError(t, lease.Rollback(t.Context()))
		back = 10 * time.Second
		_, err = l.Acquire(t.Context(), "u", "m", Amounts{"rpm": 50})
		require.NoError(t, err)
	})
}

// Memory of a bucket under other limits than those in force says nothing: the
// wait is another.
func TestMemoryUnderOtherLimitsDeniesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		l, repo := family(t, e, nil)
		ctx := t.Context()
		require.NoError(t, repo.SetSystemLimits(ctx, []Limit{PerDay("rpm", 100)}, nil))
		_, err := l.Acquire(ctx, "org", "gpt-4", Amounts{"rpm": 100})
		require.NoError(t, err)
		require.NoError(t, repo.SetSystemLimits(ctx, []Limit{PerHour("rpm", 100)}, nil))
		_, err = l.Acquire(ctx, "org", "gpt-4", Amounts{"rpm": 100})
		wait, ok := RetryAfter(err)
		require.True(t, ok, "%v", err)
		require.LessOrEqual(t, wait, time.Hour)
	})
}

// After a refused write the next one carries its adjusts without takes, which might
// have it refused again.
func TestAdjustsGoAloneAfterARefusal(t *testing.T) {
	l, _ := waitLimiter(t, PerDay("rpm", 100))
	lane := l.lanes.of("u", "m")
	cfg := newBucketConfig([]Limit{PerDay("rpm", 100)}, LevelSystem, false, 0, 0)
	take, adjust := newTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 1}}, cfg), newAdjust(t.Context(), []plan.Signed{{Name: "rpm", Amount: 1}}, nil, cfg)
	lane.queue, lane.alone = []*op{take, adjust}, true
	b, ok := lane.next()
	require.True(t, ok)
	assert.Equal(t, []*op{adjust}, b.adjusts)
	assert.Empty(t, b.takes)
	lane.requeue(b.adjusts)
	b, _ = lane.next()
	assert.Equal(t, []*op{take}, b.takes, "and then together")
	assert.Equal(t, []*op{adjust}, b.adjusts)
}

// A write carries the takes of one configuration: others are decided under theirs.
func TestTakesOfOtherLimitsRideInTheNextWrite(t *testing.T) {
	l, _ := waitLimiter(t, PerDay("rpm", 100))
	lane := l.lanes.of("u", "m")
	one := newTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 1}}, newBucketConfig([]Limit{PerDay("rpm", 100)}, LevelSystem, false, 0, 0))
	two := newTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 1}}, newBucketConfig([]Limit{PerDay("rpm", 50)}, LevelSystem, false, 0, 0))
	lane.queue = []*op{one, two, one}
	b, ok := lane.next()
	require.True(t, ok)
	assert.Equal(t, []*op{one, one}, b.takes)
}

// A bucket that shows a newer configuration has this process read its own again at
// once: a limit that came with it can be asked for.
func TestNewerBucketRefreshesTheConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		l, repo := family(t, e, nil)
		ctx := t.Context()
		operator := e.open(t, repo.Table(), &RepositoryOptions{Now: time.Now})
		require.NoError(t, operator.SetSystemLimits(ctx, []Limit{PerHour("rpm", 100)}, nil))
		_, err := l.Acquire(ctx, "org", "gpt-4", Amounts{"rpm": 1})
		require.NoError(t, err)
		elapse(3 * time.Second)
		require.NoError(t, operator.SetSystemLimits(ctx, []Limit{PerHour("rpm", 100), PerHour("tpm", 100)}, nil))
		_, err = inSlot(t, e, repo.Table(), 1).Acquire(ctx, "org", "gpt-4", Amounts{"rpm": 1})
		require.NoError(t, err)
		_, err = l.Acquire(ctx, "org", "gpt-4", Amounts{"rpm": 1})
		require.NoError(t, err)
		_, err = l.Acquire(ctx, "org", "gpt-4", Amounts{"tpm": 1})
		require.NoError(t, err)
	})
}

// A take that does not fit the state that refused it is denied at the instant it
// was decided for, and not tried again with the refill of the round trip.
func TestRefusedTakeThatDoesNotFitIsTurnedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := waitLimiter(t, PerMinute("rpm", 100))
		lease, err := l.Acquire(t.Context(), "u", "m", Amounts{"rpm": 90})
		require.NoError(t, err)
		lane, cfg := l.lanes.of("u", "m"), lease.levels[0].cfg
		fits, large := newTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 10 * milli}}, cfg), newTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: 11 * milli}}, cfg)
		v := plan.NewView(lane.sight.image, cfg, plan.Current, l.nowMS())
		elapse(5 * time.Second) // the round trip
		again := lane.turnAway([]*op{large, fits}, v, answer{verdict: ddb.Refused, seen: true, image: lane.sight.image})
		assert.Equal(t, []*op{fits}, again)
		<-large.done
		assert.True(t, large.result.denied)
		assert.Equal(t, v.Now, large.result.now)
	})
}
