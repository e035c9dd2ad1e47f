package dynalimit

import (
	"bytes"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/levels"
)

// The owners of the levels for user-1, who is on the plan pro.
var (
	ofEntity        = schema.ConfigOwner{Entity: "user-1", Resource: model}
	ofEntityDefault = schema.ConfigOwner{Entity: "user-1"}
	ofPlan          = schema.ConfigOwner{Plan: "pro", Resource: model}
	ofPlanDefault   = schema.ConfigOwner{Plan: "pro"}
	ofResource      = schema.ConfigOwner{Resource: model}
	ofSystem        = schema.ConfigOwner{}
)

// ofLevel are those owners by the name of their level.
var ofLevel = map[levels.Level]schema.ConfigOwner{
	levels.Entity: ofEntity, levels.EntityDefault: ofEntityDefault, levels.Plan: ofPlan,
	levels.PlanDefault: ofPlanDefault, levels.Resource: ofResource, levels.System: ofSystem,
}

// says stores what a level says, as an administrator in another process does: nothing
// that is cached here is evicted.
func (s *process) says(o schema.ConfigOwner, c schema.ConfigItem) {
	s.t.Helper()
	c.Version = 1
	put(s.t, s.repo, c.Item(s.repo.keys, o, nil))
}

// limited is what a level says that has these limits, in tokens a minute.
func limited(limits Amounts) schema.ConfigItem {
	var c schema.ConfigItem
	for _, name := range limits.names() {
		n := limits[name]
		c.Limits = append(c.Limits, schema.ConfigLimit{Name: name, Capacity: n, Burst: n, Amount: n, PeriodSeconds: 60})
	}
	return c
}

// enrols stores an entity's record, as another process does.
func (s *process) enrols(e schema.EntityRecord) {
	s.t.Helper()
	put(s.t, s.repo, e.Item(s.repo.keys, nil))
}

// onPlan is a process on whose table user-1 is on the plan pro.
func onPlan(t *testing.T, e *engine, opts *Options) *process {
	t.Helper()
	s := newProcess(t, e, opts)
	s.enrols(schema.EntityRecord{ID: "user-1", Plan: "pro"})
	return s
}

// Each level wins over those before it, and a plan's buckets expire as a resource's do.
func TestPlanAppliesBetweenTheEntityAndTheResource(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := onPlan(t, e, &Options{Limits: []Limit{PerMinute("rpm", 10)}})
		for i, level := range []levels.Level{levels.System, levels.Resource, levels.PlanDefault, levels.Plan, levels.EntityDefault, levels.Entity} {
			s.says(ofLevel[level], limited(Amounts{"rpm": int64(20 + i)}))
			lease := s.peer(nil).acquire("user-1", Amounts{"rpm": 1})
			require.Len(t, lease.Statuses(), 1)
			status := lease.Statuses()[0]
			assert.Equal(t, level, status.Level)
			assert.Equal(t, int64(20+i), status.Limit.Capacity)
			own := level == levels.Entity || level == levels.EntityDefault
			assert.Equal(t, own, s.item("user-1")["ttl"] == nil, level)
		}
		assert.Equal(t, levels.Resource, s.peer(nil).acquire("user-2", Amounts{"rpm": 1}).Statuses()[0].Level, "who is on no plan")
	})
}

func TestPlanThatSaysNothing(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := onPlan(t, e, perMinute())
		assert.Equal(t, levels.Options, s.acquire("user-1", Amounts{"rpm": 1}).Statuses()[0].Level)
	})
}

// A plan is one round trip more when cold, and nothing when warm.
func TestPlanRequests(t *testing.T) {
	s := newScene(t, nil)
	s.enrols(schema.EntityRecord{ID: "user-1", Plan: "pro"})
	s.says(ofPlan, limited(Amounts{"rpm": 100}))
	s.wire.Take()
	s.acquire("user-1", Amounts{"rpm": 60})
	cold := s.wire.Take()
	require.Len(t, cold, 3)
	assertGolden(t, "acquire_cold_plan", cold)
	s.acquire("user-1", Amounts{"rpm": 1})
	assert.Len(t, s.wire.Take(), 1)
	s.deny("user-1", Amounts{"rpm": 100})
	assert.Empty(t, s.wire.Take())

	_, err := s.repo.rereadConfig(t.Context(), "user-1", model)
	require.NoError(t, err)
	assertGolden(t, "config_reread_plan", s.wire.Take())
	s.acquire("user-2", Amounts{"rpm": 1}, WithLimits(PerMinute("rpm", 5)))
	assert.Len(t, s.wire.Take(), 2, "who is on no plan pays for none")
}

