package dynalimit_test

import (
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

// raises stores a limit of 100 requests a minute for everybody, which a source of user-1's raises.
func (s *process) raises(by schema.ConfigOwner, capacity int64, until time.Time) {
	s.t.Helper()
	s.says(ofSystem, limited(dynalimit.Amounts{"rpm": 100}))
	s.says(by, schema.ConfigItem{Raises: []schema.ConfigRaise{{Name: "rpm", Capacity: capacity, PeriodSeconds: 60, Until: until.Unix()}}})
}

// TestRaiseEndsWithoutARequestOfItsOwn: a raise costs a call nothing, and its end no write: the call
// after it reads the configuration again, and its own write brings the limit without the raise.
func TestRaiseEndsWithoutARequestOfItsOwn(t *testing.T) {
	s := memProcess(t, nil)
	until := s.clock.now().Add(30 * time.Second)
	s.raises(ofEntityDefault, 300, until)
	for _, call := range []func(){
		func() { s.acquire("user-1", dynalimit.Amounts{"rpm": 150}) },
		func() { s.acquire("user-1", dynalimit.Amounts{"rpm": 1}) },
	} {
		m := s.used(call)
		assert.LessOrEqual(t, m.Requests(), int64(2))
		assert.EqualValues(t, 1, writes(m))
	}
	assert.EqualValues(t, 300_000, s.stored("user-1", "rpm").Burst)
	assert.NotZero(t, s.image("user-1").TTL, "a raise is no list of the entity's own")
	s.clock.advance(30*time.Second - time.Millisecond)
	s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
	assert.EqualValues(t, 300_000, s.stored("user-1", "rpm").Burst)
	s.clock.advance(time.Millisecond)
	m := s.used(func() { s.acquire("user-1", dynalimit.Amounts{"rpm": 1}) })
	assert.EqualValues(t, 1, writes(m))
	assert.EqualValues(t, 1, m.Operations["BatchGetItem"].Requests)
	assert.EqualValues(t, 100_000, s.stored("user-1", "rpm").Burst)
	m = s.used(func() { s.acquire("user-1", dynalimit.Amounts{"rpm": 1}) })
	assert.EqualValues(t, 1, m.Requests(), "what was read after the end is fresh")
	resolved, err := s.repo.ResolveLimits(t.Context(), "user-1", model)
	require.NoError(t, err)
	assert.Empty(t, resolved.Raised)
}

// TestClocksThatDifferAboutTheEndOfARaise: a process whose clock is behind goes by what another has
// brought to a bucket after the end, and neither of them brings its own in turn, nor reads for it.
func TestClocksThatDifferAboutTheEndOfARaise(t *testing.T) {
	for _, behind := range []time.Duration{900 * time.Millisecond, 10 * time.Second} {
		s := memProcess(t, nil)
		until := s.clock.now().Add(30 * time.Second)
		s.raises(ofEntityDefault, 300, until)
		late := newHandClock()
		late.advance(-behind)
		p := s.peer(nil, late)
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		p.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		s.clock.advance(30*time.Second + 100*time.Millisecond)
		late.advance(30*time.Second + 100*time.Millisecond)
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		require.EqualValues(t, 100_000, s.stored("user-1", "rpm").Burst)
		m := s.used(func() {
			for range 4 {
				p.acquire("user-1", dynalimit.Amounts{"rpm": 1})
				s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
				s.clock.advance(50 * time.Millisecond)
				late.advance(50 * time.Millisecond)
			}
			p.repo.InvalidateConfig("", "")
			p.acquire("user-1", dynalimit.Amounts{"rpm": 1}) // reads after it has seen the other's limit
			p.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		})
		assert.EqualValues(t, 100_000, s.stored("user-1", "rpm").Burst)
		assert.EqualValues(t, 1, m.Operations["BatchGetItem"].Requests, "behind by %v", behind)
		require.NoError(t, p.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 120)}))
		p.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		assert.EqualValues(t, 120_000, s.stored("user-1", "rpm").Burst, "another change reaches the bucket all the same")
	}
}

