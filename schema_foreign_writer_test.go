package dynalimit_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/testworld"
)

// The same table is used by zae-limiter 0.8.1, a Python library. Its items are
// kept in internal/schema/testdata; its formulas and writes are repeated here
// as its specification states them.

// foreignProcess is a process on a table that the other library filled; the clock stands at
// its last write.
func foreignProcess(t *testing.T, e *engine) *process {
	t.Helper()
	data, err := os.ReadFile("internal/schema/testdata/zae-0.8.1-items.json")
	require.NoError(t, err)
	items, err := testworld.DecodeItems(data)
	require.NoError(t, err)
	s := newProcess(t, e, nil)
	last := int64(0)
	for _, item := range items {
		last = max(last, numberOf(item, "rf"))
	}
	s.clock.ms.Store(last)
	put(t, s.repo, items...)
	return s
}

// effective is what the other library reads: min(tk + elapsed*ra//rp, bx), in
// millitokens.
func (s *process) effective(entity, limit string) int64 {
	s.t.Helper()
	item, p := s.item(entity), "b_"+limit+"_"
	require.NotZero(s.t, numberOf(item, p+"rp"), "the other library divides by it")
	elapsed := s.clock.now().UnixMilli() - numberOf(item, "rf")
	return min(numberOf(item, p+"tk")+elapsed*numberOf(item, p+"ra")/numberOf(item, p+"rp"), numberOf(item, p+"bx"))
}

// worth is what we read, in millitokens.
func (s *process) worth(entity, limit string) int64 {
	image := s.image(entity)
	return image.State(image.Set.Index(limit)).Level(s.clock.now().UnixMilli())
}

// foreign writes a bucket as the other library does.
func (s *process) foreign(entity, update, condition string, values map[string]int64) error {
	s.t.Helper()
	in := &dynamodb.UpdateItemInput{
		TableName: &s.repo.table, Key: s.repo.keys.Bucket(entity, model).Attributes(),
		UpdateExpression: &update, ExpressionAttributeValues: schema.Item{},
	}
	if condition != "" {
		in.ConditionExpression = &condition
	}
	for name, n := range values {
		in.ExpressionAttributeValues[name] = schema.Number(n)
	}
	_, err := s.client().UpdateItem(s.t.Context(), in)
	return err
}

// foreignAcquire takes n tokens of tpm: its Normal write, else its Retry.
func (s *process) foreignAcquire(entity string, seen schema.Item, n int64) bool {
	s.t.Helper()
	level := min(numberOf(seen, "b_tpm_tk")+(s.clock.now().UnixMilli()-numberOf(seen, "rf"))*numberOf(seen, "b_tpm_ra")/numberOf(seen, "b_tpm_rp"), numberOf(seen, "b_tpm_bx"))
	if level < n*milli {
		return false
	}
	err := s.foreign(entity, "ADD b_tpm_tk :d, b_tpm_tc :n SET rf = :now", "rf = :seen", map[string]int64{
		":d": level - numberOf(seen, "b_tpm_tk") - n*milli, ":n": n * milli, ":now": s.clock.now().UnixMilli(), ":seen": numberOf(seen, "rf"),
	})
	if err == nil {
		return true
	}
	var refused *types.ConditionalCheckFailedException
	require.ErrorAs(s.t, err, &refused)
	err = s.foreign(entity, "ADD b_tpm_tk :d, b_tpm_tc :n", "b_tpm_tk >= :n", map[string]int64{":d": -n * milli, ":n": n * milli})
	if err != nil {
		require.ErrorAs(s.t, err, &refused)
	}
	return err == nil
}

// foreignAdjust is its unconditional ADD.
func (s *process) foreignAdjust(entity string, n int64) {
	s.t.Helper()
	require.NoError(s.t, s.foreign(entity, "ADD b_tpm_tk :d, b_tpm_tc :n", "", map[string]int64{":d": -n * milli, ":n": n * milli}))
}