// A change of the plan's limits, or of the entity's plan, is in force within one TTL.
func TestPlanChangesAreInForceWithinOneTTL(t *testing.T) {
	for name, change := range map[string]func(s *process){
		"the plan's limits": func(s *process) { s.says(ofPlan, limited(Amounts{"rpm": 7})) },
		"the plan's default": func(s *process) {
			s.says(ofPlan, schema.ConfigItem{})
			s.says(ofPlanDefault, limited(Amounts{"rpm": 7}))
		},
		"the entity's plan": func(s *process) {
			s.says(schema.ConfigOwner{Plan: "free"}, limited(Amounts{"rpm": 7}))
			s.enrols(schema.EntityRecord{ID: "user-1", Plan: "free"})
		},
		"the plan is left": func(s *process) {
			s.says(ofSystem, limited(Amounts{"rpm": 7}))
			s.enrols(schema.EntityRecord{ID: "user-1"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := liveProcess(t, memEngine(t), nil)
				s.enrols(schema.EntityRecord{ID: "user-1", Plan: "pro"})
				s.says(ofPlan, limited(Amounts{"rpm": 100}))
				capacity := func() int64 { return s.acquire("user-1", Amounts{"rpm": 1}).Statuses()[0].Limit.Capacity }
				require.Equal(t, int64(100), capacity())
				elapse(time.Second)
				change(s)
				assert.Equal(t, int64(100), capacity(), "cached")
				elapse(s.repo.configs.ttl())
				assert.Equal(t, int64(7), capacity())
			})
		})
	}
}

// What was cached of a plan is as old as the entity's record, which is read first.
func TestPlanIsAsOldAsItsOldestPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		s.enrols(schema.EntityRecord{ID: "user-1", Plan: "pro"})
		s.says(ofPlan, limited(Amounts{"rpm": 100}))
		s.slowly(100*time.Millisecond, 100*time.Millisecond)
		began := time.Now()
		cfg, _, _, err := s.repo.config(t.Context(), "user-1", model, time.Time{})
		require.NoError(t, err)
		assert.Equal(t, 400*time.Millisecond, time.Since(began), "two round trips")
		assert.Equal(t, began.UnixMilli(), cfg.readAt)
		elapse(s.repo.configs.ttl() - 400*time.Millisecond)
		assert.Nil(t, s.repo.known("user-1", model))
	})
}

func TestPlanEvictionForgetsWhatWasMadeOfIt(t *testing.T) {
	s := memProcess(t, perMinute())
	for entity, plan := range map[string]string{"a": "pro", "b": "pro", "c": "free", "d": ""} {
		s.enrols(schema.EntityRecord{ID: entity, Plan: plan})
		for _, resource := range []string{model, "other"} {
			_, _, _, err := s.repo.config(t.Context(), entity, resource, time.Time{})
			require.NoError(t, err)
		}
	}
	cached := func() (keys []string) {
		for _, entity := range []string{"a", "b", "c", "d"} {
			for _, resource := range []string{model, "other"} {
				if s.repo.known(entity, resource) != nil {
					keys = append(keys, entity+" "+resource)
				}
			}
		}
		return keys
	}
	require.Len(t, cached(), 8)
	s.repo.evictConfig(schema.ConfigOwner{Plan: "pro", Resource: model})
	assert.Equal(t, []string{"a other", "b other", "c gpt-4", "c other", "d gpt-4", "d other"}, cached())
	s.repo.evictConfig(schema.ConfigOwner{Plan: "pro"})
	assert.Equal(t, []string{"c gpt-4", "c other", "d gpt-4", "d other"}, cached())
	s.repo.evictConfig(schema.ConfigOwner{Plan: "pro"})
	assert.Equal(t, []string{"c gpt-4", "c other", "d gpt-4", "d other"}, cached())
	s.repo.evictConfig(schema.ConfigOwner{Plan: "free", Resource: "other"}, schema.ConfigOwner{Entity: "d", Resource: model}, schema.ConfigOwner{Entity: "c", Resource: "third"})
	assert.Equal(t, []string{"c gpt-4", "d other"}, cached(), "many owners at once")
	s.repo.evictConfig(schema.ConfigOwner{Resource: "other"}, schema.ConfigOwner{Entity: "a"})
	assert.Equal(t, []string{"c gpt-4"}, cached())
	s.repo.evictConfig(schema.ConfigOwner{})
	assert.Empty(t, cached())
}

