package admin_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
)

// A migration lists the records of entities that zae-limiter made, in every namespace, once.
func TestMigrateListsRecords(t *testing.T) {
	e := memEngine(t)
	whole := e.repository(t, nil)
	require.NoError(t, admin.New(whole).Namespaces.Register(t.Context(), "eu"))
	versioned(t, whole, map[string]string{"schema_version": "0.8.0", "updated_by": "client:0.8.1"})
	for _, r := range []*dynalimit.Repository{whole, e.open(t, whole.Table(), &dynalimit.RepositoryOptions{Namespace: "eu"})} {
		require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "org", Name: "Org"}))
		require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "key", ParentID: "org", Cascade: true}))
		for _, id := range []string{"org", "key"} {
			_, err := e.client().UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
				TableName: aws.String(r.Table()), Key: shared.Of(r).Keys.Meta(id).Attributes(), UpdateExpression: aws.String("REMOVE GSI3PK, GSI3SK, version"),
			})
			require.NoError(t, err)
		}
	}
	before := scan(t, whole)
	report, err := admin.New(e.open(t, whole.Table(), nil)).Migrate(t.Context(), true, nil)
	require.NoError(t, err)
	assert.Equal(t, 4, report.Listed)
	assert.ElementsMatch(t, before, scan(t, whole), "a dry run writes nothing")

	report, err = admin.New(e.open(t, whole.Table(), nil)).Migrate(t.Context(), false, nil)
	require.NoError(t, err)
	assert.Equal(t, 4, report.Listed)
	assert.True(t, report.Complete)
	for _, namespace := range []string{"", "eu"} {
		r := e.open(t, whole.Table(), &dynalimit.RepositoryOptions{Namespace: namespace})
		listed, err := collect(admin.New(r).Entities.List(t.Context()))
		require.NoError(t, err)
		require.Len(t, listed, 2)
		for _, id := range []string{"org", "key"} {
			read, err := admin.New(r).Entities.Get(t.Context(), id)
			require.NoError(t, err)
			assert.Contains(t, listed, read)
			assert.EqualValues(t, 1, read.Version)
			_, err = admin.New(r).Entities.Update(t.Context(), read)
			require.NoError(t, err)
		}
	}
}

// A migration turns what each version wrote, says so in the version record, and finds
// nothing the next time.
func TestMigrate(t *testing.T) {
	for version, want := range map[string]admin.MigrateReport{
		"0.5": {Buckets: 1, Configs: 2, Found: 5, Turned: 5, Listed: 1},
		"0.6": {Buckets: 2, Configs: 4, Found: 8, Turned: 8, Listed: 2},
		"0.7": {Configs: 1, Found: 1, Turned: 1},
	} {
		t.Run(version, func(t *testing.T) {
			testEngines(t, func(t *testing.T, e *engine) {
				want := want // of each engine
				clock := legacyClock()
				r := legacyTable(t, e, version, &dynalimit.RepositoryOptions{Now: clock.now}).As("ann")
				before := scan(t, r)

				dry, err := admin.New(r).Migrate(t.Context(), true, nil)
				require.NoError(t, err)
				if want.Buckets > 0 {
					want.LastWrite = legacyNoon()
				}
				first := want
				first.DryRun, first.Passes, first.Left, first.Scanned = true, 1, want.Found, int64(len(before))
				assert.Equal(t, first, dry)
				assert.ElementsMatch(t, before, scan(t, r), "a dry run writes nothing")

				var told []admin.MigrateReport
				done, err := admin.New(r).Migrate(t.Context(), false, func(p admin.MigrateReport) { told = append(told, p) })
				require.NoError(t, err)
				want.Complete, want.Passes, want.Scanned = true, 2, done.Scanned
				assert.Equal(t, want, done)
				assert.Empty(t, legacyKeys(t, r))
				require.NotEmpty(t, told)
				last := told[len(told)-1]
				assert.Equal(t, []any{2, done.Scanned, want.Found}, []any{last.Passes, last.Scanned, last.Found})

				item, err := shared.Of(r).Table.Get(t.Context(), "test", schema.VersionKey())
				require.NoError(t, err)
				record, _ := schema.DecodeVersion(item)
				assert.Equal(t, schema.VersionRecord{
					Schema: "0.8.0", ClientMin: "0.0.0", Lambda: record.Lambda, CompositeOnly: true, UpdatedBy: "dynalimit", UpdatedAt: legacyNoon(),
				}, record)
				assert.NotContains(t, item, "data")

				after := scan(t, r)
				again, err := admin.New(r).Migrate(t.Context(), false, nil)
				require.NoError(t, err)
				assert.Equal(t, admin.MigrateReport{Complete: true}, again)
				assert.ElementsMatch(t, after, scan(t, r), "a second run does nothing")

				events := trail(t, r, audit.Query{Target: audit.System})
				require.Len(t, events, 2)
				assert.Equal(t, "migration_started", events[0].Action)
				assert.Equal(t, "migration_finished", events[1].Action)
				fields := map[string]string{}
				for _, c := range events[1].Changes {
					fields[c.Field] = string(c.After)
				}
				assert.Equal(t, "ann", events[1].Principal)
				assert.Equal(t, "true", fields["composite_only"])
				assert.Equal(t, fmt.Sprint(want.Found), fields["found"])
				if version == "0.7" {
					assert.JSONEq(t, `"0.8.0"`, fields["schema_version"])
				}
			})
		})
	}
}

