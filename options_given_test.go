package dynalimit_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
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

// teams makes records of parents that may spend so many requests a minute, and the same of groups.
func (s *process) teams(rpm int64, ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		s.limits(admin.Scope{Entity: id}, dynalimit.PerMinute("rpm", rpm))
		require.NoError(s.t, s.repo.CreateEntity(s.t.Context(), admin.Entity{ID: id}))
	}
}

// logged is another process, with what its limiter logs.
func (s *process) logged(opts *dynalimit.Options) (*process, *bytes.Buffer) {
	var log bytes.Buffer
	opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	return s.peer(opts), &log
}

var red, blue = dynalimit.WithParent("red"), dynalimit.WithParent("blue")

// TestGivenParentWhereTheRecordSaysNone: the parent of a call is the default of what the record does
// not say. A record with a parent, or one that is detached, wins.
func TestGivenParentWhereTheRecordSaysNone(t *testing.T) {
	for name, test := range map[string]struct {
		record  *schema.EntityRecord
		charged string
		differs bool
	}{
		"no record":                   {nil, "red", false},
		"a record with nothing in it": {&schema.EntityRecord{ID: "ann"}, "red", false},
		"the same parent":             {&schema.EntityRecord{ID: "ann", ParentID: "red"}, "red", false},
		"another parent":              {&schema.EntityRecord{ID: "ann", ParentID: "blue"}, "blue", true},
		"a detached parent":           {&schema.EntityRecord{ID: "ann", ParentID: "red", Detached: true}, "", true},
		"no parent on purpose":        {&schema.EntityRecord{ID: "ann", Detached: true}, "", true},
		"a record that is deleted":    {&schema.EntityRecord{ID: "ann", ParentID: "blue", Deleting: true}, "red", false},
	} {
		t.Run(name, func(t *testing.T) {
			first := memProcess(t, nil)
			first.teams(10, "red", "blue")
			if test.record != nil {
				first.enrols(*test.record)
			}
			s, log := first.logged(perMinute())
			for range 2 {
				held, want := holders(s.acquire("ann", dynalimit.Amounts{"rpm": 1}, red).Statuses()), []string{"ann rpm"}
				if test.charged != "" {
					want = append(want, test.charged+" rpm")
				}
				assert.Equal(t, want, held)
			}
			differs := 0
			if test.differs {
				differs = 1
			}
			assert.Equal(t, differs, strings.Count(log.String(), "another parent"), log)
		})
	}
}

// TestGivenParentThatIsRefused: before anything is read for ids that cannot be right, and for a parent
// without a record. One that is made elsewhere counts within a second.
func TestGivenParentThatIsRefused(t *testing.T) {
	s := memProcess(t, perMinute())
	for _, id := range []string{"", "ann", "a#b", strings.Repeat("x", 300)} {
		assert.Zero(t, s.used(func() {
			_, err := s.limiter.Acquire(t.Context(), "ann", model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithParent(id))
			requireInvalid(t, err, "WithParent")
		}).Requests(), id)
	}
	s.limits(admin.Scope{Entity: "red"}, dynalimit.PerMinute("rpm", 10))
	s.enrols(schema.EntityRecord{ID: "blue", Deleting: true})
	refused := func() {
		t.Helper()
		for _, team := range []dynalimit.AcquireOption{red, blue} {
			_, err := s.limiter.Acquire(t.Context(), "ann", model, dynalimit.Amounts{"rpm": 1}, team)
			requireInvalid(t, err, "WithParent")
			_, err = s.limiter.Check(t.Context(), "ann", model, nil, team)
			requireInvalid(t, err, "WithParent")
		}
	}
	refused()
	require.NoError(t, s.peer(nil).repo.CreateEntity(t.Context(), admin.Entity{ID: "red"}))
	assert.Zero(t, s.used(refused).Requests())
	assert.Nil(t, s.item("ann"))
	s.clock.advance(time.Second)
	assert.Len(t, s.acquire("ann", dynalimit.Amounts{"rpm": 1}, red).Statuses(), 2)
	_, err := dynalimit.New(s.repo.Repository, &dynalimit.Options{StrangersParent: "a#b"})
	requireInvalid(t, err, "options.StrangersParent")
	_, err = dynalimit.New(s.repo.Repository, &dynalimit.Options{Unrecorded: "perhaps"})
	requireInvalid(t, err, "options.Unrecorded")
}

