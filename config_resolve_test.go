package dynalimit_test

import (
	"maps"
	"slices"
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

// The owners of the sources for user-1, who is on the plan pro.
var (
	ofEntity        = schema.ConfigOwner{Entity: "user-1", Resource: model}
	ofEntityDefault = schema.ConfigOwner{Entity: "user-1"}
	ofPlan          = schema.ConfigOwner{Plan: "pro", Resource: model}
	ofPlanDefault   = schema.ConfigOwner{Plan: "pro"}
	ofResource      = schema.ConfigOwner{Resource: model}
	ofSystem        = schema.ConfigOwner{}
)

// ofSource are those owners by the name of their source.
var ofSource = map[sources.Source]schema.ConfigOwner{
	sources.Entity: ofEntity, sources.EntityDefault: ofEntityDefault, sources.Plan: ofPlan,
	sources.PlanDefault: ofPlanDefault, sources.Resource: ofResource, sources.System: ofSystem,
}

// says stores what a source says, as an administrator in another process does: nothing
// that is cached here is evicted.
func (s *process) says(o schema.ConfigOwner, c schema.ConfigItem) {
	s.t.Helper()
	c.Version = 1
	put(s.t, s.repo, c.Item(s.repo.keys, o, nil))
}

// madeBefore makes the table one that an older version made: nobody has said which kinds of limits
// clients have to know.
func (s *process) madeBefore() {
	s.t.Helper()
	record := s.storedItem(schema.VersionKey())
	delete(record, "kinds_min")
	put(s.t, s.repo, record)
}

// limited is what a source says that has these limits, in tokens a minute.
func limited(limits dynalimit.Amounts) schema.ConfigItem {
	var c schema.ConfigItem
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		n := limits[name]
		c.Limits = append(c.Limits, schema.ConfigLimit{Name: name, Capacity: n, Burst: n, RefillAmount: n, RefillPeriod: time.Minute})
	}
	return c
}

// enrols stores an entity's record, as another process does.
func (s *process) enrols(e schema.EntityRecord) {
	s.t.Helper()
	put(s.t, s.repo, e.Item(s.repo.keys, nil))
}

// onPlan is a process on whose table user-1 is on the plan pro.
func onPlan(t *testing.T, e *engine, opts *dynalimit.Options) *process {
	t.Helper()
	s := newProcess(t, e, opts)
	s.enrols(schema.EntityRecord{ID: "user-1", Plan: "pro"})
	return s
}

// A change of the plan's limits, or of the entity's plan, is in force within one TTL.
func TestPlanChangesAreInForceWithinOneTTL(t *testing.T) {
	for name, change := range map[string]func(s *process){
		"the plan's limits": func(s *process) { s.says(ofPlan, limited(dynalimit.Amounts{"rpm": 7})) },
		"the plan's default": func(s *process) {
			s.says(ofPlan, schema.ConfigItem{})
			s.says(ofPlanDefault, limited(dynalimit.Amounts{"rpm": 7}))
		},
		"the entity's plan": func(s *process) {
			s.says(schema.ConfigOwner{Plan: "free"}, limited(dynalimit.Amounts{"rpm": 7}))
			s.enrols(schema.EntityRecord{ID: "user-1", Plan: "free"})
		},
		"the plan is left": func(s *process) {
			s.says(ofSystem, limited(dynalimit.Amounts{"rpm": 7}))
			s.enrols(schema.EntityRecord{ID: "user-1"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := liveProcess(t, memEngine(t), nil)
				s.enrols(schema.EntityRecord{ID: "user-1", Plan: "pro"})
				s.says(ofPlan, limited(dynalimit.Amounts{"rpm": 100}))
				capacity := func() int64 { return s.acquire("user-1", dynalimit.Amounts{"rpm": 1}).Statuses()[0].Limit.Capacity }
				require.Equal(t, int64(100), capacity())
				elapse(time.Second)
				change(s)
				assert.Equal(t, int64(100), capacity(), "cached")
				elapse(time.Minute)
				assert.Equal(t, int64(7), capacity())
			})
		})
	}
}

