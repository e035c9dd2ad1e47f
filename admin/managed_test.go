package admin_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/audit"
)

const applier = "manifest:prod/limits.yaml"

// Who keeps a source is stored as given, and what changes one aspect of the source keeps it.
func TestSourcesSayWhoKeepsThem(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		for _, at := range everyScope {
			stored, err := admin.New(r).Limits.SetConfig(t.Context(), at, admin.LimitConfig{Limits: oneLimit, Blocked: true, ManagedBy: applier})
			require.NoError(t, err)
			kept := func(did string) {
				got, err := admin.New(r).Limits.GetConfig(t.Context(), at)
				require.NoError(t, err)
				assert.Equal(t, applier, got.ManagedBy, "%s: %s", at, did)
			}
			kept("set")
			require.NoError(t, admin.New(r).Limits.Set(t.Context(), at, twoLimits))
			kept("limits")
			require.NoError(t, admin.New(r).Limits.SetUnlimited(t.Context(), at))
			kept("unlimited")
			require.NoError(t, admin.New(r).Limits.Delete(t.Context(), at))
			kept("blocked alone")
			require.NoError(t, admin.New(r).Limits.SetBlocked(t.Context(), at, true))
			kept("blocked")

			changed, err := admin.New(r).Limits.SetConfig(t.Context(), at, admin.LimitConfig{Blocked: true, ManagedBy: "other", Version: stored.Version + 3})
			require.NoError(t, err)
			assert.Equal(t, stored.Version+4, changed.Version, "another keeper is a change")
			events := trail(t, r, audit.Query{Target: targetOf(at)})
			assert.Equal(t, []audit.Change{{Field: "managed_by", Before: json.RawMessage(`"` + applier + `"`), After: json.RawMessage(`"other"`)}}, events[len(events)-1].Changes)
			_, err = admin.New(r).Limits.SetConfig(t.Context(), at, admin.LimitConfig{Blocked: true, Version: changed.Version})
			require.NoError(t, err)
			got, err := admin.New(r).Limits.GetConfig(t.Context(), at)
			require.NoError(t, err)
			assert.Empty(t, got.ManagedBy)

			require.NoError(t, second(admin.New(r).Limits.SetConfig(t.Context(), at, admin.LimitConfig{Blocked: true, ManagedBy: applier, Version: admin.AnyVersion})))
			require.NoError(t, admin.New(r).Limits.SetBlocked(t.Context(), at, false))
			got, err = admin.New(r).Limits.GetConfig(t.Context(), at)
			require.NoError(t, err)
			assert.Equal(t, admin.LimitConfig{}, got, "a source that says nothing is not stored for its keeper's sake")
			r = e.repository(t, nil)
		}
	})
}

// An entity's record says who keeps it, wherever it is read.
func TestEntitiesSayWhoKeepsThem(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "a", ParentID: "org", ManagedBy: applier}))
		create(t, r, []admin.EntitySetup{{Entity: admin.Entity{ID: "b", ParentID: "org", ManagedBy: applier}}})
		read := func(id string) admin.Entity {
			got, err := admin.New(r).Entities.Get(t.Context(), id)
			require.NoError(t, err)
			return got
		}
		for _, list := range [][]admin.Entity{must(t)(collect(admin.New(r).Entities.List(t.Context()))), must(t)(collect(admin.New(r).Entities.Children(t.Context(), "org"))), {read("a"), read("b")}} {
			require.Len(t, list, 2)
			for _, got := range list {
				assert.Equal(t, applier, got.ManagedBy)
			}
		}
		a := read("a")
		a.ManagedBy = ""
		updated, err := admin.New(r).Entities.Update(t.Context(), a)
		require.NoError(t, err)
		assert.Equal(t, int64(2), updated.Version)
		assert.Empty(t, read("a").ManagedBy)
		events := trail(t, r, audit.Query{Target: "a"})
		assert.Equal(t, []audit.Change{{Field: "managed_by", Before: json.RawMessage(`"` + applier + `"`)}}, events[len(events)-1].Changes)
		_, err = admin.New(r).Entities.Update(t.Context(), a)
		assert.ErrorContains(t, err, `yours is {"version":1,"parent":"org"}`)
		b := read("b")
		b.Version = 7
		_, err = admin.New(r).Entities.Update(t.Context(), b)
		assert.ErrorContains(t, err, `"managed_by":"`+applier+`"`, "the conflict shows it")
	})
}