// On a table that is empty, or that a limiter of today has used, a migration finds that
// nothing is left, and no client looks from then on.
func TestMigrateMarksATableOfToday(t *testing.T) {
	e := memEngine(t)
	r := e.open(t, "limits", &dynalimit.RepositoryOptions{Principal: tester})
	tableOnly(t, e, r)
	report, err := admin.New(r).Migrate(t.Context(), false, nil)
	require.NoError(t, err)
	assert.Equal(t, 1, report.Passes)
	assert.True(t, report.Complete)
	wire := record(e.db)
	repo, err := dynalimit.NewRepository(e.client(wire.Through), "limits", nil)
	require.NoError(t, err)
	l, err := dynalimit.New(repo, &dynalimit.Options{Limits: []dynalimit.Limit{rpm}})
	require.NoError(t, err)
	_, err = l.Acquire(t.Context(), "u", model, dynalimit.Amounts{"rpm": 1})
	require.NoError(t, err)
	require.NoError(t, l.Close(t.Context()))
	assert.Len(t, wire.Take(), 2)
}

// A migration turns the table, whatever the namespace of whoever runs it, and mixes none
// with another.
func TestMigrateTurnsEveryNamespace(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		clock := newHandClock()
		made := e.repository(t, &dynalimit.RepositoryOptions{Now: clock.now})
		for _, namespace := range []string{"eu", "us"} {
			require.NoError(t, admin.New(made).Namespaces.Register(t.Context(), namespace))
		}
		versioned(t, made, map[string]string{"schema_version": "0.8.0"})
		for i, namespace := range []string{"", "eu", "us"} {
			item := exhausted(schema.NewKeys(namespace), "user-1", clock.now())
			item["tokens_milli"] = schema.Number(int64(i) * 1000)
			put(t, made, item)
		}
		report, err := admin.New(e.open(t, made.Table(), &dynalimit.RepositoryOptions{Now: clock.now, Namespace: "eu"})).Migrate(t.Context(), false, nil)
		require.NoError(t, err)
		assert.Equal(t, 3, report.Buckets)
		for i, namespace := range []string{"", "eu", "us"} {
			p := (&process{engine: e, t: t, clock: clock}).on(e.open(t, made.Table(), &dynalimit.RepositoryOptions{Now: clock.now, Namespace: namespace}), &dynalimit.Options{Limits: []dynalimit.Limit{rpm}})
			assert.Equal(t, int64(i), p.level("user-1", "rpm"), namespace)
		}
	})
}

// Several migrations of one table at once turn each bucket once between them.
func TestMigrationsBesideEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := legacyTable(t, e, "0.7", nil)
		const buckets = 100
		for i := range buckets {
			put(t, r, exhausted(schema.Keys{}, fmt.Sprintf("user-%d", i), noon()))
		}
		e.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Before: time.Duration(rand.N(3)+1) * time.Millisecond}
		})
		var mu sync.Mutex
		var wg sync.WaitGroup
		turned := 0
		for range 3 {
			p := e.open(t, r.Table(), nil)
			wg.Go(func() {
				report, err := admin.New(p).Migrate(t.Context(), false, nil)
				assert.NoError(t, err)
				assert.True(t, report.Complete)
				mu.Lock()
				turned += report.Buckets
				mu.Unlock()
			})
		}
		wg.Wait()
		e.db.SetFaults(nil)
		assert.Equal(t, buckets, turned)
		assert.Empty(t, legacyKeys(t, r))
		again, err := admin.New(e.open(t, r.Table(), nil)).Migrate(t.Context(), false, nil)
		require.NoError(t, err)
		assert.Equal(t, admin.MigrateReport{Complete: true}, again)
	})
}

