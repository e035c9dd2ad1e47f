package tests

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// gains adds attributes of text to a stored item, as a later version would.
func (s *process) gains(key schema.Key, attributes ...string) {
	s.t.Helper()
	item, err := s.repo.store.Get(s.t.Context(), "test", key)
	require.NoError(s.t, err)
	if item == nil {
		item = key.Attributes()
	}
	for _, name := range attributes {
		item[name] = schema.String("daily America/Los_Angeles")
	}
	put(s.t, s.repo, item)
}

// refusesKind checks that an error names the limit of an unknown kind, and is no outage.
func refusesKind(t *testing.T, err error, kind string) {
	t.Helper()
	var wrong *fault.VersionError
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, kind, wrong.Kind)
	assert.ErrorContains(t, err, kind)
	assert.ErrorContains(t, err, "use a newer version of dynalimit")
	assert.False(t, errors.Is(err, dynalimit.ErrUnavailable))
}

// uses are what calls do with an entity's limits.
func (s *process) uses(entity string, a dynalimit.Amounts, opts ...dynalimit.AcquireOption) map[string]error {
	ctx := s.t.Context()
	_, acquired := s.limiter.Acquire(ctx, entity, model, a, opts...)
	_, waited := s.limiter.Wait(ctx, entity, model, a, opts...)
	_, checked := s.limiter.Check(ctx, entity, model, a, opts...)
	return map[string]error{"Acquire": acquired, "Wait": waited, "Check": checked}
}

// A level with a limit of a kind that this version does not know is not taken for one
// without it: calls are refused by name under every policy, whatever they name; so is what
// would show the level, replace its limits or remove it. Its block still works.
func TestUnknownKindInConfigurationIsRefused(t *testing.T) {
	for name, level := range map[string]struct {
		scope admin.Scope
		plain []dynalimit.Limit
	}{
		"alone at the system":       {admin.Scope{Everyone: true}, nil},
		"beside the system's":       {admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)}},
		"beside the entity's":       {admin.Scope{Entity: "user-1", Resource: model}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)}},
		"alone at the entity":       {admin.Scope{Entity: "user-1"}, nil},
		"alone, above a resource's": {admin.Scope{Everyone: true, Resource: model}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := memProcess(t, &dynalimit.Options{OnUnavailable: dynalimit.Allow, Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 1000)}})
			ctx := t.Context()
			if level.plain != nil {
				errs, err := s.repo.SetConfigs(ctx, []admin.ScopedConfig{{Scope: level.scope, Config: admin.LimitConfig{Limits: level.plain}}})
				require.NoError(t, err)
				require.NoError(t, errs[0])
			}
			key := s.repo.keys.Config(schema.ConfigOwner{Entity: level.scope.Entity, Plan: level.scope.Plan, Resource: level.scope.Resource}.Normal())
			s.gains(key, "k_rpd_x_w", "k_rpd_x_n")
			stored := s.storedItem(key)
			for call, err := range s.uses("user-1", dynalimit.Amounts{"rpm": 1}) {
				t.Log(call)
				refusesKind(t, err, "rpd_x")
			}
			for call, err := range s.uses("user-1", dynalimit.Amounts{"rpm": 1, "rpd_x": 1}, dynalimit.WithIgnoreUnknown()) {
				t.Log(call)
				refusesKind(t, err, "rpd_x")
			}
			_, err := s.repo.ResolveLimits(ctx, "user-1", model)
			refusesKind(t, err, "rpd_x")
			_, err = s.repo.GetConfig(ctx, level.scope)
			refusesKind(t, err, "rpd_x")
			version := schema.ConfigVersion(stored)
			errs, err := s.repo.SetConfigs(ctx, []admin.ScopedConfig{{Scope: level.scope, Config: admin.LimitConfig{Limits: oneLimit, Version: version}}})
			require.NoError(t, err)
			refusesKind(t, errs[0], "rpd_x")
			errs, err = s.repo.SetConfigs(ctx, []admin.ScopedConfig{{Scope: level.scope, Config: admin.LimitConfig{Version: version}, Delete: true}})
			require.NoError(t, err)
			refusesKind(t, errs[0], "rpd_x")
			assert.Equal(t, stored, s.storedItem(key))
			require.NoError(t, s.repo.SetBlocked(ctx, level.scope, true))
			assert.Contains(t, s.storedItem(key), "k_rpd_x_w")
			assert.Contains(t, s.storedItem(key), "blocked")
			assert.Nil(t, s.item("user-1"), "nothing was taken")
		})
	}
}