// TestRaiseEndsWhileReadsBringNoAnswer: while reads of the configuration are throttled, what the items say without the raise is known, so that a
// new bucket is made without it. It was read before the end, so that it is brought to no bucket.
func TestRaiseEndsWhileReadsBringNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		until := time.Now().Truncate(time.Second).Add(30 * time.Second)
		s.raises(ofPlanDefault, 300, until)
		for _, user := range []string{"user-1", "user-2"} {
			s.enrols(schema.EntityRecord{ID: user, Plan: "pro"})
			s.acquire(user, dynalimit.Amounts{"rpm": 1})
		}
		s.delete("user-2")
		s.repo.InvalidateConfig("user-1", model) // the next reading is later than the bucket's
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		s.db.SetFaults(func(q *ddbmem.Request) (f ddbmem.Fault) {
			if q.Operation == "BatchGetItem" {
				f.Error = &ddbmem.Error{Code: "ProvisionedThroughputExceededException"}
			}
			return f
		})
		elapse(10 * time.Minute)
		read := s.image("user-1").ConfigRead
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		assert.EqualValues(t, 300_000, s.stored("user-1", "rpm").Burst)
		assert.Equal(t, read, s.image("user-1").ConfigRead)
		s.acquire("user-2", dynalimit.Amounts{"rpm": 1})
		assert.EqualValues(t, 100_000, s.stored("user-2", "rpm").Burst)
		s.db.SetFaults(nil)
		elapse(time.Minute)
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		elapse(time.Second)
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		assert.EqualValues(t, 100_000, s.stored("user-1", "rpm").Burst)
	})
}

// TestRaiseEndsInMemory: neither the shortcut of a bucket nor tokens that were debited ahead outlive
// the raise under which they were made.
func TestRaiseEndsInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := prefetching(t, 1, &dynalimit.Options{Prefetch: 2 * time.Second})[0]
		until := time.Now().Truncate(time.Second).Add(10 * time.Second)
		s.raises(ofEntityDefault, 6000, until)
		served := func() bool {
			return s.used(func() { s.acquire("user-1", dynalimit.Amounts{"rpm": 1}) }).Requests() == 0
		}
		hits := 0
		for time.Until(until) > 20*time.Millisecond {
			if served() {
				hits++
			}
			elapse(10 * time.Millisecond)
		}
		require.Positive(t, hits)
		elapse(time.Until(until))
		assert.False(t, served())
		assert.EqualValues(t, 100, s.acquire("user-1", dynalimit.Amounts{"rpm": 1}).Statuses()[0].Limit.Capacity)
	})
}

// TestRaisesOfParentsAndOverlaps: a raise counts for who charges the bucket as a parent's too, and
// after the end of a raise the next one counts.
func TestRaisesOfParentsAndOverlaps(t *testing.T) {
	s := memProcess(t, nil)
	ctx, limits := t.Context(), admin.New(s.repo.Repository).Limits
	require.NoError(t, limits.Set(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 1000)}))
	require.NoError(t, limits.Set(ctx, admin.Scope{Entity: "team"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 5)}))
	entities := admin.New(s.repo.Repository).Entities
	require.NoError(t, entities.Create(ctx, admin.Entity{ID: "team"}))
	require.NoError(t, entities.Create(ctx, admin.Entity{ID: "ann", ParentID: "team"}))
	now := s.clock.now()
	require.NoError(t, limits.Raise(ctx, admin.Scope{Entity: "team"}, "rpm", 20, now.Add(20*time.Second)))
	require.NoError(t, limits.Raise(ctx, admin.Scope{Entity: "team", Resource: model}, "rpm", 10, now.Add(40*time.Second)))
	capacity := func() (capacity int64) {
		for _, status := range s.acquire("ann", dynalimit.Amounts{"rpm": 1}).Statuses() {
			if status.EntityID == "team" {
				assert.Equal(t, sources.EntityDefault, status.Source)
				capacity = status.Limit.Capacity
			}
		}
		return capacity
	}
	assert.EqualValues(t, 20, capacity())
	resolved, err := s.repo.ResolveLimits(ctx, "team", model)
	require.NoError(t, err)
	assert.Equal(t, []dynalimit.RaisedLimit{{Name: "rpm", Capacity: 5, Source: sources.EntityDefault, Until: now.Add(20 * time.Second).UTC()}}, resolved.Raised)
	s.clock.advance(20 * time.Second)
	assert.EqualValues(t, 10, capacity())
	s.clock.advance(20 * time.Second)
	assert.EqualValues(t, 5, capacity())
}
