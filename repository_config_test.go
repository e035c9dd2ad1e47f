package dynalimit

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

var (
	twoLimits = []Limit{PerMinute("rpm", 100), PerHour("tpm", 5000).WithBurst(9000)}
	oneLimit  = []Limit{{Name: "a-b.c_d", Capacity: 1, Burst: 2, RefillAmount: 3, RefillPeriod: 4 * time.Second}}
)

func TestLimitsAtEveryLevel(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		for name, level := range configLevels() {
			t.Run(name, func(t *testing.T) {
				r := e.repository(t, nil)
				got, err := level.get(t, r)
				require.NoError(t, err)
				assert.Empty(t, got)
				require.NoError(t, level.remove(t, r), "removing nothing is no error")

				require.NoError(t, level.set(t, r, []Limit{twoLimits[1], {Name: "rpm", Capacity: 100, RefillPeriod: time.Minute}}))
				got, err = level.get(t, r)
				require.NoError(t, err)
				assert.Equal(t, twoLimits, got, "sorted, defaults filled in")

				require.NoError(t, level.set(t, r, oneLimit))
				got, err = level.get(t, r)
				require.NoError(t, err)
				assert.Equal(t, oneLimit, got, "the whole list is replaced")

				item, err := r.getItem(t.Context(), "test", r.keys.Config(level.owner))
				require.NoError(t, err)
				assert.Equal(t, int64(2), schema.ConfigVersion(item))

				require.NoError(t, level.remove(t, r))
				got, err = level.get(t, r)
				require.NoError(t, err)
				assert.Empty(t, got)
			})
		}
	})
}

// configLevel is one level through its public methods.
type configLevel struct {
	owner  schema.ConfigOwner
	set    func(*testing.T, *Repository, []Limit) error
	get    func(*testing.T, *Repository) ([]Limit, error)
	remove func(*testing.T, *Repository) error
}

func configLevels() map[string]configLevel {
	entity := func(resource string) configLevel {
		return configLevel{
			schema.ConfigOwner{Entity: "user-1", Resource: resource},
			func(t *testing.T, r *Repository, l []Limit) error {
				return r.SetEntityLimits(t.Context(), "user-1", resource, l)
			},
			func(t *testing.T, r *Repository) ([]Limit, error) {
				return r.GetEntityLimits(t.Context(), "user-1", resource)
			},
			func(t *testing.T, r *Repository) error {
				return r.DeleteEntityLimits(t.Context(), "user-1", resource)
			},
		}
	}
	return map[string]configLevel{
		"system": {
			schema.ConfigOwner{},
			func(t *testing.T, r *Repository, l []Limit) error { return r.SetSystemLimits(t.Context(), l, nil) },
			func(t *testing.T, r *Repository) ([]Limit, error) {
				l, _, err := r.GetSystemLimits(t.Context())
				return l, err
			},
			func(t *testing.T, r *Repository) error { return r.DeleteSystemLimits(t.Context()) },
		},
		"resource": {
			schema.ConfigOwner{Resource: "org/gpt-4"},
			func(t *testing.T, r *Repository, l []Limit) error {
				return r.SetResourceLimits(t.Context(), "org/gpt-4", l)
			},
			func(t *testing.T, r *Repository) ([]Limit, error) {
				return r.GetResourceLimits(t.Context(), "org/gpt-4")
			},
			func(t *testing.T, r *Repository) error { return r.DeleteResourceLimits(t.Context(), "org/gpt-4") },
		},
		"entity":                      entity("gpt-4"),
		"entity default":              entity(""),
		"a resource named like a key": entity("PK"),
	}
}

