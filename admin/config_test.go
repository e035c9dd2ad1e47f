package admin_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

var (
	twoLimits = []dynalimit.Limit{dynalimit.PerMinute("rpm", 100), dynalimit.PerHour("tpm", 5000).WithBurst(9000)}
	oneLimit  = []dynalimit.Limit{{Name: "a-b.c_d", Capacity: 1, Burst: 2, RefillAmount: 3, RefillPeriod: 4 * time.Second}}
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

				require.NoError(t, level.set(t, r, []dynalimit.Limit{twoLimits[1], {Name: "rpm", Capacity: 100, RefillPeriod: time.Minute}}))
				got, err = level.get(t, r)
				require.NoError(t, err)
				assert.Equal(t, twoLimits, got, "sorted, defaults filled in")

				before, err := r.Shared().Table.Get(t.Context(), "test", r.Shared().Keys.Config(level.owner))
				require.NoError(t, err)
				require.NoError(t, level.set(t, r, oneLimit))
				got, err = level.get(t, r)
				require.NoError(t, err)
				assert.Equal(t, oneLimit, got, "the whole list is replaced")

				item, err := r.Shared().Table.Get(t.Context(), "test", r.Shared().Keys.Config(level.owner))
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
	set    func(*testing.T, *dynalimit.Repository, []dynalimit.Limit) error
	get    func(*testing.T, *dynalimit.Repository) ([]dynalimit.Limit, error)
	remove func(*testing.T, *dynalimit.Repository) error
}

func configLevels() map[string]configLevel {
	entity := func(resource string) configLevel {
		return configLevel{
			schema.ConfigOwner{Entity: "user-1", Resource: resource},
			func(t *testing.T, r *dynalimit.Repository, l []dynalimit.Limit) error {
				return admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: "user-1", Resource: resource}, l)
			},
			func(t *testing.T, r *dynalimit.Repository) ([]dynalimit.Limit, error) {
				return limitsAt(admin.New(r).Limits.GetConfig(t.Context(), admin.Scope{Entity: "user-1", Resource: resource}))
			},
			func(t *testing.T, r *dynalimit.Repository) error {
				return admin.New(r).Limits.Delete(t.Context(), admin.Scope{Entity: "user-1", Resource: resource})
			},
		}
	}
	return map[string]configLevel{
		"system": {
			schema.ConfigOwner{},
			func(t *testing.T, r *dynalimit.Repository, l []dynalimit.Limit) error {
				return admin.New(r).Limits.Set(t.Context(), admin.Scope{Everyone: true}, l)
			},
			func(t *testing.T, r *dynalimit.Repository) ([]dynalimit.Limit, error) {
				return limitsAt(admin.New(r).Limits.GetConfig(t.Context(), admin.Scope{Everyone: true}))
			},
			func(t *testing.T, r *dynalimit.Repository) error {
				return admin.New(r).Limits.Delete(t.Context(), admin.Scope{Everyone: true})
			},
		},
		"resource": {
			schema.ConfigOwner{Resource: "org/gpt-4"},
			func(t *testing.T, r *dynalimit.Repository, l []dynalimit.Limit) error {
				return admin.New(r).Limits.Set(t.Context(), admin.Scope{Everyone: true, Resource: "org/gpt-4"}, l)
			},
			func(t *testing.T, r *dynalimit.Repository) ([]dynalimit.Limit, error) {
				return limitsAt(admin.New(r).Limits.GetConfig(t.Context(), admin.Scope{Everyone: true, Resource: "org/gpt-4"}))
			},
			func(t *testing.T, r *dynalimit.Repository) error {
				return admin.New(r).Limits.Delete(t.Context(), admin.Scope{Everyone: true, Resource: "org/gpt-4"})
			},
		},
		"entity":                      entity("gpt-4"),
		"entity default":              entity(""),
		"a resource named like a key": entity("PK"),
	}
}