// A read that had the old plan before it was changed is not cached.
func TestPlanReadBegunBeforeAnEvictionIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		s.enrols(schema.EntityRecord{ID: "user-1", Plan: "pro"})
		s.says(ofPlan, limited(Amounts{"rpm": 100}))
		s.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			if q.Operation == "BatchGetItem" {
				return ddbmem.Fault{After: time.Second}
			}
			return ddbmem.Fault{}
		})
		read := make(chan *resolvedConfig)
		go func() {
			cfg, _, _, _ := s.repo.config(t.Context(), "user-1", model, time.Time{})
			read <- cfg
		}()
		elapse(1500 * time.Millisecond) // the plan's items have been read, and are on their way
		s.db.SetFaults(nil)
		s.says(ofPlan, limited(Amounts{"rpm": 7}))
		s.repo.evictConfig(ofPlan)
		after, _, _, err := s.repo.config(t.Context(), "user-1", model, time.Time{})
		require.NoError(t, err)
		assert.Equal(t, int64(7), after.limits[0].Capacity, "it does not share the old read")
		assert.Equal(t, int64(100), (<-read).limits[0].Capacity)
		assert.Same(t, after, s.repo.known("user-1", model))
	})
}

func TestPlanIsNotInherited(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.enrols(schema.EntityRecord{ID: "key", ParentID: "org", Cascade: true})
		s.enrols(schema.EntityRecord{ID: "org", Plan: "pro"})
		s.says(ofPlanDefault, limited(Amounts{"rpm": 1000}))
		won := map[string]levels.Level{}
		for _, status := range s.acquire("key", Amounts{"rpm": 1}).Statuses() {
			won[status.EntityID] = status.Level
		}
		assert.Equal(t, map[string]levels.Level{"key": levels.Options, "org": levels.PlanDefault}, won)
	})
}

func TestPlanThatCannotBeAName(t *testing.T) {
	s := memProcess(t, perMinute())
	s.enrols(schema.EntityRecord{ID: "user-1", Plan: "no#plan"})
	_, err := s.limiter.Acquire(t.Context(), "user-1", model, Amounts{"rpm": 1})
	requireInvalid(t, err, "plan of the entity's record")
}

func TestPlanLevelsAsText(t *testing.T) {
	data, err := json.Marshal(LimitStatus{Level: levels.PlanDefault})
	require.NoError(t, err)
	assert.Contains(t, string(data), `"Level":"plan_default"`)
	var back LimitStatus
	require.NoError(t, json.Unmarshal(data, &back))
	assert.Equal(t, levels.PlanDefault, back.Level)
}

// A parent that is changed, added or removed is charged, or not, within one TTL.
func TestParentChangesAreInForceWithinOneTTL(t *testing.T) {
	inFamily(t, func(t *testing.T, s *process) {
		s.says(ofSystem, limited(Amounts{"rpm": 100}))
		charged := func() (ids []string) {
			for _, status := range s.acquire("key", Amounts{"rpm": 1}).Statuses() {
				ids = append(ids, status.EntityID)
			}
			return ids
		}
		require.Equal(t, []string{"key", "org"}, charged())
		for _, change := range []struct {
			record schema.EntityRecord
			want   []string
		}{
			{schema.EntityRecord{ID: "key", ParentID: "other", Cascade: true}, []string{"key", "other"}},
			{schema.EntityRecord{ID: "key", ParentID: "other"}, []string{"key"}},
			{schema.EntityRecord{ID: "key", ParentID: "org", Cascade: true, Plan: "pro"}, []string{"key", "org"}},
		} {
			s.enrols(change.record)
			elapse(s.repo.configs.ttl())
			assert.Equal(t, change.want, charged())
		}
	})
}

// A plan that is throttled is an error, never "no limits of the plan".
func TestPlanIsReadWholeOrNotAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		s.enrols(schema.EntityRecord{ID: "user-1", Plan: "pro"})
		s.says(ofPlan, limited(Amounts{"rpm": 7}))
		s.says(ofSystem, limited(Amounts{"rpm": 1000}))
		ofPlanAlone := func(q *ddbmem.Request) bool {
			return q.Operation == "BatchGetItem" && bytes.Contains(q.Body, []byte("PLAN#pro"))
		}
		s.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			if ofPlanAlone(q) {
				return ddbmem.Fault{Unprocessed: 1}
			}
			return ddbmem.Fault{}
		})
		_, err := s.limiter.Acquire(t.Context(), "user-1", model, Amounts{"rpm": 1})
		require.ErrorIs(t, err, ErrUnavailable)
		assert.Zero(t, s.repo.ConfigCacheStats().Size)
		s.db.SetFaults(nil)
		assert.Equal(t, levels.Plan, s.acquire("user-1", Amounts{"rpm": 1}).Statuses()[0].Level)
	})
}