func TestSystemOptions(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	policy := func() UnavailablePolicy {
		_, o, err := r.GetSystemLimits(t.Context())
		require.NoError(t, err)
		return o.OnUnavailable
	}
	assert.Empty(t, policy())
	require.NoError(t, r.SetSystemLimits(t.Context(), twoLimits, &SystemOptions{OnUnavailable: Allow}))
	assert.Equal(t, Allow, policy())
	require.NoError(t, r.SetSystemLimits(t.Context(), oneLimit, nil))
	assert.Equal(t, Allow, policy(), "nil options keep the stored ones")
	require.NoError(t, r.SetSystemLimits(t.Context(), oneLimit, &SystemOptions{}))
	assert.Empty(t, policy())
	err := r.SetSystemLimits(t.Context(), oneLimit, &SystemOptions{OnUnavailable: "ALLOW"})
	require.ErrorContains(t, err, `invalid options.OnUnavailable: is "ALLOW"; give "block", "allow", "local" or nothing`)
}

func TestSetLimitsRefusesBeforeWriting(t *testing.T) {
	e := memEngine(t)
	r := e.repository(t, nil)
	before := e.db.Meter()
	for field, err := range map[string]error{
		"entity":                   r.SetEntityLimits(t.Context(), "a#b", "gpt-4", twoLimits),
		"resource":                 r.SetEntityLimits(t.Context(), "a", "gpt 4", twoLimits),
		"limits":                   r.SetResourceLimits(t.Context(), "gpt-4", nil),
		"limits[0].Capacity":       r.SetSystemLimits(t.Context(), []Limit{PerMinute("rpm", -1)}, nil),
		"limits[0].RefillPeriod":   r.SetSystemLimits(t.Context(), []Limit{{Name: "rpm", Capacity: 1}}, nil),
		"limits.RefillPeriod":      r.SetSystemLimits(t.Context(), []Limit{{Name: "rpm", Capacity: 1, RefillPeriod: time.Millisecond}}, nil),
		"limits[1].Name":           r.SetSystemLimits(t.Context(), []Limit{oneLimit[0], PerMinute("9", 1)}, nil),
		"resource (resource)":      r.SetResourceLimits(t.Context(), "", twoLimits),
		"resource (get)":           second(r.GetResourceLimits(t.Context(), "")),
		"resource (delete)":        r.DeleteResourceLimits(t.Context(), ""),
		"entity (get)":             second(r.GetEntityLimits(t.Context(), "", "")),
		"entity (delete)":          r.DeleteEntityLimits(t.Context(), "", ""),
		"resource (with entities)": second(collect(r.EntitiesWithLimits(t.Context(), "#"))),
	} {
		var invalid *ValidationError
		require.ErrorAs(t, err, &invalid, field)
		assert.Contains(t, field, invalid.Field)
	}
	assert.Zero(t, e.db.Meter().Sub(before).Requests())
}

func second[T any](_ T, err error) error { return err }

func TestSetLimitsKeepsWhatItDoesNotKnow(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		owner := schema.ConfigOwner{Entity: "user-1", Resource: "gpt-4"}
		item := r.keys.EncodeConfig(owner, nil, schema.ConfigItem{Version: 41})
		item["note"] = schema.String("kept")
		put(t, r, item)
		require.NoError(t, r.SetEntityLimits(t.Context(), "user-1", "gpt-4", oneLimit))
		got, err := r.getItem(t.Context(), "test", r.keys.Config(owner))
		require.NoError(t, err)
		assert.Equal(t, schema.String("kept"), got["note"])
		assert.Equal(t, int64(42), schema.ConfigVersion(got))

		delete(item, "config_version") // as somebody's script might leave it
		item["l_rpm_cp"] = schema.String("broken")
		put(t, r, item)
		require.NoError(t, r.SetEntityLimits(t.Context(), "user-1", "gpt-4", twoLimits), "setting repairs")
		limits, err := r.GetEntityLimits(t.Context(), "user-1", "gpt-4")
		require.NoError(t, err)
		assert.Equal(t, twoLimits, limits)
	})
}