func TestSetLimitsKeepsThePolicy(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	policy := func() dynalimit.UnavailablePolicy {
		c, err := admin.New(r).Limits.GetConfig(t.Context(), admin.Scope{Everyone: true})
		require.NoError(t, err)
		return c.OnUnavailable
	}
	assert.Empty(t, policy())
	require.NoError(t, second(admin.New(r).Limits.SetConfig(t.Context(), admin.Scope{Everyone: true}, admin.LimitConfig{Limits: twoLimits, OnUnavailable: dynalimit.Allow, Version: admin.AnyVersion})))
	assert.Equal(t, dynalimit.Allow, policy())
	require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Everyone: true}, oneLimit))
	assert.Equal(t, dynalimit.Allow, policy(), "what else the level says stays")
	require.NoError(t, second(admin.New(r).Limits.SetConfig(t.Context(), admin.Scope{Everyone: true}, admin.LimitConfig{Limits: oneLimit, Version: admin.AnyVersion})))
	assert.Empty(t, policy())
	err := second(admin.New(r).Limits.SetConfig(t.Context(), admin.Scope{Everyone: true}, admin.LimitConfig{Limits: oneLimit, OnUnavailable: "ALLOW", Version: admin.AnyVersion}))
	require.ErrorContains(t, err, `invalid config.onUnavailable: is "ALLOW"; give dynalimit.Block, dynalimit.Allow or dynalimit.Local`)
}

func TestSetLimitsRefusesBeforeWriting(t *testing.T) {
	e := memEngine(t)
	r := e.repository(t, nil)
	before := e.db.Meter()
	for field, err := range map[string]error{
		"scope.entity":             admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: "a#b", Resource: "gpt-4"}, twoLimits),
		"scope.resource":           admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: "a", Resource: "gpt 4"}, twoLimits),
		"limits":                   admin.New(r).Limits.Set(t.Context(), admin.Scope{Everyone: true, Resource: "gpt-4"}, nil),
		"limits[0].Capacity":       admin.New(r).Limits.Set(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", -1)}),
		"limits[0].RefillPeriod":   admin.New(r).Limits.Set(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{{Name: "rpm", Capacity: 1}}),
		"limits.RefillPeriod":      admin.New(r).Limits.Set(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{{Name: "rpm", Capacity: 1, RefillPeriod: time.Millisecond}}),
		"limits[1].Name":           admin.New(r).Limits.Set(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{oneLimit[0], dynalimit.PerMinute("9", 1)}),
		"scope.resource (get)":     second(admin.New(r).Limits.GetConfig(t.Context(), admin.Scope{Everyone: true, Resource: "#"})),
		"scope.resource (delete)":  admin.New(r).Limits.Delete(t.Context(), admin.Scope{Everyone: true, Resource: "#"}),
		"scope.entity (get)":       second(admin.New(r).Limits.GetConfig(t.Context(), admin.Scope{Entity: "#"})),
		"scope.entity (delete)":    admin.New(r).Limits.Delete(t.Context(), admin.Scope{Entity: "#"}),
		"resource (with entities)": second(collect(admin.New(r).Limits.Entities(t.Context(), "#"))),
	} {
		var invalid *dynalimit.ValidationError
		require.ErrorAs(t, err, &invalid, field)
		assert.Contains(t, field, invalid.Field)
	}
	assert.Zero(t, e.db.Meter().Sub(before).Requests())
}

func TestSetLimitsKeepsWhatItDoesNotKnow(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		owner := schema.ConfigOwner{Entity: "user-1", Resource: "gpt-4"}
		item := schema.ConfigItem{Version: 41}.Item(r.Shared().Keys, owner, nil)
		item["note"] = schema.String("kept")
		put(t, r, item)
		require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: "user-1", Resource: "gpt-4"}, oneLimit))
		got, err := r.Shared().Table.Get(t.Context(), "test", r.Shared().Keys.Config(owner))
		require.NoError(t, err)
		assert.Equal(t, schema.String("kept"), got["note"])
		assert.Equal(t, int64(42), schema.ConfigVersion(got))

		delete(item, "config_version") // as somebody's script might leave it
		item["l_rpm_cp"] = schema.String("broken")
		put(t, r, item)
		require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: "user-1", Resource: "gpt-4"}, twoLimits), "setting repairs")
		limits, err := limitsAt(admin.New(r).Limits.GetConfig(t.Context(), admin.Scope{Entity: "user-1", Resource: "gpt-4"}))
		require.NoError(t, err)
		assert.Equal(t, twoLimits, limits)
	})
}