// A limit of an unknown kind at a less specific level is hidden as any other: calls go by
// the level that won, and naming it is refused even where unknown names are ignored.
func TestUnknownKindThatIsHidden(t *testing.T) {
	s := memProcess(t, nil)
	require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "user-1", Resource: model}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)}))
	s.gains(s.repo.keys.SystemConfig(), "k_usd_w")
	s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
	for _, err := range s.uses("user-1", dynalimit.Amounts{"rpm": 1, "usd": 1}, dynalimit.WithIgnoreUnknown()) {
		requireInvalid(t, err, "amounts[usd]")
		assert.ErrorContains(t, err, "level system")
	}
}

// A bucket with state of a kind that this version does not know, or a pause, is not taken
// from, refilled or shown as if it had none, and nothing of that state is removed.
func TestUnknownStateInABucketIsRefused(t *testing.T) {
	for attribute, kind := range map[string]string{"q_rpd_x_z": "rpd_x", "s_inflight_h17": "inflight"} {
		t.Run(attribute, func(t *testing.T) {
			bothModes(t, func(t *testing.T, s *process) {
				ctx := t.Context()
				s.family("key", "org")
				lease := s.acquire("key", dynalimit.Amounts{"rpm": 1})
				key := s.repo.keys.Bucket("org", model)
				s.gains(key, attribute)
				p := s.peer(&dynalimit.Options{Cascade: s.limiter.mode, Limits: s.limiter.own, OnUnavailable: dynalimit.Allow})
				before := p.storedItem(key)
				for range 2 { // cold, then by what is remembered
					for call, err := range p.uses("key", dynalimit.Amounts{"rpm": 1}) {
						t.Log(call)
						refusesKind(t, err, kind)
					}
				}
				refusesKind(t, p.repo.ListBuckets(ctx, "org"), kind)
				refusesKind(t, p.repo.ResetBucket(ctx, "org", model), kind)
				assert.Equal(t, before, p.storedItem(key))
				if s.limiter.mode == dynalimit.CascadeParallel { // no answer to a transaction shows a bucket
					_, err := s.limiter.Acquire(ctx, "key", model, dynalimit.Amounts{"rpm": 1})
					refusesKind(t, err, kind)
				}
				_ = lease.Rollback(ctx)
				assert.Contains(t, p.storedItem(key), attribute, "a claim or a give-back removes nothing of it")
			})
		})
	}
}

// storedItem is what is stored under a key.
func (s *process) storedItem(key schema.Key) schema.Item {
	s.t.Helper()
	item, err := s.repo.store.Get(s.t.Context(), "test", key)
	require.NoError(s.t, err)
	return maps.Clone(item)
}

// A table whose record asks for kinds that this version does not know is refused.
func TestTableOfUnknownKindsIsRefused(t *testing.T) {
	for value, refused := range map[types.AttributeValue]bool{
		schema.Number(0): false, schema.Number(1): false, schema.Number(2): false, schema.Number(3): true, schema.String("quotas"): true,
		&types.AttributeValueMemberN{Value: "99999999999999999999"}: true,
	} {
		testEngines(t, func(t *testing.T, e *engine) {
			made := e.repository(t, nil)
			item, err := made.store.Get(t.Context(), "test", schema.VersionKey())
			require.NoError(t, err)
			item["kinds_min"] = value
			put(t, made, item)
			r := e.open(t, made.table, nil)
			l, err := newLimiter(r, &dynalimit.Options{Limits: []dynalimit.Limit{rpm}, OnUnavailable: dynalimit.Allow})
			require.NoError(t, err)
			t.Cleanup(func() { _ = l.Close(context.WithoutCancel(t.Context())) })
			_, err = l.Acquire(context.Background(), "u", model, dynalimit.Amounts{"rpm": 1})
			if !refused {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, fault.ErrVersion)
			assert.ErrorContains(t, err, "kinds_min")
			require.ErrorIs(t, e.open(t, made.table, nil).SetLimits(t.Context(), admin.Scope{Everyone: true}, oneLimit), fault.ErrVersion)
			now, err := made.store.Get(t.Context(), "test", schema.VersionKey())
			require.NoError(t, err)
			assert.Equal(t, value, now["kinds_min"])
		})
	}
}
