package dynalimit_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/testworld"
	"github.com/dynalimit/dynalimit/sources"
)

// legacyNoon is when the buckets of the fixtures were last refilled.
func legacyNoon() time.Time { return time.UnixMilli(1795254842000).UTC() }

// legacyClock is a clock that stands at that time.
func legacyClock() *handClock {
	c := &handClock{}
	c.ms.Store(legacyNoon().UnixMilli())
	return c
}

// legacyTable is a repository on a table with what a version of zae-limiter before 0.8
// wrote.
func legacyTable(t *testing.T, e *engine, version string, opts *dynalimit.RepositoryOptions) *repository {
	t.Helper()
	r := e.open(t, testworld.NewTableName(), opts)
	tableOnly(t, e, r)
	e.deleteAfter(t, r.table)
	data, err := os.ReadFile("internal/schema/testdata/zae-" + version + "-items.json")
	require.NoError(t, err)
	items, err := testworld.DecodeItems(data)
	require.NoError(t, err)
	put(t, r, items...)
	return r
}

// legacyProcess is a process on such a table.
func legacyProcess(t *testing.T, e *engine, version string, opts *dynalimit.Options) *process {
	t.Helper()
	clock := legacyClock()
	repo := legacyTable(t, e, version, &dynalimit.RepositoryOptions{Now: clock.now, Principal: tester})
	return (&process{engine: e, t: t, clock: clock}).on(repo, opts)
}

// legacyKeys are the keys of the table's items of the layout before composite items.
func legacyKeys(t *testing.T, r *repository) []schema.Key {
	t.Helper()
	var keys []schema.Key
	for _, item := range scan(t, r) {
		if _, ok := schema.LegacyOf(schema.KeyOf(item)); ok {
			keys = append(keys, schema.KeyOf(item))
		}
	}
	return keys
}

// exhausted is a bucket of one limit of 100 a minute of which nothing is left, as
// zae-limiter 0.6 writes it at a time.
func exhausted(k schema.Keys, entity string, at time.Time) schema.Item {
	n := schema.Number
	return schema.Item{
		"PK": schema.String(k.Entity(entity)), "SK": schema.String("#BUCKET#" + model + "#rpm"),
		"entity_id": schema.String(entity), "resource": schema.String(model), "limit_name": schema.String("rpm"),
		"tokens_milli": n(0), "last_refill_ms": n(at.UnixMilli()), "capacity_milli": n(100_000), "burst_milli": n(100_000),
		"refill_amount_milli": n(100_000), "refill_period_ms": n(60_000), "total_consumed_milli": n(100_000),
		"GSI2PK": schema.String("RESOURCE#" + model), "GSI2SK": schema.String("BUCKET#" + entity + "#rpm"),
		"ttl": schema.Number(at.Unix() + 86400),
	}
}

// An exhausted bucket of the older layout stays exhausted, at the entity and at its
// parent, refills as it would have, and leaves no bucket of the older layout behind.
func TestLegacyBucketKeepsItsLevel(t *testing.T) {
	for _, version := range []string{"0.5", "0.6"} {
		for _, mode := range []dynalimit.ChargeMode{dynalimit.ChargeParallel, dynalimit.ChargeTransaction} {
			t.Run(version+" "+string(mode), func(t *testing.T) {
				testEngines(t, func(t *testing.T, e *engine) {
					s := legacyProcess(t, e, version, &dynalimit.Options{ChargeMode: mode})
					s.deny("key-1", dynalimit.Amounts{"rpm": 1})
					s.clock.advance(599 * time.Millisecond)
					s.deny("key-1", dynalimit.Amounts{"rpm": 1})
					s.clock.advance(time.Millisecond)
					s.acquire("key-1", dynalimit.Amounts{"rpm": 1})
					s.deny("key-1", dynalimit.Amounts{"rpm": 1})
					denied := s.deny("key-1", dynalimit.Amounts{"tpm": 1})
					assert.Equal(t, 12_906*time.Millisecond, denied.RetryAfter, "the debt of 2,500 tokens at 1,500 ms before the clock began is refilled after 15 s")

					s.clock.advance(time.Minute)
					s.acquire("key-1", dynalimit.Amounts{"rpm": 1})
					bucket := s.stored("key-1", "rpm")
					assert.Equal(t, int64(102_000), bucket.Consumed, "the counter goes on")
					assert.Equal(t, int64(100_000), bucket.Burst)
					for _, key := range legacyKeys(t, s.repo) {
						assert.NotContains(t, key.SK, "#BUCKET#")
					}
					if version == "0.6" {
						assert.Equal(t, int64(742_000), s.stored("proj-1", "rpm").Consumed)
					}
				})
			})
		}
	}
}