// What we write, the other library reads as the same.
func TestOurItemsMeanTheSameToTheOther(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 60), dynalimit.PerHour("tpm", 7200).WithBurst(9000)}))
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 3, "tpm": 1000})
		item := s.item("user-1")
		for name, want := range map[string]int64{
			"b_rpm_tk": 57_000, "b_rpm_cp": 60_000, "b_rpm_bx": 60_000, "b_rpm_ra": 60_000, "b_rpm_rp": 60_000, "b_rpm_tc": 3000,
			"b_tpm_tk": 8_000_000, "b_tpm_cp": 7_200_000, "b_tpm_bx": 9_000_000, "b_tpm_ra": 7_200_000, "b_tpm_rp": 3_600_000, "b_tpm_tc": 1_000_000,
			"rf": s.clock.now().UnixMilli(),
		} {
			assert.Equal(t, want, numberOf(item, name), name)
		}
		assert.Equal(t, schema.String("user-1"), item["entity_id"])
		assert.Equal(t, schema.String(model), item["resource"])
		assert.Equal(t, schema.String("RESOURCE#"+model), item["GSI2PK"])
		assert.Equal(t, schema.String("BUCKET#user-1"), item["GSI2SK"])
		require.NoError(t, lease.Settle(t.Context(), dynalimit.Amounts{"tpm": 5000}))
		for range 20 {
			s.clock.advance(977 * time.Second)
			for _, limit := range []string{"rpm", "tpm"} {
				assert.InDelta(t, s.effective("user-1", limit), s.worth("user-1", limit), 1, "within a millitoken: the grids' phases differ")
			}
			s.acquire("user-1", dynalimit.Amounts{"rpm": 1, "tpm": 900})
		}
	})
}

// Writers of both kinds, taking turns, with stale images on both sides: no more
// than the burst and the refill is admitted, nobody is locked out, and the
// counter is exact.
func TestWritersOfBothKindsTakeTurns(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := foreignProcess(t, e)
		s.acquire("user-9", dynalimit.Amounts{"tpm": 1})
		start, counted := s.effective("user-9", "tpm"), numberOf(s.item("user-9"), "b_tpm_tc")
		began := s.clock.now().UnixMilli()
		stale := s.item("user-9")
		admitted, ours, theirs := int64(0), 0, 0
		for i := range 200 {
			s.clock.advance(100 * time.Millisecond)
			if lease, err := s.limiter.Acquire(t.Context(), "user-9", model, dynalimit.Amounts{"tpm": 150}); err == nil {
				admitted, ours = admitted+150, ours+1
				if i%5 == 0 {
					require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": -50}))
					admitted -= 50
				}
			} else {
				_ = s.denied(err)
			}
			if s.foreignAcquire("user-9", stale, 120) {
				admitted, theirs = admitted+120, theirs+1
			}
			stale = s.item("user-9")
			if i%7 == 0 {
				s.foreignAdjust("user-9", 10)
				admitted += 10
				stale = s.item("user-9")
			}
		}
		refill := (s.clock.now().UnixMilli() - began) * 10_000_000 / 60_000
		assert.LessOrEqual(t, admitted*milli, start+refill+10*milli, "an adjust may be debt")
		assert.GreaterOrEqual(t, admitted*milli, start+refill-400*milli, "and nothing was lost")
		assert.Equal(t, counted+admitted*milli, numberOf(s.item("user-9"), "b_tpm_tc"))
		assert.Greater(t, ours, 20)
		assert.Greater(t, theirs, 20)
	})
}

// A bucket that another program wrote since our last write is told once, and
// nothing that dynalimit writes is taken for it.
func TestForeignWriterIsNoticedOnce(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		var log bytes.Buffer
		logged := func() int { return strings.Count(log.String(), "another program") }
		opts := perMinute()
		opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
		s := newProcess(t, e, opts)
		other := s.peer(perMinute())
		for range 5 { // claims of others, and a bucket made anew
			s.acquire("u", dynalimit.Amounts{"tpm": 10})
			s.clock.advance(2 * time.Hour)
			other.acquire("u", dynalimit.Amounts{"tpm": 10})
			lease := s.acquire("u", dynalimit.Amounts{"tpm": 10})
			s.delete("u")
			other.acquire("u", dynalimit.Amounts{"tpm": 10})
			require.NoError(t, lease.Rollback(t.Context()))
		}
		require.Zero(t, logged())
		for range 3 {
			s.acquire("u", dynalimit.Amounts{"tpm": 10})
			s.clock.advance(3 * time.Second)
			require.True(t, s.foreignAcquire("u", s.item("u"), 5))
			s.acquire("u", dynalimit.Amounts{"tpm": 10})
			assert.Equal(t, 1, logged(), "and it is no error")
		}
		assert.Contains(t, log.String(), "entity=u")
		assert.Contains(t, log.String(), "level=WARN")
	})
}

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