func TestRegistries(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		set := func(entity, resource string) {
			require.NoError(t, r.SetEntityLimits(t.Context(), entity, resource, oneLimit))
		}
		counts := func() schema.Item {
			item, err := r.getItem(t.Context(), "test", r.keys.EntityResources())
			require.NoError(t, err)
			delete(item, "PK")
			delete(item, "SK")
			return item
		}
		set("a", "gpt-4")
		set("a", "gpt-4")
		set("b", "gpt-4")
		set("b", "")
		assert.Equal(t, schema.Item{"gpt-4": schema.Number(2), "_default_": schema.Number(1)}, counts())
		require.NoError(t, r.DeleteEntityLimits(t.Context(), "a", "gpt-4"))
		require.NoError(t, r.DeleteEntityLimits(t.Context(), "a", "gpt-4"))
		require.NoError(t, r.DeleteEntityLimits(t.Context(), "b", ""))
		assert.Equal(t, schema.Item{"gpt-4": schema.Number(1)}, counts())
		got, err := collect(r.EntitiesWithLimits(t.Context(), "gpt-4"))
		require.NoError(t, err)
		assert.Equal(t, []string{"b"}, got)

		resources := func() schema.Item {
			item, err := r.getItem(t.Context(), "test", r.keys.Resources())
			require.NoError(t, err)
			return item
		}
		require.NoError(t, r.SetResourceLimits(t.Context(), "gpt-4", oneLimit))
		require.NoError(t, r.SetResourceLimits(t.Context(), "gpt-4", twoLimits))
		assert.Equal(t, []string{"gpt-4"}, schema.ResourceNames(resources()))
		require.NoError(t, r.DeleteResourceLimits(t.Context(), "gpt-4"))
		assert.Empty(t, schema.ResourceNames(resources()))
	})
}

func TestEntitiesWithLimitsFollowsPages(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		var want []string
		for i := range 2*pageSize + 10 {
			id := fmt.Sprintf("user-%04d", i)
			want = append(want, id)
			put(t, r, r.keys.EncodeConfig(schema.ConfigOwner{Entity: id}, nil, schema.ConfigItem{Version: 1}))
		}
		got, err := collect(r.EntitiesWithLimits(t.Context(), ""))
		require.NoError(t, err)
		assert.Equal(t, want, got)
		for id, err := range r.EntitiesWithLimits(t.Context(), "") {
			require.NoError(t, err)
			assert.Equal(t, want[0], id)
			break
		}
	})
}

func TestSetLimitsCountsEveryWrite(t *testing.T) {
	const writers = 5
	write := func(t *testing.T, e *engine, r *Repository) {
		var wg sync.WaitGroup
		for range writers {
			own := e.open(t, r.table, nil)
			wg.Go(func() { assert.NoError(t, own.SetEntityLimits(t.Context(), "a", "gpt-4", twoLimits)) })
		}
		wg.Wait()
		item, err := r.getItem(t.Context(), "test", r.keys.EntityConfig("a", "gpt-4"))
		require.NoError(t, err)
		assert.Equal(t, int64(writers), schema.ConfigVersion(item))
		counts, err := r.getItem(t.Context(), "test", r.keys.EntityResources())
		require.NoError(t, err)
		assert.Equal(t, schema.Number(1), counts["gpt-4"])
	}
	testEngines(t, func(t *testing.T, e *engine) { write(t, e, e.repository(t, nil)) })
	t.Run("all read before one writes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e := memEngine(t)
			r := e.repository(t, nil)
			e.db.SetFaults(slowly("TransactWriteItems"))
			write(t, e, r)
		})
	})
}

// slowly lets most of a request's time go by before each of an operation's
// requests executes.
func slowly(operation string) ddbmem.FaultFunc {
	return func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == operation {
			return ddbmem.Fault{Before: 900 * time.Millisecond}
		}
		return ddbmem.Fault{}
	}
}