func must(t *testing.T) func([]admin.Entity, error) []admin.Entity {
	t.Helper()
	return func(list []admin.Entity, err error) []admin.Entity {
		t.Helper()
		require.NoError(t, err)
		return list
	}
}

func TestNamesOfKeepers(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	for _, good := range []string{"", "a", "/manifest:prod@eu_1.x-y", strings.Repeat("x", 64)} {
		assert.NoError(t, second(admin.New(r).Limits.SetConfig(t.Context(), admin.Scope{Entity: "a"}, admin.LimitConfig{Limits: oneLimit, ManagedBy: good, Version: admin.AnyVersion})), good)
	}
	for bad, part := range map[string]string{"a b": "letters, digits", "é": "letters, digits", "\xff": "letters, digits", "a#b": "letters, digits", strings.Repeat("x", 65): "65 bytes"} {
		_, err := admin.New(r).Limits.SetConfig(t.Context(), admin.Scope{Entity: "a"}, admin.LimitConfig{Limits: oneLimit, ManagedBy: bad, Version: admin.AnyVersion})
		assertInvalid(t, err, "config.managedBy", part)
		_, err = admin.New(r).Limits.SetConfigs(t.Context(), []admin.ScopedConfig{{Scope: admin.Scope{Everyone: true}, Config: admin.LimitConfig{Limits: oneLimit, ManagedBy: bad}}})
		assertInvalid(t, err, "changes[0].config.managedBy", part)
		assertInvalid(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "b", ManagedBy: bad}), "entity.ManagedBy", part)
		_, err = admin.New(r).Entities.Update(t.Context(), admin.Entity{ID: "b", ManagedBy: bad})
		assertInvalid(t, err, "entity.ManagedBy", part)
	}
	_, err := admin.New(r).Limits.SetConfigs(t.Context(), []admin.ScopedConfig{{Scope: admin.Scope{Entity: "a"}, Config: admin.LimitConfig{ManagedBy: applier, Version: admin.AnyVersion}, Delete: true}})
	assertInvalid(t, err, "changes[0].delete", "together with a configuration")
	_, err = admin.New(r).Limits.SetConfig(t.Context(), admin.Scope{Entity: "c"}, admin.LimitConfig{ManagedBy: applier})
	assertInvalid(t, err, "config.limits", "sets nothing else")

	text, err := json.Marshal(admin.LimitConfig{Unlimited: true, ManagedBy: applier})
	require.NoError(t, err)
	assert.JSONEq(t, `{"unlimited":true,"managed_by":"manifest:prod/limits.yaml"}`, string(text))
	var read admin.LimitConfig
	require.NoError(t, json.Unmarshal(text, &read))
	assert.Equal(t, admin.LimitConfig{Unlimited: true, ManagedBy: applier}, read)
}

func assertInvalid(t *testing.T, err error, field, part string) {
	t.Helper()
	var invalid *dynalimit.ValidationError
	if assert.ErrorAs(t, err, &invalid) {
		assert.Equal(t, field, invalid.Field)
		assert.ErrorContains(t, err, part)
	}
}

// A bucket is not claimed because a source of its limits has another keeper.
func TestAnotherKeeperChangesNoBucket(t *testing.T) {
	s := memProcess(t, &dynalimit.Options{})
	at := admin.Scope{Entity: "user-1", Resource: model}
	first := must1(t)(admin.New(s.repo).Limits.SetConfig(t.Context(), at, admin.LimitConfig{Limits: five}))
	s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
	before := s.image("user-1").Fingerprint
	require.NotEmpty(t, before)
	must1(t)(admin.New(s.repo).Limits.SetConfig(t.Context(), at, admin.LimitConfig{Limits: five, ManagedBy: applier, Version: first.Version}))
	used := s.used(func() { s.acquire("user-1", dynalimit.Amounts{"rpm": 1}) })
	assert.Equal(t, before, s.image("user-1").Fingerprint)
	assert.Equal(t, int64(1), used.Operations["UpdateItem"].Requests, "spent, not claimed")
}

func must1(t *testing.T) func(admin.LimitConfig, error) admin.LimitConfig {
	t.Helper()
	return func(c admin.LimitConfig, err error) admin.LimitConfig {
		t.Helper()
		require.NoError(t, err)
		return c
	}
}
