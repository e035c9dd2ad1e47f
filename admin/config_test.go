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
	"github.com/dynalimit/dynalimit/internal/shared"
	"github.com/dynalimit/dynalimit/internal/table"
)

var (
	twoLimits = []dynalimit.Limit{dynalimit.PerMinute("rpm", 100), dynalimit.PerHour("tpm", 5000).WithBurst(9000)}
	oneLimit  = []dynalimit.Limit{{Name: "a-b.c_d", Capacity: 1, Burst: 2, RefillAmount: 3, RefillPeriod: 4 * time.Second}}
)

func TestSetLimitsKeepsWhatItDoesNotKnow(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		owner := schema.ConfigOwner{Entity: "user-1", Resource: "gpt-4"}
		item := schema.ConfigItem{Version: 41}.Item(shared.Of(r).Keys, owner, nil)
		item["note"] = schema.String("kept")
		put(t, r, item)
		require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: "user-1", Resource: "gpt-4"}, oneLimit))
		got, err := shared.Of(r).Table.Get(t.Context(), "test", shared.Of(r).Keys.Config(owner))
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

func TestEntitiesWithLimitsFollowsPages(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		var want []string
		for i := range 2*table.PageSize + 10 {
			id := fmt.Sprintf("user-%04d", i)
			want = append(want, id)
			put(t, r, schema.ConfigItem{Version: 1}.Item(shared.Of(r).Keys, schema.ConfigOwner{Entity: id}, nil))
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
	require.NoError(t, shared.Of(r).Layout.Check(t.Context()))
	wire.Take()
	only := func(at admin.Scope) error {
		return second(admin.New(r).Limits.SetConfig(t.Context(), at, admin.LimitConfig{Limits: oneLimit, Version: admin.AnyVersion, Only: true}))
	}
	for _, step := range []struct {
		golden string
		do     func() error
	}{
		{"set_system_limits", func() error {
			return second(admin.New(r).Limits.SetConfig(t.Context(), admin.Scope{Everyone: true}, admin.LimitConfig{Limits: twoLimits, OnUnavailable: dynalimit.Allow, Version: admin.AnyVersion, Only: true}))
		}},
		{"set_resource_limits", func() error {
			return admin.New(r).Limits.Set(t.Context(), admin.Scope{Everyone: true, Resource: "gpt-4"}, twoLimits)
		}},
		{"set_entity_limits_first", func() error {
			return admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: "user-1", Resource: "gpt-4"}, twoLimits)
		}},
		{"set_entity_limits_again", func() error {
			return only(admin.Scope{Entity: "user-1", Resource: "gpt-4"})
		}},
		{"set_entity_default", func() error { return only(admin.Scope{Entity: "user-1"}) }},
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
		{"set_first_groups", func() error {
			return second(admin.New(r).Limits.SetConfig(t.Context(), admin.Scope{Everyone: true, Resource: "gpt-4"}, admin.LimitConfig{Groups: []string{"openai", "all"}}))
		}},
	} {
		require.NoError(t, step.do(), step.golden)
		assertGolden(t, step.golden, wire.Take())
	}
}
