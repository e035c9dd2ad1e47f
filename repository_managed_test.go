package dynalimit

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/schema"
)

const applier = "manifest:prod/limits.yaml"

// Who keeps a level is stored as given, and what changes one aspect of the level keeps it.
func TestLevelsSayWhoKeepsThem(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		for _, at := range everyScope {
			stored, err := r.SetConfig(t.Context(), at, LimitConfig{Limits: oneLimit, Blocked: true, ManagedBy: applier})
			require.NoError(t, err)
			kept := func(did string) {
				got, err := r.GetConfig(t.Context(), at)
				require.NoError(t, err)
				assert.Equal(t, applier, got.ManagedBy, "%s: %s", at, did)
			}
			kept("set")
			require.NoError(t, r.SetLimits(t.Context(), at, twoLimits))
			kept("limits")
			require.NoError(t, r.SetUnlimited(t.Context(), at))
			kept("unlimited")
			require.NoError(t, r.DeleteLimits(t.Context(), at))
			kept("blocked alone")
			require.NoError(t, r.SetBlocked(t.Context(), at, true))
			kept("blocked")

			changed, err := r.SetConfig(t.Context(), at, LimitConfig{Blocked: true, ManagedBy: "other", Version: stored.Version + 3})
			require.NoError(t, err)
			assert.Equal(t, stored.Version+4, changed.Version, "another keeper is a change")
			events := trail(t, r, AuditQuery{Target: targetOf(at)})
			assert.Equal(t, []AuditChange{{Field: "managed_by", Before: json.RawMessage(`"` + applier + `"`), After: json.RawMessage(`"other"`)}}, events[len(events)-1].Changes)
			_, err = r.SetConfig(t.Context(), at, LimitConfig{Blocked: true, Version: changed.Version})
			require.NoError(t, err)
			got, err := r.GetConfig(t.Context(), at)
			require.NoError(t, err)
			assert.Empty(t, got.ManagedBy)

			require.NoError(t, second(r.SetConfig(t.Context(), at, LimitConfig{Blocked: true, ManagedBy: applier, Version: AnyVersion})))
			require.NoError(t, r.SetBlocked(t.Context(), at, false))
			got, err = r.GetConfig(t.Context(), at)
			require.NoError(t, err)
			assert.Equal(t, LimitConfig{}, got, "a level that says nothing is not stored for its keeper's sake")
			r = e.repository(t, nil)
		}
	})
}

// An entity's record says who keeps it, wherever it is read.
func TestEntitiesSayWhoKeepsThem(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		require.NoError(t, r.CreateEntity(t.Context(), Entity{ID: "a", ParentID: "org", ManagedBy: applier}))
		create(t, r, []EntitySetup{{Entity: Entity{ID: "b", ParentID: "org", ManagedBy: applier}}})
		read := func(id string) Entity {
			got, err := r.GetEntity(t.Context(), id)
			require.NoError(t, err)
			return got
		}
		for _, list := range [][]Entity{must(t)(collect(r.Entities(t.Context()))), must(t)(collect(r.Children(t.Context(), "org"))), {read("a"), read("b")}} {
			require.Len(t, list, 2)
			for _, got := range list {
				assert.Equal(t, applier, got.ManagedBy)
			}
		}
		a := read("a")
		a.ManagedBy = ""
		updated, err := r.UpdateEntity(t.Context(), a)
		require.NoError(t, err)
		assert.Equal(t, int64(2), updated.Version)
		assert.Empty(t, read("a").ManagedBy)
		events := trail(t, r, AuditQuery{Target: "a"})
		assert.Equal(t, []AuditChange{{Field: "managed_by", Before: json.RawMessage(`"` + applier + `"`)}}, events[len(events)-1].Changes)
		_, err = r.UpdateEntity(t.Context(), a)
		assert.ErrorContains(t, err, `yours is {"version":1,"parent":"org"}`)
		b := read("b")
		b.Version = 7
		_, err = r.UpdateEntity(t.Context(), b)
		assert.ErrorContains(t, err, `"managed_by":"`+applier+`"`, "the conflict shows it")
	})
}

func must(t *testing.T) func([]Entity, error) []Entity {
	t.Helper()
	return func(list []Entity, err error) []Entity {
		t.Helper()
		require.NoError(t, err)
		return list
	}
}