// A read that had the old plan before it was changed is not cached.
func TestPlanReadBegunBeforeAnEvictionIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		s.enrols(schema.EntityRecord{ID: "user-1", Plan: "pro"})
		s.says(ofPlan, limited(dynalimit.Amounts{"rpm": 100}))
		s.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			if q.Operation == "BatchGetItem" {
				return ddbmem.Fault{After: time.Second}
			}
			return ddbmem.Fault{}
		})
		read := make(chan *resolved)
		go func() {
			cfg, _ := s.repo.config(t.Context(), "user-1", model)
			read <- cfg
		}()
		elapse(1500 * time.Millisecond) // the plan's items have been read, and are on their way
		s.db.SetFaults(nil)
		s.says(ofPlan, limited(dynalimit.Amounts{"rpm": 7}))
		sharedOf(s.repo).Told.Owners(ofPlan)
		after, err := s.repo.config(t.Context(), "user-1", model)
		require.NoError(t, err)
		assert.Equal(t, int64(7), after.limits[0].Capacity, "it does not share the old read")
		assert.Equal(t, int64(100), (<-read).limits[0].Capacity)
		known, err := s.repo.config(t.Context(), "user-1", model)
		require.NoError(t, err)
		assert.False(t, known.Read)
		assert.Equal(t, after.limits, known.limits)
	})
}

func TestPlanThatCannotBeAName(t *testing.T) {
	s := memProcess(t, perMinute())
	s.enrols(schema.EntityRecord{ID: "user-1", Plan: "no#plan"})
	_, err := s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})
	requireInvalid(t, err, "plan of the entity's record")
}

func TestPlanEvictionForgetsWhatWasMadeOfIt(t *testing.T) {
	s := memProcess(t, perMinute())
	for entity, plan := range map[string]string{"a": "pro", "b": "pro", "c": "free", "d": ""} {
		s.enrols(schema.EntityRecord{ID: entity, Plan: plan})
	}
	cached := func() (keys []string) { // and reads what was not
		for _, entity := range []string{"a", "b", "c", "d"} {
			for _, resource := range []string{model, "other"} {
				c, err := s.repo.config(t.Context(), entity, resource)
				require.NoError(t, err)
				if !c.Read {
					keys = append(keys, entity+" "+resource)
				}
			}
		}
		return keys
	}
	cached()
	require.Len(t, cached(), 8)
	sharedOf(s.repo).Told.Owners(schema.ConfigOwner{Plan: "pro", Resource: model})
	assert.Equal(t, []string{"a other", "b other", "c gpt-4", "c other", "d gpt-4", "d other"}, cached())
	sharedOf(s.repo).Told.Owners(schema.ConfigOwner{Plan: "pro"})
	assert.Equal(t, []string{"c gpt-4", "c other", "d gpt-4", "d other"}, cached())
	sharedOf(s.repo).Told.Owners(schema.ConfigOwner{Plan: "free", Resource: "other"}, schema.ConfigOwner{Entity: "d", Resource: model}, schema.ConfigOwner{Entity: "c", Resource: "third"})
	assert.Equal(t, []string{"a gpt-4", "a other", "b gpt-4", "b other", "c gpt-4", "d other"}, cached(), "many owners at once")
	sharedOf(s.repo).Told.Owners(schema.ConfigOwner{Resource: "other"}, schema.ConfigOwner{Entity: "a"})
	assert.Equal(t, []string{"b gpt-4", "c gpt-4", "d gpt-4"}, cached())
	sharedOf(s.repo).Told.Owners(schema.ConfigOwner{})
	assert.Empty(t, cached())
}