func TestSettersReachThisProcessAtOnce(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	capacity := func() int64 {
		cfg, _, _, err := r.config(t.Context(), "user-1", "gpt-4", time.Time{})
		require.NoError(t, err)
		if len(cfg.limits) == 0 {
			return 0
		}
		return cfg.limits[0].Capacity
	}
	assert.Zero(t, capacity())
	require.NoError(t, r.SetSystemLimits(t.Context(), []Limit{PerMinute("rpm", 1)}, nil))
	assert.Equal(t, int64(1), capacity())
	require.NoError(t, r.SetResourceLimits(t.Context(), "gpt-4", []Limit{PerMinute("rpm", 2)}))
	assert.Equal(t, int64(2), capacity())
	require.NoError(t, r.SetEntityLimits(t.Context(), "user-1", "", []Limit{PerMinute("rpm", 3)}))
	assert.Equal(t, int64(3), capacity())
	require.NoError(t, r.SetEntityLimits(t.Context(), "user-1", "gpt-4", []Limit{PerMinute("rpm", 4)}))
	assert.Equal(t, int64(4), capacity())
	require.NoError(t, r.DeleteEntityLimits(t.Context(), "user-1", "gpt-4"))
	assert.Equal(t, int64(3), capacity())
	require.NoError(t, r.DeleteEntityLimits(t.Context(), "user-1", schema.DefaultResource))
	assert.Equal(t, int64(2), capacity())
	require.NoError(t, r.DeleteResourceLimits(t.Context(), "gpt-4"))
	assert.Equal(t, int64(1), capacity())
	require.NoError(t, r.DeleteSystemLimits(t.Context()))
	assert.Zero(t, capacity())
}

func TestSetLimitsDropsAFillBegunBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			if q.Operation == "BatchGetItem" {
				return ddbmem.Fault{After: time.Second / 2} // read, answered later
			}
			return ddbmem.Fault{}
		})
		var wg sync.WaitGroup
		wg.Go(func() {
			cfg, _, _, err := r.config(t.Context(), "user-1", "gpt-4", time.Time{})
			assert.NoError(t, err)
			assert.Empty(t, cfg.limits)
		})
		synctest.Wait()
		require.NoError(t, r.SetSystemLimits(t.Context(), oneLimit, nil))
		wg.Wait()
		cfg, _, _, err := r.config(t.Context(), "user-1", "gpt-4", time.Time{})
		require.NoError(t, err)
		assert.Equal(t, oneLimit, cfg.limits)
	})
}

func TestChangesDropAFillBetweenReadAndWrite(t *testing.T) {
	for name, test := range map[string]struct {
		operation string
		change    func(context.Context, *Repository) error
		changed   func(*resolvedConfig) bool
	}{
		"limits": {
			"TransactWriteItems",
			func(ctx context.Context, r *Repository) error { return r.SetSystemLimits(ctx, oneLimit, nil) },
			func(c *resolvedConfig) bool { return len(c.limits) > 0 },
		},
		"a new entity": {
			"TransactWriteItems",
			func(ctx context.Context, r *Repository) error {
				return r.CreateEntity(ctx, Entity{ID: "user-1", ParentID: "team-1"})
			},
			func(c *resolvedConfig) bool { return c.parentID == "team-1" },
		},
		"an entity's end": {
			"BatchWriteItem",
			func(ctx context.Context, r *Repository) error { return r.DeleteEntity(ctx, "user-1") },
			func(c *resolvedConfig) bool { return c.parentID == "" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := memEngine(t)
				r := e.repository(t, nil)
				if test.operation == "BatchWriteItem" {
					require.NoError(t, r.CreateEntity(t.Context(), Entity{ID: "user-1", ParentID: "team-1"}))
				}
				e.db.SetFaults(slowly(test.operation))
				var wg sync.WaitGroup
				wg.Go(func() { assert.NoError(t, test.change(t.Context(), r)) })
				synctest.Wait() // the cache was evicted, the change is not written
				cfg, _, _, err := r.config(t.Context(), "user-1", "gpt-4", time.Time{})
				require.NoError(t, err)
				assert.False(t, test.changed(cfg))
				wg.Wait()
				cfg, _, _, err = r.config(t.Context(), "user-1", "gpt-4", time.Time{})
				require.NoError(t, err)
				assert.True(t, test.changed(cfg))
			})
		})
	}
}

