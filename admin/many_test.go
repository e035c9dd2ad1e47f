package admin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
)

// idsOf are the ids of entities that setupsOf makes, scopesOf their sources with limits.
func idsOf(setups []admin.EntitySetup) (ids []string) {
	for _, s := range setups {
		ids = append(ids, s.Entity.ID)
	}
	return ids
}

func scopesOf(setups []admin.EntitySetup) (scopes []admin.Scope) {
	for _, id := range idsOf(setups) {
		scopes = append(scopes, admin.Scope{Entity: id, Resource: "gpt-4"})
	}
	return scopes
}

// Many sources are read as each alone is, in the order in which they were asked for.
func TestManyConfigsAreReadInOrder(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		var scopes []admin.Scope
		for i := range 230 {
			at := admin.Scope{Entity: fmt.Sprint("key-", i), Resource: "gpt-4"}
			scopes = append(scopes, at)
			if i%50 == 0 {
				require.NoError(t, second(admin.New(r).Limits.SetConfig(t.Context(), at, admin.LimitConfig{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", int64(i+1))}, ManagedBy: applier})))
			}
		}
		for _, at := range everyScope {
			require.NoError(t, second(admin.New(r).Limits.SetConfig(t.Context(), at, admin.LimitConfig{Blocked: true, OnUnavailable: dynalimit.Local, Version: admin.AnyVersion})))
		}
		scopes = append(scopes, everyScope...)
		scopes = append(scopes, admin.Scope{Entity: "key-1", Resource: "_default_"}, scopes[50], scopes[3], scopes[50])
		slices.Reverse(scopes)
		got, err := admin.New(r).Limits.GetConfigs(t.Context(), scopes)
		require.NoError(t, err)
		require.Len(t, got, len(scopes))
		stored := 0
		for i, at := range scopes {
			want, err := admin.New(r).Limits.GetConfig(t.Context(), at)
			require.NoError(t, err)
			assert.Equal(t, admin.ScopedConfig{Scope: at.Normal(), Config: want}, got[i], at)
			if want.Version != 0 {
				stored++
			}
		}
		assert.Equal(t, 5+6+4, stored)
		none, err := admin.New(r).Limits.GetConfigs(t.Context(), nil)
		require.NoError(t, err)
		assert.Empty(t, none)
	})
}

// A source that cannot be read ends the reading, and so does a bad name: both are named.
func TestManyConfigsNameTheOneThatCannotBeRead(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	at := admin.Scope{Entity: "key-7", Resource: "gpt-4"}
	item := schema.ConfigItem{Version: 4}.Item(shared.Of(r).Keys, at.Owner(), nil)
	item["l_rpm_cp"] = schema.String("many")
	put(t, r, item)
	got, err := admin.New(r).Limits.GetConfigs(t.Context(), []admin.Scope{{Everyone: true}, at})
	require.ErrorContains(t, err, "scopes[1] (entity key-7 on gpt-4): stored limits of source entity")
	assert.True(t, isValidation(err))
	assert.Nil(t, got)

	item["l_rpm_cp"], item["l_rpm_rp"] = schema.Number(5), schema.Number(1<<40)
	put(t, r, item)
	_, err = admin.New(r).Limits.GetConfigs(t.Context(), []admin.Scope{at})
	require.ErrorContains(t, err, "scopes[0] (entity key-7 on gpt-4)", "limits that a limiter cannot hold")

	_, err = admin.New(r).Limits.GetConfigs(t.Context(), []admin.Scope{{Everyone: true}, {Entity: "a b"}})
	assertInvalid(t, err, "scopes[1].entity", "a b")
	_, err = admin.New(r).Entities.GetMany(t.Context(), []string{"a", ""})
	assertInvalid(t, err, "ids[1]", "empty")
}

// Limits of the older layout are read among many as they are alone.
func TestManyConfigsOfTheOlderLayout(t *testing.T) {
	e := memEngine(t)
	r, alone := olderTable(t, e, nil), olderTable(t, e, nil)
	scopes := []admin.Scope{{Everyone: true}, {Everyone: true, Resource: "gpt-4"}, {Entity: "key-1", Resource: "gpt-4"}, {Entity: "key-1"}, {Entity: "proj-1", Resource: "gpt-4"}, {Plan: "pro"}, {Everyone: true}}
	got, err := admin.New(r).Limits.GetConfigs(t.Context(), scopes)
	require.NoError(t, err)
	limits := 0
	for i, at := range scopes {
		want, err := admin.New(alone).Limits.GetConfig(t.Context(), at)
		require.NoError(t, err)
		limits += len(want.Limits)
		assert.Equal(t, want.Limits, got[i].Config.Limits, at)
	}
	assert.Positive(t, limits)
}

func TestManyEntitiesAreReadInOrder(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		create(t, r, setupsOf(120, ""))
		put(t, r, schema.EntityRecord{ID: "going", Version: 3, Deleting: true}.Item(shared.Of(r).Keys, nil))
		ids := append([]string{"nobody", "key-00007", "going", "key-00007"}, idsOf(setupsOf(120, ""))...)
		got, err := admin.New(r).Entities.GetMany(t.Context(), ids)
		require.NoError(t, err)
		require.Len(t, got, len(ids))
		assert.Equal(t, admin.Entity{ID: "nobody"}, got[0], "no version, no time: it has no record")
		assert.True(t, got[2].Deleting)
		assert.Equal(t, int64(3), got[2].Version)
		for i, id := range ids {
			assert.Equal(t, id, got[i].ID)
			if strings.HasPrefix(id, "key-") {
				want, err := admin.New(r).Entities.Get(t.Context(), id)
				require.NoError(t, err)
				assert.Equal(t, want, got[i])
			}
		}
		assert.Equal(t, got[1], got[3])
	})
}

// Ten thousand records and sources are read in a hundred requests each, eight at once.
func TestTenThousandAreReadInAFractionOfASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		setups := setupsOf(10_000, "")
		create(t, r, setups)
		ids, scopes := idsOf(setups), scopesOf(setups)
		e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			assert.Equal(t, "BatchGetItem", q.Operation)
			return ddbmem.Fault{Before: 5 * time.Millisecond}
		})
		for name, read := range map[string]func() error{
			"entities": func() error { return second(admin.New(r).Entities.GetMany(t.Context(), ids)) },
			"configs":  func() error { return second(admin.New(r).Limits.GetConfigs(t.Context(), scopes)) },
		} {
			before, start := e.db.Meter(), time.Now()
			require.NoError(t, read())
			took, used := time.Since(start), e.db.Meter().Sub(before)
			t.Logf("10,000 %s, each request 5 ms: %v, %d requests, %v read units", name, took, used.Requests(), used.ReadUnits())
			assert.Equal(t, int64(100), used.Requests(), name)
			assert.Equal(t, 13*5*time.Millisecond, took, "%s: eight at once", name)
		}
	})
}