// TestGivenParentAtTheTopOfAChain: a chain that the given parent makes deeper than 8 levels is refused,
// whatever is left out, and a cycle names the given parent.
func TestGivenParentAtTheTopOfAChain(t *testing.T) {
	s := memProcess(t, perMinute())
	s.chain(schema.MaxDepth, "")
	_, err := s.limiter.Acquire(t.Context(), "ann", model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithParent("level-0"))
	require.ErrorIs(t, err, dynalimit.ErrTooDeep)
	assert.Nil(t, s.item("ann"))
	s.limits(admin.Scope{Entity: "level-1"}, dynalimit.PerMinute("rpm", 10))
	assert.Len(t, s.acquire("ann", dynalimit.Amounts{"rpm": 1}, dynalimit.WithParent("level-1")).Statuses(), schema.MaxDepth)
	_, err = s.limiter.Acquire(t.Context(), "level-7", model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithParent("level-3"))
	assert.ErrorContains(t, requireInvalid(t, err, "WithParent"), "level-3")
	s.acquire("level-7", dynalimit.Amounts{"rpm": 1})
}

// TestGivenParentIsChargedWhereverARecordsIs: a lease, what it takes further, its corrections, Check and
// the groups of a resource.
func TestGivenParentIsChargedWhereverARecordsIs(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.ofGroup(model)
		s.teams(10, "red")
		s.limits(admin.Scope{Everyone: true, Resource: group}, dynalimit.PerMinute("rpm", 50))
		s.limits(admin.Scope{Entity: "red", Resource: group}, dynalimit.PerMinute("rpm", 5))
		want := []string{"ann rpm", "ann rpm", "red rpm", "red rpm"}
		lease := s.acquire("ann", dynalimit.Amounts{"rpm": 2}, red)
		assert.Equal(t, want, holders(lease.Statuses()))
		report, err := s.limiter.Check(t.Context(), "ann", model, nil, red)
		require.NoError(t, err)
		assert.EqualValues(t, 3, report.Available()["rpm"])
		require.NoError(t, lease.Consume(t.Context(), dynalimit.Amounts{"rpm": 1}))
		_ = s.denied(lease.Consume(t.Context(), dynalimit.Amounts{"rpm": 3}))
		require.NoError(t, s.repo.CreateEntity(t.Context(), admin.Entity{ID: "ann", Detached: true}))
		require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"rpm": 1}), "where it began")
		assert.EqualValues(t, 1*milli, s.storedOn("red", group, "rpm").Consumed)
		assert.EqualValues(t, 1*milli, s.stored("red", "rpm").Consumed)
		assert.EqualValues(t, 1*milli, s.stored("ann", "rpm").Passed)
	})
}