func TestNamesOfKeepers(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	for _, good := range []string{"", "a", "/manifest:prod@eu_1.x-y", strings.Repeat("x", 64)} {
		assert.NoError(t, second(r.SetConfig(t.Context(), Scope{Entity: "a"}, LimitConfig{Limits: oneLimit, ManagedBy: good, Version: AnyVersion})), good)
	}
	for bad, part := range map[string]string{"a b": "letters, digits", "é": "letters, digits", "\xff": "letters, digits", "a#b": "letters, digits", strings.Repeat("x", 65): "65 bytes"} {
		_, err := r.SetConfig(t.Context(), Scope{Entity: "a"}, LimitConfig{Limits: oneLimit, ManagedBy: bad, Version: AnyVersion})
		assertInvalid(t, err, "config.managedBy", part)
		_, err = r.SetConfigs(t.Context(), []ScopedConfig{{Config: LimitConfig{Limits: oneLimit, ManagedBy: bad}}})
		assertInvalid(t, err, "changes[0].config.managedBy", part)
		assertInvalid(t, r.CreateEntity(t.Context(), Entity{ID: "b", ManagedBy: bad}), "entity.ManagedBy", part)
		_, err = r.UpdateEntity(t.Context(), Entity{ID: "b", ManagedBy: bad})
		assertInvalid(t, err, "entity.ManagedBy", part)
	}
	_, err := r.SetConfigs(t.Context(), []ScopedConfig{{Scope: Scope{Entity: "a"}, Config: LimitConfig{ManagedBy: applier, Version: AnyVersion}, Delete: true}})
	assertInvalid(t, err, "changes[0].delete", "beside a configuration")
	_, err = r.SetConfig(t.Context(), Scope{Entity: "c"}, LimitConfig{ManagedBy: applier})
	assertInvalid(t, err, "config.limits", "says nothing else")

	text, err := json.Marshal(LimitConfig{Unlimited: true, ManagedBy: applier})
	require.NoError(t, err)
	assert.JSONEq(t, `{"unlimited":true,"managed_by":"manifest:prod/limits.yaml"}`, string(text))
	var read LimitConfig
	require.NoError(t, json.Unmarshal(text, &read))
	assert.Equal(t, LimitConfig{Unlimited: true, ManagedBy: applier}, read)
}

func assertInvalid(t *testing.T, err error, field, part string) {
	t.Helper()
	var invalid *ValidationError
	if assert.ErrorAs(t, err, &invalid) {
		assert.Equal(t, field, invalid.Field)
		assert.ErrorContains(t, err, part)
	}
}

// A bucket is not claimed because a level of its limits has another keeper.
func TestAnotherKeeperChangesNoBucket(t *testing.T) {
	s := memProcess(t, &Options{})
	at := Scope{Entity: "user-1", Resource: model}
	first := must1(t)(s.repo.SetConfig(t.Context(), at, LimitConfig{Limits: five}))
	s.acquire("user-1", Amounts{"rpm": 1})
	before := s.image("user-1").Fingerprint
	require.NotEmpty(t, before)
	must1(t)(s.repo.SetConfig(t.Context(), at, LimitConfig{Limits: five, ManagedBy: applier, Version: first.Version}))
	used := s.used(func() { s.acquire("user-1", Amounts{"rpm": 1}) })
	assert.Equal(t, before, s.image("user-1").Fingerprint)
	assert.Equal(t, int64(1), used.Operations["UpdateItem"].Requests, "spent, not claimed")
}

func must1(t *testing.T) func(LimitConfig, error) LimitConfig {
	t.Helper()
	return func(c LimitConfig, err error) LimitConfig {
		t.Helper()
		require.NoError(t, err)
		return c
	}
}

// A record that was written before records said who keeps them says that nobody does, and
// its next change shows in every list.
func TestRecordsOfBeforeHaveNoKeeper(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	require.NoError(t, r.CreateEntity(t.Context(), Entity{ID: "a", ParentID: "org"}))
	item, err := r.store.Get(t.Context(), "test", r.keys.Meta("a"))
	require.NoError(t, err)
	delete(item, "managed_by")
	put(t, r, item)
	children := must(t)(collect(r.Children(t.Context(), "org")))
	require.Len(t, children, 1)
	assert.Empty(t, children[0].ManagedBy)
	children[0].ManagedBy = applier
	require.NoError(t, second(r.UpdateEntity(t.Context(), children[0])))
	assert.Equal(t, applier, must(t)(collect(r.Children(t.Context(), "org")))[0].ManagedBy)
	item["managed_by"] = schema.Number(1)
	assert.Empty(t, schema.DecodeEntity(item).ManagedBy)
}