// A migration whose caller leaves says so, and is no report of success.
func TestMigrateIsLeft(t *testing.T) {
	e := memEngine(t)
	r := legacyTable(t, e, "0.6", nil)
	ctx, cancel := context.WithCancel(t.Context())
	report, err := admin.New(r).Migrate(ctx, false, func(admin.MigrateReport) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
	assert.False(t, report.Complete)
	assert.False(t, shared.Of(r).Layout.Current())
	assert.Len(t, trail(t, r, audit.Query{Target: audit.System}), 1, "its start alone")
	report, err = admin.New(r).Migrate(t.Context(), false, nil)
	require.NoError(t, err)
	assert.True(t, report.Complete)
}

// What may not be done is refused before anything is written.
func TestMigrateIsRefused(t *testing.T) {
	e := memEngine(t)
	r := legacyTable(t, e, "0.6", nil)
	before := scan(t, r)
	_, err := admin.New(r.As("")).Migrate(t.Context(), false, nil)
	requireInvalid(t, err, "principal")
	_, err = admin.New(r.As("")).Migrate(t.Context(), true, nil)
	require.NoError(t, err, "who only looks need not say who he is")
	assert.ElementsMatch(t, before, scan(t, r))
	versioned(t, r, map[string]string{"schema_version": "2.0.0"})
	_, err = admin.New(r.As("ann")).Migrate(t.Context(), false, nil)
	require.ErrorIs(t, err, fault.ErrVersion)
	_, err = admin.New((*dynalimit.Repository)(nil)).Migrate(t.Context(), false, nil)
	requireInvalid(t, err, "repository")
}

// Items that cannot be read are named, keep nothing else from being turned, and keep the
// record from saying that nothing is left.
func TestMigrateNamesWhatItCannotRead(t *testing.T) {
	e := memEngine(t)
	r := legacyTable(t, e, "0.6", &dynalimit.RepositoryOptions{Principal: tester})
	wrong := exhausted(schema.Keys{}, "broken", noon())
	wrong["refill_period_ms"] = schema.Number(0)
	put(t, r, wrong)
	report, err := admin.New(r).Migrate(t.Context(), false, nil)
	require.ErrorIs(t, err, admin.ErrLegacyMalformed)
	require.ErrorContains(t, err, "ENTITY#broken")
	require.Len(t, report.Malformed, 2, "in each pass")
	assert.Equal(t, 1, report.Left)
	assert.Equal(t, report.Found, report.Turned+report.Superseded+report.Elsewhere+report.Unreadable)
	assert.False(t, report.Complete)
	assert.Len(t, legacyKeys(t, r), 1)
	assert.False(t, shared.Of(r).Layout.Current())

	require.NoError(t, shared.Of(r).Table.BatchDelete(t.Context(), "test", []schema.Key{schema.KeyOf(wrong)}))
	report, err = admin.New(r).Migrate(t.Context(), false, nil)
	require.NoError(t, err)
	assert.True(t, report.Complete)
	assert.Len(t, trail(t, r, audit.Query{Target: audit.System}), 4)
}

// Writers of the older layout that live are told of: the record does not say that
// nothing is left.
func TestMigrateTellsOfWriters(t *testing.T) {
	e := memEngine(t)
	r := legacyTable(t, e, "0.6", &dynalimit.RepositoryOptions{Principal: tester})
	other := e.open(t, r.Table(), nil)
	n := 0
	report, err := admin.New(r).Migrate(t.Context(), false, func(admin.MigrateReport) {
		n++
		put(t, other, exhausted(schema.Keys{}, fmt.Sprintf("late-%d", n), noon()))
	})
	require.ErrorIs(t, err, admin.ErrLegacyWriters)
	assert.Equal(t, 8, report.Passes)
	assert.False(t, report.Complete)
	assert.Equal(t, report.Found, report.Turned)
}

// Today's items that are there already win; what they supersede goes.
func TestMigrateRemovesWhatIsSuperseded(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, &dynalimit.Options{Limits: []dynalimit.Limit{rpm}})
		s.acquire("user-1", dynalimit.Amounts{"rpm": 40})
		versioned(t, s.repo, map[string]string{"schema_version": "0.8.0"})
		put(t, s.repo, exhausted(schema.Keys{}, "user-1", s.clock.now()))
		report, err := admin.New(s.repo).Migrate(t.Context(), false, nil)
		require.NoError(t, err)
		assert.Equal(t, 1, report.Superseded)
		assert.Zero(t, report.Turned)
		assert.True(t, report.Complete)
		assert.Empty(t, legacyKeys(t, s.repo))
		assert.Equal(t, int64(60), s.level("user-1", "rpm"))
	})
}