// TestGivenParentInAnOutage: its block holds however long the table is away, its policy decides, and
// what was admitted without any configuration is counted at it.
func TestGivenParentInAnOutage(t *testing.T) {
	virtual(t, &dynalimit.Options{OnUnavailable: dynalimit.Allow, Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 100)}}, func(t *testing.T, s *process) {
		s.teams(10, "red", "blue", "green")
		lease := s.acquire("ann", dynalimit.Amounts{"rpm": 1}, red)
		_, err := s.repo.SetConfig(t.Context(), admin.Scope{Entity: "blue"}, admin.LimitConfig{OnUnavailable: dynalimit.Refuse, Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)}, Version: admin.AnyVersion})
		require.NoError(t, err)
		s.acquire("bob", dynalimit.Amounts{"rpm": 1}, blue)
		s.says(schema.ConfigOwner{Entity: "red"}, blocked)
		sharedOf(s.repo).Told.Owners(schema.ConfigOwner{Entity: "red"})
		_, err = s.limiter.Acquire(t.Context(), "ann", model, dynalimit.Amounts{"rpm": 1}, red)
		isBlocked(t, err, "red", sources.EntityDefault)
		s.down(ddbmem.Fault{Drop: true})
		for range 3 {
			_, err = s.limiter.Acquire(t.Context(), "ann", model, dynalimit.Amounts{"rpm": 1}, red)
			isBlocked(t, err, "red", sources.EntityDefault)
			isBlocked(t, lease.Consume(t.Context(), dynalimit.Amounts{"rpm": 1}), "red", sources.EntityDefault)
			_, err = s.limiter.Acquire(t.Context(), "bob", model, dynalimit.Amounts{"rpm": 1}, blue)
			require.ErrorIs(t, err, dynalimit.ErrUnavailable)
			s.clock.advance(30 * time.Minute)
		}
		cold := s.acquire("cat", dynalimit.Amounts{"rpm": 3}, dynalimit.WithParent("green"))
		assert.True(t, cold.Degraded())
		dropped := s.acquire("dan", dynalimit.Amounts{"rpm": 2}, dynalimit.WithParent("green"))
		assert.True(t, dropped.Degraded())
		s.recovers()
		require.NoError(t, cold.Settle(t.Context(), dynalimit.Amounts{"rpm": 5}))
		s.recovers()
		assert.EqualValues(t, 7*milli, s.stored("green", "rpm").Consumed)
	})
}

// TestWaitAtAGivenParent: who waits for the bucket of a given parent stays in its line, and leaves it
// when a record says another parent.
func TestWaitAtAGivenParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		operator := liveProcess(t, memEngine(t), nil)
		operator.limits(admin.Scope{Everyone: true}, dynalimit.PerDay("rpm", 1000))
		operator.limits(admin.Scope{Entity: "red"}, dynalimit.PerDay("rpm", 100))
		require.NoError(t, operator.repo.CreateEntity(t.Context(), admin.Entity{ID: "red"}))
		require.NoError(t, operator.repo.CreateEntity(t.Context(), admin.Entity{ID: "blue"}))
		s := operator.peer(nil)
		s.acquire("bob", dynalimit.Amounts{"rpm": 100}, red)
		served := make(chan time.Time, 3)
		for range 3 {
			go func() {
				lease, err := s.limiter.Wait(t.Context(), "ann", model, dynalimit.Amounts{"rpm": 50}, red)
				if assert.NoError(t, err) {
					assert.Equal(t, []string{"ann rpm"}, holders(lease.Statuses()), "blue has no limits")
				}
				served <- time.Now()
			}()
		}
		elapse(time.Second)
		assert.Less(t, s.used(func() { elapse(5 * time.Minute) }).Requests(), int64(60))
		assert.Empty(t, served)
		require.NoError(t, operator.repo.CreateEntity(t.Context(), admin.Entity{ID: "ann", ParentID: "blue"}))
		left := time.Now()
		for range 3 {
			assert.LessOrEqual(t, (<-served).Sub(left), time.Minute+time.Second)
		}
		assert.EqualValues(t, 100*milli, operator.stored("red", "rpm").Consumed)
	})
}