// The policy is that of the most specific source that has one; a call's own comes first.
func TestPolicyOfTheMostSpecificSource(t *testing.T) {
	for _, source := range []sources.Source{sources.System, sources.Resource, sources.PlanDefault, sources.Plan, sources.EntityDefault, sources.Entity} {
		t.Run(string(source), func(t *testing.T) {
			virtual(t, &dynalimit.Options{OnUnavailable: dynalimit.Refuse}, func(t *testing.T, s *process) {
				s.enrols(schema.EntityRecord{ID: "user-1", Plan: "pro"})
				s.says(ofSystem, schema.ConfigItem{OnUnavailable: "block", Limits: limited(dynalimit.Amounts{"rpm": 10}).Limits})
				c := schema.ConfigItem{OnUnavailable: "allow"}
				if source == sources.System {
					c.Limits = limited(dynalimit.Amounts{"rpm": 10}).Limits
				}
				s.says(ofSource[source], c)
				s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
				report, err := s.limiter.Check(t.Context(), "user-1", model, nil)
				require.NoError(t, err)
				assert.Equal(t, dynalimit.Allow, report.OnUnavailable)
				s.down(ddbmem.Fault{Drop: true})
				for range 3 { // at first the bucket does not answer, then the table is known not to
					assert.True(t, s.acquire("user-1", dynalimit.Amounts{"rpm": 1}).Degraded())
					elapse(5 * time.Second)
				}
				require.True(t, s.limiter.Health().Open)
				_, err = s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1}, dynalimit.WithOnUnavailable(dynalimit.Refuse))
				require.ErrorIs(t, err, dynalimit.ErrUnavailable)
				assert.Equal(t, source == sources.System, s.limiter.Health().Ready, "Ready is about who has no policy of its own")
				s.recovers()
			})
		})
	}
}

func TestOverrideReplacesAndAddsButNeverRemoves(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true, Resource: model}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100), dynalimit.PerMinute("tpm", 1000)}))
		s.acquire("user-1", dynalimit.Amounts{"rpm": 10, "tpm": 100})
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "usd": 3}, dynalimit.WithLimits(dynalimit.PerMinute("rpm", 50), dynalimit.PerDay("usd", 5)))
		statuses := lease.Statuses()
		require.Len(t, statuses, 2)
		assert.Equal(t, dynalimit.PerMinute("rpm", 50), statuses[0].Limit)
		assert.Equal(t, sources.Override, statuses[0].Source)
		assert.Equal(t, int64(49), statuses[0].Remaining, "a cut clamps")
		assert.Equal(t, int64(2), statuses[1].Remaining, "a new limit starts full")
		assert.Equal(t, int64(900), s.level("user-1", "tpm"), "what it does not name stays")
		assert.Equal(t, sources.Resource, s.acquire("user-1", dynalimit.Amounts{"tpm": 1}, dynalimit.WithLimits(dynalimit.PerMinute("rpm", 50), dynalimit.PerDay("usd", 5))).Statuses()[0].Source)
		assert.ErrorIs(t, s.deny("user-1", dynalimit.Amounts{"rpm": 51}, dynalimit.WithLimits(dynalimit.PerMinute("rpm", 50), dynalimit.PerDay("usd", 5))), dynalimit.ErrExceedsBurst)
	})
}

func TestConfigRequests(t *testing.T) {
	e := memEngine(t)
	require.NoError(t, e.open(t, "limits", nil).CreateTable(t.Context()))
	wire := record(e.db)
	r, err := openRepository(e.client(wire.Through), "limits", &dynalimit.RepositoryOptions{Principal: tester, Namespace: "eu"})
	require.NoError(t, err)
	before := e.db.Meter()
	_, err = r.config(t.Context(), "user-1", "gpt-4")
	require.NoError(t, err)
	assert.Equal(t, int64(1), e.db.Meter().Sub(before).Requests())
	assertGolden(t, "config_cold", wire.Take())
	_, err = r.rereadConfig(t.Context(), "user-1", schema.DefaultResource)
	require.NoError(t, err)
	assertGolden(t, "config_reread_default", wire.Take())
}