// A source with a limit of a kind that this version does not know is not taken for one
// without it: calls are refused by name under every policy, whatever they name; so is what
// would show the source, replace its limits or remove it. Its block still works.
func TestUnknownKindInConfigurationIsRefused(t *testing.T) {
	for name, source := range map[string]struct {
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
			if source.plain != nil {
				errs, err := s.repo.SetConfigs(ctx, []admin.ScopedConfig{{Scope: source.scope, Config: admin.LimitConfig{Limits: source.plain}}})
				require.NoError(t, err)
				require.NoError(t, errs[0])
			}
			key := s.repo.keys.Config(schema.ConfigOwner{Entity: source.scope.Entity, Plan: source.scope.Plan, Resource: source.scope.Resource}.Normal())
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
			_, err = s.repo.GetConfig(ctx, source.scope)
			refusesKind(t, err, "rpd_x")
			version := schema.ConfigVersion(stored)
			errs, err := s.repo.SetConfigs(ctx, []admin.ScopedConfig{{Scope: source.scope, Config: admin.LimitConfig{Limits: oneLimit, Version: version}}})
			require.NoError(t, err)
			refusesKind(t, errs[0], "rpd_x")
			errs, err = s.repo.SetConfigs(ctx, []admin.ScopedConfig{{Scope: source.scope, Config: admin.LimitConfig{Version: version}, Delete: true}})
			require.NoError(t, err)
			refusesKind(t, errs[0], "rpd_x")
			assert.Equal(t, stored, s.storedItem(key))
			require.NoError(t, s.repo.SetBlocked(ctx, source.scope, true))
			assert.Contains(t, s.storedItem(key), "k_rpd_x_w")
			assert.Contains(t, s.storedItem(key), "blocked")
			assert.Nil(t, s.item("user-1"), "nothing was taken")
		})
	}
}

// A limit of an unknown kind at a less specific source is hidden as any other: calls go by
// the source that won, and naming it is refused even where unknown names are ignored.
func TestUnknownKindThatIsHidden(t *testing.T) {
	s := memProcess(t, nil)
	require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "user-1", Resource: model}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)}))
	s.gains(s.repo.keys.SystemConfig(), "k_usd_w")
	s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
	for _, err := range s.uses("user-1", dynalimit.Amounts{"rpm": 1, "usd": 1}, dynalimit.WithIgnoreUnknown()) {
		requireInvalid(t, err, "amounts[usd]")
		assert.ErrorContains(t, err, "source system")
	}
}

// A bucket with state of a kind that this version does not know, or a pause, is not taken
// from, refilled or shown as if it had none, and nothing of that state is removed.
func TestUnknownStateInABucketIsRefused(t *testing.T) {
	for attribute, kind := range map[string]string{"q_rpd_x_z": "rpd_x", "s_inflight_x17": "inflight"} {
		t.Run(attribute, func(t *testing.T) {
			bothModes(t, func(t *testing.T, s *process) {
				ctx := t.Context()
				s.family("key", "org")
				lease := s.acquire("key", dynalimit.Amounts{"rpm": 1})
				key := s.repo.keys.Bucket("org", model)
				s.gains(key, attribute)
				p := s.peer(&dynalimit.Options{ChargeMode: s.limiter.mode, Limits: s.limiter.own, OnUnavailable: dynalimit.Allow})
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
				if s.limiter.mode == dynalimit.ChargeParallel { // no answer to a transaction shows a bucket
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
		schema.Number(0): false, schema.Number(1): false, schema.Number(2): false, schema.Number(schema.KnownKinds): false, schema.Number(schema.KnownKinds + 1): true, schema.String("quotas"): true,
		&types.AttributeValueMemberN{Value: "99999999999999999999"}: true,
	} {
		testEngines(t, func(t *testing.T, e *engine) {
			made := e.repository(t, nil)
			item, err := made.store.Get(t.Context(), "test", schema.VersionKey())
			require.NoError(t, err)
			item["kinds_min"] = value
			put(t, made, item)
			r := e.open(t, made.table, nil)
			l, err := openLimiter(r, &dynalimit.Options{Limits: []dynalimit.Limit{rpm}, OnUnavailable: dynalimit.Allow})
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