// TestStrangersParent is charged where neither the record nor the call names a parent.
func TestStrangersParent(t *testing.T) {
	first := memProcess(t, nil)
	first.teams(10, "red", "blue")
	require.NoError(t, first.repo.CreateEntity(t.Context(), admin.Entity{ID: "lone", Detached: true}))
	opts := perMinute()
	opts.StrangersParent = "blue"
	opts.Prefetch = time.Second
	s := first.peer(opts)
	for _, test := range []struct {
		entity string
		opts   []dynalimit.AcquireOption
		want   []string
	}{
		{"ann", nil, []string{"ann rpm", "blue rpm"}},
		{"ann", nil, []string{"ann rpm", "blue rpm"}},
		{"ann", []dynalimit.AcquireOption{red}, []string{"ann rpm", "red rpm"}},
		{"ann", []dynalimit.AcquireOption{dynalimit.WithPlan("pro")}, []string{"ann rpm", "blue rpm"}},
		{"lone", nil, []string{"lone rpm"}},
		{"blue", nil, []string{"blue rpm"}},
	} {
		assert.Equal(t, test.want, holders(s.acquire(test.entity, dynalimit.Amounts{"rpm": 1}, test.opts...).Statuses()), test.entity)
	}
	report, err := s.limiter.Check(t.Context(), "cat", model, nil)
	require.NoError(t, err)
	assert.Less(t, report.Available()["rpm"], int64(10))
	require.NoError(t, s.repo.DeleteEntity(t.Context(), "blue"))
	s.clock.advance(2 * time.Minute)
	_, err = s.limiter.Acquire(t.Context(), "ann", model, dynalimit.Amounts{"rpm": 1})
	requireInvalid(t, err, "options.StrangersParent")
}

// signsUp makes a record in another process.
func (s *process) signsUp(e admin.Entity) {
	s.t.Helper()
	require.NoError(s.t, s.peer(nil).repo.CreateEntity(s.t.Context(), e))
}

// refusing is a process that refuses entities without a record.
func refusing(t *testing.T) *process {
	opts := perMinute()
	opts.Unrecorded = dynalimit.RefuseUnrecorded
	return memProcess(t, opts)
}

// unrecorded asks for one request of an entity that has no record, and returns how long to wait.
func (s *process) unrecorded(entity string) time.Duration {
	s.t.Helper()
	_, err := s.limiter.Acquire(s.t.Context(), entity, model, dynalimit.Amounts{"rpm": 1})
	require.ErrorIs(s.t, err, dynalimit.ErrUnrecorded)
	var e *dynalimit.UnrecordedError
	require.ErrorAs(s.t, err, &e)
	assert.Equal(s.t, entity, e.EntityID)
	wait, ok := dynalimit.RetryAfter(err)
	assert.Equal(s.t, e.RetryAfter, wait)
	assert.Equal(s.t, e.RetryAfter > 0, ok)
	return e.RetryAfter
}

// TestEntitiesWithoutARecordAreRefused: that there is none is believed for a second, and a refusal
// charges nothing. Who has a record or a source of its own is admitted, whatever its parents have.
func TestEntitiesWithoutARecordAreRefused(t *testing.T) {
	s := refusing(t)
	assert.Zero(t, s.unrecorded("ann"))
	s.signsUp(admin.Entity{ID: "ann", ParentID: "nobody"})
	assert.Zero(t, s.used(func() { assert.Zero(t, s.unrecorded("ann")) }).Requests())
	assert.Nil(t, s.item("ann"))
	s.clock.advance(time.Second)
	s.acquire("ann", dynalimit.Amounts{"rpm": 1})

	s.ofGroup(model)
	for id, at := range map[string]admin.Scope{
		"bob": {Entity: "bob"}, "cat": {Entity: "cat", Resource: model}, "dan": {Entity: "dan", Resource: group},
	} {
		assert.Zero(t, s.unrecorded(id))
		s.limits(at, dynalimit.PerMinute("rpm", 10))
		s.acquire(id, dynalimit.Amounts{"rpm": 1})
	}
	s.enrols(schema.EntityRecord{ID: "eve", Deleting: true})
	assert.Zero(t, s.unrecorded("eve"))
	_, err := s.limiter.Check(t.Context(), "eve", model, nil)
	require.ErrorIs(t, err, dynalimit.ErrUnrecorded)
}