// A bucket of the older layout that appears after the configuration was read is turned
// when its composite one is about to be made.
func TestLegacyBucketIsMetWhenABucketIsMade(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("user-1", "project-1")
		versioned(t, s.repo, map[string]string{"schema_version": "0.8.0"})
		p := s.peer(&dynalimit.Options{Limits: perMinute().Limits, ChargeMode: s.limiter.mode})
		_, err := p.limiter.Check(t.Context(), "user-1", model, nil)
		require.NoError(t, err)
		put(t, s.repo, exhausted(schema.Keys{}, "project-1", s.clock.now()))
		denied := p.deny("user-1", dynalimit.Amounts{"rpm": 1})
		assert.Equal(t, 600*time.Millisecond, denied.RetryAfter)
		assert.Equal(t, "project-1", denied.Primary().EntityID)
		assert.Empty(t, legacyKeys(t, s.repo))
		s.clock.advance(600 * time.Millisecond)
		p.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		p.deny("user-1", dynalimit.Amounts{"rpm": 1})
	})
}

// Whatever happens to the transaction that turns a bucket, or to the looks before it,
// what was left of it is admitted once.
func TestLegacyBucketUnderFaults(t *testing.T) {
	late := make(chan struct{})
	close(late)
	for name, fault := range map[string]struct {
		operation string
		fault     ddbmem.Fault
	}{
		"its answer is lost":               {"TransactWriteItems", ddbmem.Fault{Lose: true}},
		"it is lost":                       {"TransactWriteItems", ddbmem.Fault{Drop: true}},
		"it lands late":                    {"TransactWriteItems", ddbmem.Fault{Late: late}},
		"a conflict":                       {"TransactWriteItems", ddbmem.Fault{Error: cancelled("None", "TransactionConflict")}},
		"throttled":                        {"TransactWriteItems", ddbmem.Fault{Error: cancelled("ThrottlingError", "None")}},
		"the look is throttled":            {"Query", ddbmem.Fault{Error: &ddbmem.Error{Code: "ProvisionedThroughputExceededException"}}},
		"the look is lost":                 {"Query", ddbmem.Fault{Drop: true}},
		"the first write's answer is lost": {"UpdateItem", ddbmem.Fault{Lose: true}},
	} {
		for _, seen := range []string{"with the configuration", "when it is made"} {
			t.Run(name+", "+seen, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := liveProcess(t, memEngine(t), nil)
					versioned(t, s.repo, map[string]string{"schema_version": "0.8.0"})
					p := s.peer(&dynalimit.Options{Limits: []dynalimit.Limit{rpm}})
					if seen == "when it is made" {
						_, err := p.limiter.Check(t.Context(), "user-1", model, nil)
						require.NoError(t, err)
					}
					item := exhausted(schema.Keys{}, "user-1", time.Now())
					item["tokens_milli"] = schema.Number(5000)
					put(t, s.repo, item)
					start, admitted := time.Now(), int64(0)
					s.db.SetFaults(firstOf(fault.operation, 2, fault.fault))
					for range 40 {
						if _, err := p.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1}); err == nil {
							admitted++
						}
						elapse(10 * time.Millisecond)
					}
					p.recovers()
					s.db.Wait()
					most := 5 + time.Since(start).Milliseconds()*100/60_000
					assert.LessOrEqual(t, admitted, most)
					assert.GreaterOrEqual(t, admitted, int64(4), "and it is admitted: one may count whose answer was lost")
					assert.Empty(t, legacyKeys(t, s.repo))
					bucket := s.stored("user-1", "rpm")
					assert.GreaterOrEqual(t, bucket.Consumed, 100_000+admitted*milli)
				})
			})
		}
	}
}