func TestRegistries(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		set := func(entity, resource string) {
			require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: entity, Resource: resource}, oneLimit))
		}
		counts := func() schema.Item {
			item, err := r.Shared().Table.Get(t.Context(), "test", r.Shared().Keys.EntityResources())
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
		require.NoError(t, admin.New(r).Limits.Delete(t.Context(), admin.Scope{Entity: "a", Resource: "gpt-4"}))
		require.NoError(t, admin.New(r).Limits.Delete(t.Context(), admin.Scope{Entity: "a", Resource: "gpt-4"}))
		require.NoError(t, admin.New(r).Limits.Delete(t.Context(), admin.Scope{Entity: "b"}))
		assert.Equal(t, schema.Item{"gpt-4": schema.Number(1)}, counts())
		got, err := collect(admin.New(r).Limits.Entities(t.Context(), "gpt-4"))
		require.NoError(t, err)
		assert.Equal(t, []string{"b"}, got)

		resources := func() schema.Item {
			item, err := r.Shared().Table.Get(t.Context(), "test", r.Shared().Keys.Resources())
			require.NoError(t, err)
			return item
		}
		require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Everyone: true, Resource: "gpt-4"}, oneLimit))
		require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Everyone: true, Resource: "gpt-4"}, twoLimits))
		assert.Equal(t, []string{"gpt-4"}, schema.ResourceNames(resources()))
		require.NoError(t, admin.New(r).Limits.Delete(t.Context(), admin.Scope{Everyone: true, Resource: "gpt-4"}))
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
			put(t, r, schema.ConfigItem{Version: 1}.Item(r.Shared().Keys, schema.ConfigOwner{Entity: id}, nil))
		}
		got, err := collect(admin.New(r).Limits.Entities(t.Context(), ""))
		require.NoError(t, err)
		assert.Equal(t, want, got)
		for id, err := range admin.New(r).Limits.Entities(t.Context(), "") {
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
	r, err := dynalimit.NewRepository(e.client(wire.Through), "limits", &dynalimit.RepositoryOptions{Principal: tester, Now: noon})
	require.NoError(t, err)
	require.NoError(t, r.Shared().Layout.Check(t.Context()))
	wire.Take()
	for _, step := range []struct {
		golden string
		do     func() error
	}{
		{"set_system_limits", func() error {
			return second(admin.New(r).Limits.SetConfig(t.Context(), admin.Scope{Everyone: true}, admin.LimitConfig{Limits: twoLimits, OnUnavailable: dynalimit.Allow, Version: admin.AnyVersion}))
		}},
		{"set_resource_limits", func() error {
			return admin.New(r).Limits.Set(t.Context(), admin.Scope{Everyone: true, Resource: "gpt-4"}, twoLimits)
		}},
		{"set_entity_limits_first", func() error {
			return admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: "user-1", Resource: "gpt-4"}, twoLimits)
		}},
		{"set_entity_limits_again", func() error {
			return admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: "user-1", Resource: "gpt-4"}, oneLimit)
		}},
		{"set_entity_default", func() error { return admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: "user-1"}, oneLimit) }},
		{"get_entity_limits", func() error {
			return second(limitsAt(admin.New(r).Limits.GetConfig(t.Context(), admin.Scope{Entity: "user-1", Resource: "gpt-4"})))
		}},
		{"entities_with_limits", func() error { return second(collect(admin.New(r).Limits.Entities(t.Context(), "gpt-4"))) }},
		{"delete_entity_limits", func() error {
			return admin.New(r).Limits.Delete(t.Context(), admin.Scope{Entity: "user-1", Resource: "gpt-4"})
		}},
		{"delete_resource_limits", func() error {
			return admin.New(r).Limits.Delete(t.Context(), admin.Scope{Everyone: true, Resource: "gpt-4"})
		}},
		{"delete_system_limits", func() error { return admin.New(r).Limits.Delete(t.Context(), admin.Scope{Everyone: true}) }},
	} {
		require.NoError(t, step.do(), step.golden)
		assertGolden(t, step.golden, wire.Take())
	}
}
