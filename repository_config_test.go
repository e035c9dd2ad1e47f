package dynalimit

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
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

				before, err := r.store.Get(t.Context(), "test", r.keys.Config(level.owner))
				require.NoError(t, err)
				require.NoError(t, level.set(t, r, oneLimit))
				got, err = level.get(t, r)
				require.NoError(t, err)
				assert.Equal(t, oneLimit, got, "the whole list is replaced")

				item, err := r.store.Get(t.Context(), "test", r.keys.Config(level.owner))
				require.NoError(t, err)
				assert.Equal(t, schema.ConfigVersion(before)+1, schema.ConfigVersion(item))

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
				return r.SetLimits(t.Context(), Scope{Entity: "user-1", Resource: resource}, l)
			},
			func(t *testing.T, r *Repository) ([]Limit, error) {
				return limitsAt(r.GetConfig(t.Context(), Scope{Entity: "user-1", Resource: resource}))
			},
			func(t *testing.T, r *Repository) error {
				return r.DeleteLimits(t.Context(), Scope{Entity: "user-1", Resource: resource})
			},
		}
	}
	return map[string]configLevel{
		"system": {
			schema.ConfigOwner{},
			func(t *testing.T, r *Repository, l []Limit) error { return r.SetLimits(t.Context(), Scope{}, l) },
			func(t *testing.T, r *Repository) ([]Limit, error) {
				return limitsAt(r.GetConfig(t.Context(), Scope{}))
			},
			func(t *testing.T, r *Repository) error { return r.DeleteLimits(t.Context(), Scope{}) },
		},
		"resource": {
			schema.ConfigOwner{Resource: "org/gpt-4"},
			func(t *testing.T, r *Repository, l []Limit) error {
				return r.SetLimits(t.Context(), Scope{Resource: "org/gpt-4"}, l)
			},
			func(t *testing.T, r *Repository) ([]Limit, error) {
				return limitsAt(r.GetConfig(t.Context(), Scope{Resource: "org/gpt-4"}))
			},
			func(t *testing.T, r *Repository) error {
				return r.DeleteLimits(t.Context(), Scope{Resource: "org/gpt-4"})
			},
		},
		"entity":                      entity("gpt-4"),
		"entity default":              entity(""),
		"a resource named like a key": entity("PK"),
	}
}

func TestSetLimitsKeepsThePolicy(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	policy := func() UnavailablePolicy {
		c, err := r.GetConfig(t.Context(), Scope{})
		require.NoError(t, err)
		return c.OnUnavailable
	}
	assert.Empty(t, policy())
	require.NoError(t, second(r.SetConfig(t.Context(), Scope{}, LimitConfig{Limits: twoLimits, OnUnavailable: Allow, Version: AnyVersion})))
	assert.Equal(t, Allow, policy())
	require.NoError(t, r.SetLimits(t.Context(), Scope{}, oneLimit))
	assert.Equal(t, Allow, policy(), "what else the level says stays")
	require.NoError(t, second(r.SetConfig(t.Context(), Scope{}, LimitConfig{Limits: oneLimit, Version: AnyVersion})))
	assert.Empty(t, policy())
	err := second(r.SetConfig(t.Context(), Scope{}, LimitConfig{Limits: oneLimit, OnUnavailable: "ALLOW", Version: AnyVersion}))
	require.ErrorContains(t, err, `invalid config.onUnavailable: is "ALLOW"; give dynalimit.Block, dynalimit.Allow or dynalimit.Local`)
}

func TestSetLimitsRefusesBeforeWriting(t *testing.T) {
	e := memEngine(t)
	r := e.repository(t, nil)
	before := e.db.Meter()
	for field, err := range map[string]error{
		"scope.entity":             r.SetLimits(t.Context(), Scope{Entity: "a#b", Resource: "gpt-4"}, twoLimits),
		"scope.resource":           r.SetLimits(t.Context(), Scope{Entity: "a", Resource: "gpt 4"}, twoLimits),
		"limits":                   r.SetLimits(t.Context(), Scope{Resource: "gpt-4"}, nil),
		"limits[0].Capacity":       r.SetLimits(t.Context(), Scope{}, []Limit{PerMinute("rpm", -1)}),
		"limits[0].RefillPeriod":   r.SetLimits(t.Context(), Scope{}, []Limit{{Name: "rpm", Capacity: 1}}),
		"limits.RefillPeriod":      r.SetLimits(t.Context(), Scope{}, []Limit{{Name: "rpm", Capacity: 1, RefillPeriod: time.Millisecond}}),
		"limits[1].Name":           r.SetLimits(t.Context(), Scope{}, []Limit{oneLimit[0], PerMinute("9", 1)}),
		"scope.resource (get)":     second(r.GetConfig(t.Context(), Scope{Resource: "#"})),
		"scope.resource (delete)":  r.DeleteLimits(t.Context(), Scope{Resource: "#"}),
		"scope.entity (get)":       second(r.GetConfig(t.Context(), Scope{Entity: "#"})),
		"scope.entity (delete)":    r.DeleteLimits(t.Context(), Scope{Entity: "#"}),
		"resource (with entities)": second(collect(r.EntitiesWithLimits(t.Context(), "#"))),
	} {
		var invalid *ValidationError
		require.ErrorAs(t, err, &invalid, field)
		assert.Contains(t, field, invalid.Field)
	}
	assert.Zero(t, e.db.Meter().Sub(before).Requests())
}