// answerLost executes each operation's first request and loses the answer.
func answerLost(operation string) ddbmem.FaultFunc {
	var seen atomic.Int64
	return func(r *ddbmem.Request) ddbmem.Fault {
		return ddbmem.Fault{Lose: r.Operation == operation && seen.Add(1) == 1}
	}
}

func TestSetLimitsWithALostAnswerCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		e.db.SetFaults(answerLost("TransactWriteItems"))
		require.NoError(t, r.SetEntityLimits(t.Context(), "a", "gpt-4", oneLimit))
		e.db.SetFaults(nil)
		item, err := r.getItem(t.Context(), "test", r.keys.EntityConfig("a", "gpt-4"))
		require.NoError(t, err)
		assert.Equal(t, int64(1), schema.ConfigVersion(item))
		counts, err := r.getItem(t.Context(), "test", r.keys.EntityResources())
		require.NoError(t, err)
		assert.Equal(t, schema.Number(1), counts["gpt-4"])
	})
}

func TestSetLimitsRetriesConflicts(t *testing.T) {
	for name, test := range map[string]struct {
		conflicts int64
		ok        bool
	}{"some": {adminTries - 1, true}, "for good": {1 << 40, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := memEngine(t)
				r := e.repository(t, nil)
				var seen atomic.Int64
				e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
					if q.Operation == "TransactWriteItems" && seen.Add(1) <= test.conflicts {
						return ddbmem.Fault{Error: &ddbmem.Error{Code: "TransactionCanceledException", Reasons: []ddbmem.Reason{{Code: "TransactionConflict"}, {Code: "None"}}}}
					}
					return ddbmem.Fault{}
				})
				err := r.SetResourceLimits(t.Context(), "gpt-4", oneLimit)
				if test.ok {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, ErrUnavailable)
				assert.Equal(t, int64(adminTries), seen.Load())
			})
		})
	}
}

func TestLimitsRequests(t *testing.T) {
	e := memEngine(t)
	require.NoError(t, e.open(t, "limits", nil).CreateTable(t.Context()))
	wire := record(e.db)
	r, err := NewRepository(e.client(wire.through), "limits", &RepositoryOptions{Now: noon})
	require.NoError(t, err)
	for _, step := range []struct {
		golden string
		do     func() error
	}{
		{"set_system_limits", func() error {
			return r.SetSystemLimits(t.Context(), twoLimits, &SystemOptions{OnUnavailable: Allow})
		}},
		{"set_resource_limits", func() error { return r.SetResourceLimits(t.Context(), "gpt-4", twoLimits) }},
		{"set_entity_limits_first", func() error { return r.SetEntityLimits(t.Context(), "user-1", "gpt-4", twoLimits) }},
		{"set_entity_limits_again", func() error { return r.SetEntityLimits(t.Context(), "user-1", "gpt-4", oneLimit) }},
		{"set_entity_default", func() error { return r.SetEntityLimits(t.Context(), "user-1", "", oneLimit) }},
		{"get_entity_limits", func() error { return second(r.GetEntityLimits(t.Context(), "user-1", "gpt-4")) }},
		{"entities_with_limits", func() error { return second(collect(r.EntitiesWithLimits(t.Context(), "gpt-4"))) }},
		{"delete_entity_limits", func() error { return r.DeleteEntityLimits(t.Context(), "user-1", "gpt-4") }},
		{"delete_resource_limits", func() error { return r.DeleteResourceLimits(t.Context(), "gpt-4") }},
		{"delete_system_limits", func() error { return r.DeleteSystemLimits(t.Context()) }},
	} {
		require.NoError(t, step.do(), step.golden)
		assertGolden(t, step.golden, wire.take())
	}
}