// An older writer that is not stopped yet changes a bucket between the look and the
// transaction that turns it: it is turned as the writer left it.
func TestLegacyBucketThatChangesBeforeItIsTurned(t *testing.T) {
	for _, version := range []string{"0.5", "0.6"} {
		t.Run(version, func(t *testing.T) {
			e := memEngine(t)
			s := legacyProcess(t, e, version, nil)
			key := schema.Key{PK: "ENTITY#key-1", SK: "#BUCKET#" + model + "#rpm"}
			exhausted, err := s.repo.store.Get(t.Context(), "test", key)
			require.NoError(t, err)
			full := fuller(exhausted, 100_000)
			put(t, s.repo, full)
			other := e.open(t, s.repo.table, nil)
			e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
				if q.Operation == "TransactWriteItems" && bytes.Contains(q.Body, []byte("b_rpm_tk")) && bytes.Contains(q.Body, []byte("ENTITY#key-1")) {
					e.db.SetFaults(nil)
					put(t, other, exhausted)
				}
				return ddbmem.Fault{}
			})
			s.deny("key-1", dynalimit.Amounts{"rpm": 1})
			assert.Zero(t, s.level("key-1", "rpm"))
		})
	}
}

// fuller is a bucket of the older layout with other tokens.
func fuller(item schema.Item, tokens int64) schema.Item {
	item = maps.Clone(item)
	if nested, ok := item["data"].(*types.AttributeValueMemberM); ok {
		values := maps.Clone(nested.Value)
		values["tokens_milli"] = schema.Number(tokens)
		item["data"] = &types.AttributeValueMemberM{Value: values}
		return item
	}
	item["tokens_milli"] = schema.Number(tokens)
	return item
}

// A bucket of the older layout that cannot be read is no reason to make a full one: the
// error names the item, whenever it is met, and whatever the policy.
func TestMalformedLegacyBucket(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("user-1", "project-1")
		versioned(t, s.repo, map[string]string{"schema_version": "0.8.0"})
		opts := &dynalimit.Options{Limits: perMinute().Limits, ChargeMode: s.limiter.mode, OnUnavailable: dynalimit.Allow}
		known, cold := s.peer(opts), s.peer(opts)
		_, err := known.limiter.Check(t.Context(), "user-1", model, nil)
		require.NoError(t, err)
		item := exhausted(schema.Keys{}, "project-1", s.clock.now())
		delete(item, "burst_milli")
		put(t, s.repo, item)
		for _, p := range []*process{known, cold} {
			_, err := p.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})
			require.ErrorContains(t, err, "is malformed")
			require.ErrorContains(t, err, "#BUCKET#gpt-4#rpm")
			assert.False(t, errors.Is(err, dynalimit.ErrUnavailable))
		}
		assert.Len(t, legacyKeys(t, s.repo), 1)
		assert.Nil(t, s.item("project-1"))
	})
}