// 1,000 buckets of the older layout, takers that never stop, and a migration that is
// killed again and again, with faults all the while: nobody is admitted more than was left
// and what is refilled, and nothing of the older layout is left behind.
func TestMigrateIsKilledAgainAndAgain(t *testing.T) {
	const buckets, takers, kills = 1000, 8, 20
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.open(t, "limits", &dynalimit.RepositoryOptions{Principal: tester})
		tableOnly(t, e, r)
		began := time.Now()
		left := make([]int64, buckets)
		random := rand.New(rand.NewPCG(7, 11))
		for i := range buckets {
			left[i] = random.Int64N(8)
			item := exhausted(schema.Keys{}, fmt.Sprintf("user-%d", i), began)
			item["tokens_milli"] = schema.Number(left[i] * milli)
			put(t, r, item)
		}
		require.NoError(t, admin.New(e.open(t, "limits", &dynalimit.RepositoryOptions{Principal: tester})).Limits.Set(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{rpm}))
		e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			f := ddbmem.Fault{Before: time.Duration(rand.N(3)+1) * time.Millisecond}
			if q.Operation == "TransactWriteItems" {
				switch rand.N(20) {
				case 0:
					f.Lose = true
				case 1:
					f.Error = cancelled("None", "TransactionConflict")
				case 2:
					f.Error = cancelled("ThrottlingError", "None")
				}
			}
			return f
		})

		admitted := make([]int64, buckets)
		var mu sync.Mutex
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range takers {
			l, err := dynalimit.New(e.open(t, "limits", nil), nil)
			require.NoError(t, err)
			wg.Go(func() {
				defer func() { assert.NoError(t, l.Close(context.WithoutCancel(ctx))) }()
				for ctx.Err() == nil {
					i := rand.N(buckets)
					_, err := l.Acquire(t.Context(), fmt.Sprintf("user-%d", i), model, dynalimit.Amounts{"rpm": 1})
					if err == nil {
						mu.Lock()
						admitted[i]++
						mu.Unlock()
					}
					if errors.Is(err, dynalimit.ErrUnavailable) { // at once, so that no time would pass
						elapse(time.Millisecond)
					}
				}
			})
		}
		migrator := e.open(t, "limits", &dynalimit.RepositoryOptions{Principal: tester})
		for range kills {
			killed, cancel := context.WithTimeout(t.Context(), time.Duration(rand.N(18)+4)*time.Millisecond)
			report, err := admin.New(migrator).Migrate(killed, false, nil)
			cancel()
			assert.Equal(t, report.Found, report.Turned+report.Superseded+report.Elsewhere+report.Unreadable)
			require.Error(t, err, "it is killed before its end")
		}
		before := len(legacyKeys(t, r))
		assert.Positive(t, before)
		report, err := admin.New(migrator).Migrate(t.Context(), false, nil)
		require.NoError(t, err)
		assert.True(t, report.Complete)
		assert.LessOrEqual(t, report.Found, before)
		elapse(200 * time.Millisecond)
		stop()
		wg.Wait()
		e.db.SetFaults(nil)
		e.db.Wait()

		assert.Empty(t, legacyKeys(t, r))
		refilled := time.Since(began).Milliseconds() * 100 / 60_000
		var all, most int64
		for i := range buckets {
			assert.LessOrEqual(t, admitted[i], left[i]+refilled, "user-%d, of which %d were left", i, left[i])
			all, most = all+admitted[i], most+left[i]
		}
		assert.Positive(t, all)
		t.Logf("%d admitted of %d left and %d refilled each, in %v; %d were left for the last run", all, most, refilled, time.Since(began), before)
		after := scan(t, r)
		again, err := admin.New(migrator).Migrate(t.Context(), false, nil)
		require.NoError(t, err)
		assert.Equal(t, admin.MigrateReport{Complete: true}, again)
		assert.ElementsMatch(t, after, scan(t, r), "a second run does nothing")
	})
}