func TestSetLimitsKeepsWhatItDoesNotKnow(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		owner := schema.ConfigOwner{Entity: "user-1", Resource: "gpt-4"}
		item := r.keys.EncodeConfig(owner, nil, schema.ConfigItem{Version: 41})
		item["note"] = schema.String("kept")
		put(t, r, item)
		require.NoError(t, r.SetLimits(t.Context(), Scope{Entity: "user-1", Resource: "gpt-4"}, oneLimit))
		got, err := r.store.Get(t.Context(), "test", r.keys.Config(owner))
		require.NoError(t, err)
		assert.Equal(t, schema.String("kept"), got["note"])
		assert.Equal(t, int64(42), schema.ConfigVersion(got))

		delete(item, "config_version") // as somebody's script might leave it
		item["l_rpm_cp"] = schema.String("broken")
		put(t, r, item)
		require.NoError(t, r.SetLimits(t.Context(), Scope{Entity: "user-1", Resource: "gpt-4"}, twoLimits), "setting repairs")
		limits, err := limitsAt(r.GetConfig(t.Context(), Scope{Entity: "user-1", Resource: "gpt-4"}))
		require.NoError(t, err)
		assert.Equal(t, twoLimits, limits)
	})
}

func TestRegistries(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		set := func(entity, resource string) {
			require.NoError(t, r.SetLimits(t.Context(), Scope{Entity: entity, Resource: resource}, oneLimit))
		}
		counts := func() schema.Item {
			item, err := r.store.Get(t.Context(), "test", r.keys.EntityResources())
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
		require.NoError(t, r.DeleteLimits(t.Context(), Scope{Entity: "a", Resource: "gpt-4"}))
		require.NoError(t, r.DeleteLimits(t.Context(), Scope{Entity: "a", Resource: "gpt-4"}))
		require.NoError(t, r.DeleteLimits(t.Context(), Scope{Entity: "b"}))
		assert.Equal(t, schema.Item{"gpt-4": schema.Number(1)}, counts())
		got, err := collect(r.EntitiesWithLimits(t.Context(), "gpt-4"))
		require.NoError(t, err)
		assert.Equal(t, []string{"b"}, got)

		resources := func() schema.Item {
			item, err := r.store.Get(t.Context(), "test", r.keys.Resources())
			require.NoError(t, err)
			return item
		}
		require.NoError(t, r.SetLimits(t.Context(), Scope{Resource: "gpt-4"}, oneLimit))
		require.NoError(t, r.SetLimits(t.Context(), Scope{Resource: "gpt-4"}, twoLimits))
		assert.Equal(t, []string{"gpt-4"}, schema.ResourceNames(resources()))
		require.NoError(t, r.DeleteLimits(t.Context(), Scope{Resource: "gpt-4"}))
		assert.Empty(t, schema.ResourceNames(resources()))
	})
}

func TestEntitiesWithLimitsFollowsPages(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		var want []string
		for i := range 2*table.PageSize + 10 {
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

func TestLimitsRequests(t *testing.T) {
	e := memEngine(t)
	require.NoError(t, e.open(t, "limits", nil).CreateTable(t.Context()))
	wire := record(e.db)
	r, err := NewRepository(e.client(wire.through), "limits", &RepositoryOptions{Principal: tester, Now: noon})
	require.NoError(t, err)
	require.NoError(t, r.checkVersion(t.Context()))
	wire.take()
	for _, step := range []struct {
		golden string
		do     func() error
	}{
		{"set_system_limits", func() error {
			return second(r.SetConfig(t.Context(), Scope{}, LimitConfig{Limits: twoLimits, OnUnavailable: Allow, Version: AnyVersion}))
		}},
		{"set_resource_limits", func() error { return r.SetLimits(t.Context(), Scope{Resource: "gpt-4"}, twoLimits) }},
		{"set_entity_limits_first", func() error { return r.SetLimits(t.Context(), Scope{Entity: "user-1", Resource: "gpt-4"}, twoLimits) }},
		{"set_entity_limits_again", func() error { return r.SetLimits(t.Context(), Scope{Entity: "user-1", Resource: "gpt-4"}, oneLimit) }},
		{"set_entity_default", func() error { return r.SetLimits(t.Context(), Scope{Entity: "user-1"}, oneLimit) }},
		{"get_entity_limits", func() error {
			return second(limitsAt(r.GetConfig(t.Context(), Scope{Entity: "user-1", Resource: "gpt-4"})))
		}},
		{"entities_with_limits", func() error { return second(collect(r.EntitiesWithLimits(t.Context(), "gpt-4"))) }},
		{"delete_entity_limits", func() error { return r.DeleteLimits(t.Context(), Scope{Entity: "user-1", Resource: "gpt-4"}) }},
		{"delete_resource_limits", func() error { return r.DeleteLimits(t.Context(), Scope{Resource: "gpt-4"}) }},
		{"delete_system_limits", func() error { return r.DeleteLimits(t.Context(), Scope{}) }},
	} {
		require.NoError(t, step.do(), step.golden)
		assertGolden(t, step.golden, wire.take())
	}
}