// The limits that items of the older layout say are in force at every source, and stay where
// they are. Migrate makes them today's items, listed as if they had been set.
func TestLegacyLimitsAreInForce(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		var logged bytes.Buffer
		r := legacyTable(t, e, "0.6", &dynalimit.RepositoryOptions{Principal: tester, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		before := legacyKeys(t, r)
		for _, test := range []struct {
			entity, resource string
			level            sources.Source
			limits           []dynalimit.Limit
		}{
			{"key-1", "claude-3", sources.Entity, []dynalimit.Limit{dynalimit.PerMinute("rpm", 20)}},
			{"proj-1", "any", sources.EntityDefault, []dynalimit.Limit{dynalimit.PerMinute("rpm", 1000)}},
			{"key-1", "gpt-4", sources.Resource, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100), dynalimit.PerMinute("tpm", 10_000).WithBurst(15_000)}},
			{"user-9", "other", sources.System, []dynalimit.Limit{dynalimit.PerMinute("rpm", 50)}},
		} {
			cfg, err := r.rereadConfig(t.Context(), test.entity, test.resource)
			require.NoError(t, err)
			assert.Equal(t, test.level, cfg.Source)
			assert.Equal(t, test.limits, cfg.limits)
			assert.EqualValues(t, dynalimit.Allow, cfg.OnUnavailable, "what the system's item said stays")
		}
		assert.Equal(t, before, legacyKeys(t, r), "a read turns nothing")
		require.NoError(t, r.Migrate(t.Context()))
		assert.Empty(t, legacyKeys(t, r))
		system, err := r.GetConfig(t.Context(), admin.Scope{Everyone: true})
		require.NoError(t, err)
		assert.Equal(t, []dynalimit.Limit{dynalimit.PerMinute("rpm", 50)}, system.Limits)
		assert.Equal(t, dynalimit.Allow, system.OnUnavailable)
		entities, err := r.EntitiesWithLimits(t.Context(), "")
		require.NoError(t, err)
		assert.Equal(t, []string{"proj-1"}, entities)
		counts, err := r.store.Get(t.Context(), "test", r.keys.EntityResources())
		require.NoError(t, err)
		assert.Equal(t, schema.Number(1), counts["claude-3"])
		assert.Equal(t, schema.Number(1), counts["_default_"])
	})
}

// Administration meets limits of the older layout too: it shows them, replaces them, and
// what it removes does not come back.
func TestLegacyLimitsAreAdministered(t *testing.T) {
	for name, change := range map[string]func(ctx context.Context, r *repository) error{
		"shown": func(ctx context.Context, r *repository) error {
			limits, err := limitsAt(r.GetConfig(ctx, admin.Scope{Everyone: true, Resource: model}))
			if err == nil && len(limits) != 2 {
				err = assert.AnError
			}
			return err
		},
		"replaced": func(ctx context.Context, r *repository) error {
			_, err := r.SetConfig(ctx, admin.Scope{Everyone: true, Resource: model}, admin.LimitConfig{Limits: oneLimit, Version: admin.AnyVersion, Only: true})
			return err
		},
		"removed": func(ctx context.Context, r *repository) error {
			return r.DeleteLimits(ctx, admin.Scope{Everyone: true, Resource: model})
		},
		"with its entity": func(ctx context.Context, r *repository) error { return r.DeleteEntity(ctx, "key-1") },
	} {
		t.Run(name, func(t *testing.T) {
			testEngines(t, func(t *testing.T, e *engine) {
				r := legacyTable(t, e, "0.6", &dynalimit.RepositoryOptions{Principal: tester})
				require.NoError(t, change(t.Context(), r))
				limits, err := limitsAt(e.open(t, r.table, nil).GetConfig(t.Context(), admin.Scope{Everyone: true, Resource: model}))
				require.NoError(t, err)
				own, err := limitsAt(e.open(t, r.table, nil).GetConfig(t.Context(), admin.Scope{Entity: "key-1", Resource: "claude-3"}))
				require.NoError(t, err)
				switch name {
				case "replaced":
					assert.Equal(t, oneLimit[0].Name, limits[0].Name)
				case "removed":
					assert.Empty(t, limits)
				case "with its entity":
					assert.Empty(t, own)
					assert.Empty(t, partition(t, r, "key-1"))
				}
				stays := slices.ContainsFunc(legacyKeys(t, r), func(key schema.Key) bool { return key.PK == "RESOURCE#gpt-4" })
				assert.Equal(t, name == "shown" || name == "with its entity", stays, "a change turns what it changes")
			})
		})
	}
}