// TestMadeUpEntitiesCostFewReads: at most 20 reads a second find no record, whether the ids are new or
// are asked for again and again.
func TestMadeUpEntitiesCostFewReads(t *testing.T) {
	s := refusing(t)
	s.signsUp(admin.Entity{ID: "ann"})
	s.acquire("ann", dynalimit.Amounts{"rpm": 1})
	for round := range 3 {
		s.clock.advance(time.Second)
		later := 0
		assert.EqualValues(t, 200, s.used(func() {
			for i := range 1000 {
				if s.unrecorded(fmt.Sprint("made-up-", round, "-", i)) > 0 {
					later++
				}
			}
		}).Requests())
		assert.Equal(t, 800, later)
		s.acquire("ann", dynalimit.Amounts{"rpm": 1})
	}
}

// TestMadeUpEntitiesAtOnceLockNobodyOut: after a burst of made-up ids who has a record waits for two
// seconds at most, and not at all while the table does not answer.
func TestMadeUpEntitiesAtOnceLockNobodyOut(t *testing.T) {
	virtual(t, &dynalimit.Options{Unrecorded: dynalimit.RefuseUnrecorded, OnUnavailable: dynalimit.Allow, Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)}}, func(t *testing.T, s *process) {
		require.NoError(t, s.repo.CreateEntity(t.Context(), admin.Entity{ID: "ann"}))
		require.NoError(t, s.repo.CreateEntity(t.Context(), admin.Entity{ID: "bob"}))
		s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 20 * time.Millisecond} })
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				_, _ = s.limiter.Acquire(t.Context(), fmt.Sprint("made-up-", i), model, dynalimit.Amounts{"rpm": 1})
			})
		}
		all.Wait()
		assert.Positive(t, s.unrecorded("ann"))
		s.clock.advance(2 * time.Second)
		s.acquire("ann", dynalimit.Amounts{"rpm": 1})
		for i := range 1000 {
			_, _ = s.limiter.Acquire(t.Context(), fmt.Sprint("more-", i), model, dynalimit.Amounts{"rpm": 1})
		}
		s.down(ddbmem.Fault{Drop: true})
		s.acquire("ann", dynalimit.Amounts{"rpm": 1}) // finds out
		lease, err := s.limiter.Acquire(t.Context(), "bob", model, dynalimit.Amounts{"rpm": 1})
		require.NoError(t, err)
		assert.True(t, lease.Degraded())
		s.recovers()
	})
}

// TestOutageIsNoMissingRecord: where the table does not answer, the policy decides, also of an entity
// that had no record before.
func TestOutageIsNoMissingRecord(t *testing.T) {
	for _, policy := range []dynalimit.UnavailablePolicy{dynalimit.Refuse, dynalimit.Allow} {
		virtual(t, &dynalimit.Options{Unrecorded: dynalimit.RefuseUnrecorded, OnUnavailable: policy, Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)}}, func(t *testing.T, s *process) {
			assert.Zero(t, s.unrecorded("ann"))
			s.clock.advance(2 * time.Second)
			s.down(ddbmem.Fault{Drop: true})
			for _, id := range []string{"ann", "bob"} {
				lease, err := s.limiter.Acquire(t.Context(), id, model, dynalimit.Amounts{"rpm": 1})
				require.NotErrorIs(t, err, dynalimit.ErrUnrecorded)
				assert.Equal(t, policy == dynalimit.Allow, lease.Degraded(), "%s: %v", id, err)
			}
			s.recovers()
		})
	}
}

// pro and free are plans that calls give.
var pro, free = dynalimit.WithPlan("pro"), dynalimit.WithPlan("free")

// plans is a process whose plans pro and free have so many requests a minute, and whose system has 50.
func plans(t *testing.T, opts *dynalimit.Options) *process {
	t.Helper()
	s := memProcess(t, opts)
	s.limits(admin.Scope{Everyone: true}, dynalimit.PerMinute("rpm", 50))
	s.limits(admin.Scope{Plan: "pro"}, dynalimit.PerMinute("rpm", 100))
	s.limits(admin.Scope{Plan: "free"}, dynalimit.PerMinute("rpm", 10))
	return s
}

func (s *process) burst(entity string, opts ...dynalimit.AcquireOption) int64 {
	s.t.Helper()
	return s.acquire(entity, dynalimit.Amounts{"rpm": 1}, opts...).Statuses()[0].Limit.Burst
}

// TestGivenPlanWhereTheRecordSaysNone: a record's plan wins; a bad name is refused before anything is
// read.
func TestGivenPlanWhereTheRecordSaysNone(t *testing.T) {
	s := plans(t, nil)
	for _, e := range []schema.EntityRecord{{ID: "named", Plan: "free"}, {ID: "none", Plan: "none"}, {ID: "empty"}, {ID: "gone", Plan: "free", Deleting: true}} {
		s.enrols(e)
	}
	for id, want := range map[string]int64{"nobody": 100, "empty": 100, "named": 10, "none": 50, "gone": 100} {
		p, log := s.logged(&dynalimit.Options{})
		assert.Equal(t, want, p.burst(id, pro), id)
		assert.Equal(t, want < 100, strings.Contains(log.String(), "the record wins"), id)
	}
	for _, name := range []string{"", "no plan"} {
		assert.Zero(t, s.used(func() {
			_, err := s.limiter.Acquire(t.Context(), "ann", model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithPlan(name))
			requireInvalid(t, err, "WithPlan")
		}).Requests())
	}
	s.ofGroup(model)
	s.limits(admin.Scope{Plan: "pro", Resource: group}, dynalimit.PerMinute("rpm", 70))
	assert.Len(t, s.acquire("nobody", dynalimit.Amounts{"rpm": 1}, pro).Statuses(), 2)
}

// TestGivenPlanIsReadOnceForAll: the items of a plan are shared by all entities, and a change of them is
// in force at once in the process that makes it, and within the TTL in others.
func TestGivenPlanIsReadOnceForAll(t *testing.T) {
	s := plans(t, nil)
	other := s.peer(nil)
	assert.EqualValues(t, 7, s.used(func() {
		for _, id := range []string{"ann", "bob", "cat"} {
			s.burst(id, pro)
		}
	}).Requests(), "a read and a write for each, and the plan")
	assert.EqualValues(t, 1, s.used(func() { s.burst("ann", pro) }).Requests())
	assert.EqualValues(t, 100, other.burst("ann", pro))
	s.clock.advance(2 * time.Second)
	s.limits(admin.Scope{Plan: "pro"}, dynalimit.PerMinute("rpm", 200))
	assert.EqualValues(t, 200, s.burst("ann", pro))
	assert.EqualValues(t, 200, s.burst("bob", pro))
	for range 4 {
		s.clock.advance(30 * time.Second)
		other.burst("ann", pro)
	}
	assert.EqualValues(t, 200, other.burst("ann", pro))
	assert.EqualValues(t, 200, s.burst("ann", pro))
	s.clock.advance(90 * time.Second)
	assert.EqualValues(t, 5, s.used(func() {
		for _, id := range []string{"bob", "cat"} {
			s.burst(id, pro)
		}
	}).Requests(), "a plan that has not changed is read once")
	s.clock.advance(40 * time.Second)
	s.burst("dan", pro)
	s.clock.advance(30 * time.Second)
	assert.EqualValues(t, 2, s.used(func() { s.burst("dan", pro) }).Requests(), "the plan and a write")

	s.clock.advance(2 * time.Minute)
	other.burst("eve", pro)
	s.clock.advance(40 * time.Second)
	other.burst("fay", pro)
	s.limits(admin.Scope{Plan: "pro"}, dynalimit.PerMinute("rpm", 300))
	s.clock.advance(30 * time.Second)
	assert.EqualValues(t, 300, other.burst("fay", pro), "the plan was read again, and what was made of it")
}