// A service of zae-limiter may still need the items of a table: without its limits it refuses
// every call, and without its bucket it makes a full one. No read sends a write.
func TestReadsOfAnOlderTableWriteNothing(t *testing.T) {
	for _, version := range []string{"0.5", "0.6"} {
		t.Run(version, func(t *testing.T) {
			e := memEngine(t)
			clock := legacyClock()
			table := legacyTable(t, e, version, nil).table
			wire := record(e.db)
			for name, read := range readingCalls(t, e) {
				repo, err := openRepository(e.client(wire.Through), table, &dynalimit.RepositoryOptions{Now: clock.now})
				require.NoError(t, err)
				require.NoError(t, read(repo), name)
				for _, r := range wire.Take() {
					assert.Contains(t, []string{"GetItem", "BatchGetItem", "Query", "Scan"}, r.Operation, name)
				}
			}
		})
	}
}

// A dry run sees what a call would meet: the level of a bucket of the older layout, and the
// limits that apply.
func TestCheckSeesOlderItems(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := legacyProcess(t, e, "0.6", nil)
		before := legacyKeys(t, s.repo)
		report, err := s.limiter.Check(t.Context(), "key-1", model, dynalimit.Amounts{"rpm": 1})
		require.NoError(t, err)
		assert.False(t, report.Allowed, "the bucket is exhausted")
		assert.Equal(t, 600*time.Millisecond, report.RetryAfter)
		assert.Equal(t, before, legacyKeys(t, s.repo))
		s.deny("key-1", dynalimit.Amounts{"rpm": 1})
	})
}

// Another process turns the limits between the two requests of a read: they are found in
// one layout or the other.
func TestLimitsThatOthersTurnMeanwhile(t *testing.T) {
	for name, when := range map[string]struct {
		operation string
		known     bool
	}{
		"before the look, at first":        {"Query", false},
		"before the look, layout known":    {"Query", true},
		"after the look, layout known":     {"BatchGetItem", true},
		"after the look, layout not known": {"GetItem", false},
	} {
		t.Run(name, func(t *testing.T) {
			e := memEngine(t)
			r := legacyTable(t, e, "0.6", nil)
			if when.known {
				_, err := r.rereadConfig(t.Context(), "user-1", "unlimited")
				require.NoError(t, err)
			}
			other := e.open(t, r.table, &dynalimit.RepositoryOptions{Principal: tester})
			e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
				if q.Operation == when.operation {
					e.db.SetFaults(nil)
					assert.NoError(t, other.Migrate(t.Context()))
				}
				return ddbmem.Fault{}
			})
			cfg, err := r.rereadConfig(t.Context(), "user-1", model)
			require.NoError(t, err)
			assert.Empty(t, legacyKeys(t, r), "turned meanwhile")
			assert.Len(t, cfg.limits, 2)
			assert.Equal(t, sources.Resource, cfg.Source)
		})
	}
}

// A group takes no limits from the system or the entity's default, in whichever layout.
func TestGroupsOfAnOlderTableHaveTheirOwnLimits(t *testing.T) {
	e := memEngine(t)
	r := legacyTable(t, e, "0.6", &dynalimit.RepositoryOptions{Principal: tester})
	_, err := r.SetConfig(t.Context(), admin.Scope{Everyone: true, Resource: model}, admin.LimitConfig{Limits: oneLimit, Groups: []string{"all"}, Version: admin.AnyVersion, Only: true})
	require.NoError(t, err)
	resolved, err := r.ResolveLimits(t.Context(), "proj-1", model)
	require.NoError(t, err)
	require.Len(t, resolved.Groups, 1)
	assert.Empty(t, resolved.Groups[0].Limits)
}