// TestMadeUpPlansPushOutNothing: a call that gives no plan finds its configuration still cached.
func TestMadeUpPlansPushOutNothing(t *testing.T) {
	first := plans(t, nil)
	repo := first.open(t, first.repo.table, &dynalimit.RepositoryOptions{Now: first.clock.now, ConfigCacheSize: 8})
	s := first.on(repo, nil)
	s.burst("ann")
	for i := range 100 {
		s.burst(fmt.Sprint("made-up-", i), dynalimit.WithPlan(fmt.Sprint("plan-", i)))
	}
	assert.EqualValues(t, 1, s.used(func() { s.burst("ann") }).Requests())
}

// TestTwoPlansOfOneEntity take turns: each goes by what the other wrote for a second. They read no
// configuration again, and the first such entity is logged with both names.
func TestTwoPlansOfOneEntity(t *testing.T) {
	first := plans(t, nil)
	var log bytes.Buffer
	repo := first.open(t, first.repo.table, &dynalimit.RepositoryOptions{Now: first.clock.now, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s := first.on(repo, nil)
	assert.EqualValues(t, 10, s.burst("ann", free))
	assert.EqualValues(t, 10, s.burst("ann", pro), "for a second")
	s.clock.advance(time.Second)
	assert.EqualValues(t, 100, s.burst("ann", pro))
	assert.EqualValues(t, 100, s.burst("ann", free))
	s.clock.advance(time.Second)
	assert.EqualValues(t, 10, s.burst("ann", free))
	assert.Equal(t, 1, strings.Count(log.String(), "two plans"), log.String())
	assert.Contains(t, log.String(), "plan=pro before=free")
	assert.EqualValues(t, 8, s.used(func() {
		for range 4 {
			s.burst("ann", pro)
			s.burst("ann", free)
			s.clock.advance(time.Second)
		}
	}).Requests(), "a write for each call, and no read")
}

// TestMemoryOfAnotherPlanDeniesNothing: a denial is remembered for calls under the limits that denied.
func TestMemoryOfAnotherPlanDeniesNothing(t *testing.T) {
	s := plans(t, nil)
	s.acquire("ann", dynalimit.Amounts{"rpm": 10}, free)
	for range 2 {
		s.deny("ann", dynalimit.Amounts{"rpm": 20}, free)
	}
	s.clock.advance(30 * time.Second)
	assert.Equal(t, 3*time.Second, s.deny("ann", dynalimit.Amounts{"rpm": 10}, pro).RetryAfter, "5 are there, and 100 a minute come")
	s.acquire("bob", dynalimit.Amounts{"rpm": 40})
	s.deny("bob", dynalimit.Amounts{"rpm": 20})
	s.acquire("bob", dynalimit.Amounts{"rpm": 10}, pro)
	s.clock.advance(2 * time.Second)
	assert.EqualValues(t, 10, s.deny("bob", dynalimit.Amounts{"rpm": 51}, free).Primary().Limit.Burst)
}

// TestGivenPlanInAnOutage: what is admitted without any configuration is counted under the plan.
func TestGivenPlanInAnOutage(t *testing.T) {
	virtual(t, &dynalimit.Options{OnUnavailable: dynalimit.Allow}, func(t *testing.T, s *process) {
		s.limits(admin.Scope{Plan: "pro"}, dynalimit.PerDay("rpm", 100))
		s.down(ddbmem.Fault{Drop: true})
		s.acquire("ann", dynalimit.Amounts{"rpm": 3}, pro)
		s.recovers()
		assert.EqualValues(t, 3*milli, s.stored("ann", "rpm").Consumed)
	})
}