// Limits that were set after the older layout win, and what the older layout said goes with
// the next change.
func TestCompositeLimitsWin(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		var logged bytes.Buffer
		r := legacyTable(t, e, "0.6", &dynalimit.RepositoryOptions{Principal: tester, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		put(t, r, schema.ConfigItem{Version: 3, Limits: []schema.ConfigLimit{{Name: "rpm", Capacity: 7, Burst: 7, RefillAmount: 7, RefillPeriod: time.Minute}}}.Item(schema.Keys{}, schema.ConfigOwner{Resource: model}, nil))
		cfg, err := r.rereadConfig(t.Context(), "user-1", model)
		require.NoError(t, err)
		assert.Equal(t, []dynalimit.Limit{dynalimit.PerMinute("rpm", 7)}, cfg.limits)
		_, err = r.SetConfig(t.Context(), admin.Scope{Everyone: true, Resource: model}, admin.LimitConfig{Limits: oneLimit, Version: admin.AnyVersion, Only: true})
		require.NoError(t, err)
		for _, key := range legacyKeys(t, r) {
			assert.NotEqual(t, "RESOURCE#gpt-4", key.PK)
		}
		assert.Contains(t, logged.String(), "level=WARN msg=\"items of the older layout were removed")
	})
}

// Limits that cannot be read are an error that names the item, not none.
func TestMalformedLegacyLimits(t *testing.T) {
	e := memEngine(t)
	r := legacyTable(t, e, "0.6", &dynalimit.RepositoryOptions{Principal: tester})
	wrong := schema.Item{"PK": schema.String("RESOURCE#gpt-4"), "SK": schema.String("#LIMIT#rpm"), "capacity": schema.String("many")}
	put(t, r, wrong)
	_, err := r.rereadConfig(t.Context(), "user-1", model)
	invalid := requireInvalid(t, err, "stored limits of the older layout")
	assert.Contains(t, invalid.Reason, "#LIMIT#rpm")
	_, err = r.rereadConfig(t.Context(), "user-1", "other")
	require.NoError(t, err)
	require.NoError(t, r.SetLimits(t.Context(), admin.Scope{Everyone: true, Resource: model}, oneLimit))
	_, err = r.rereadConfig(t.Context(), "user-1", model)
	requireInvalid(t, err, "stored limits of the older layout")
}

// With the marker nobody looks for the older layout; without it the looks are few, and
// none is in the way of a warm call.
func TestRequestsForLegacyItems(t *testing.T) {
	for _, marked := range []bool{true, false} {
		clock := newHandClock()
		e := memEngine(t, ddbmem.WithClock(clock.now))
		made := e.open(t, "limits", &dynalimit.RepositoryOptions{Now: clock.now})
		require.NoError(t, made.CreateTable(t.Context()))
		if !marked {
			versioned(t, made, map[string]string{"schema_version": "0.8.0"})
		}
		wire := record(e.db)
		repo, err := openRepository(e.client(wire.Through), "limits", &dynalimit.RepositoryOptions{Now: clock.now})
		require.NoError(t, err)
		s := (&process{engine: e, t: t, clock: clock}).on(repo, &dynalimit.Options{Limits: []dynalimit.Limit{rpm}})
		asked := func() (operations map[string]int) {
			operations = map[string]int{}
			for _, r := range wire.Take() {
				operations[r.Operation]++
			}
			return operations
		}
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		if marked {
			assert.Equal(t, map[string]int{"BatchGetItem": 1, "UpdateItem": 1}, asked(), "cold: two round trips")
		} else {
			assert.Equal(t, map[string]int{"BatchGetItem": 2, "GetItem": 1, "Query": 5, "UpdateItem": 1}, asked(), "the version is not known yet: the later record, four owners' limits, then all again; and the bucket")
		}
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		assert.Equal(t, map[string]int{"UpdateItem": 1}, asked(), "warm")
		clock.advance(2 * time.Minute)
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		assert.Equal(t, map[string]int{"BatchGetItem": 1, "UpdateItem": 1}, asked(), "looked at before")
		s.acquire("user-2", dynalimit.Amounts{"rpm": 1})
		if marked {
			assert.Equal(t, map[string]int{"BatchGetItem": 1, "UpdateItem": 1}, asked())
		} else {
			assert.Equal(t, map[string]int{"BatchGetItem": 1, "Query": 3, "UpdateItem": 1}, asked(), "the entity's limits, and its bucket")
		}
	}
}
