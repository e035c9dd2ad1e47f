package dynalimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/testworld"
)

// versioned puts a version record that says this.
func versioned(t *testing.T, r *repository, attributes map[string]string) {
	t.Helper()
	item := schema.VersionKey().Attributes()
	for name, value := range attributes {
		item[name] = schema.String(value)
	}
	put(t, r, item)
}

// A layout that is not known is refused by every call that would write, before anything is
// written, with what the table has and what to do, whatever the policy is. A table of zae-limiter
// 0.9 or later has its record elsewhere, and after an upgrade in place the older record is still
// there: calls that only read refuse it too.
func TestUnknownLayoutIsRefused(t *testing.T) {
	const later = "zae-limiter 0.10 or later"
	for name, test := range map[string]struct {
		record         map[string]string
		schema, reason string
	}{
		"a newer major":                 {map[string]string{"schema_version": "2.0.0", "client_min_version": "0.0.0"}, "2.0.0", "version of dynalimit"},
		"a newer client":                {map[string]string{"schema_version": "0.8.0", "client_min_version": "7.0.0"}, "0.8.0", "version of dynalimit"},
		"a 1.0.0 that is new":           {map[string]string{"schema_version": "1.0.0", "updated_by": "client:1.0.0"}, "1.0.0", "version of dynalimit"},
		"made by a later library":       {nil, "0.10.0", later},
		"upgraded by one, in its place": {map[string]string{"schema_version": "0.8.0", "updated_by": "client:0.8.1"}, "0.10.0", later},
	} {
		t.Run(name, func(t *testing.T) {
			testEngines(t, func(t *testing.T, e *engine) {
				ctx, r := t.Context(), e.open(t, testworld.NewTableName(), nil)
				tableOnly(t, e, r)
				e.deleteAfter(t, r.table)
				if test.record != nil {
					versioned(t, r, test.record)
				}
				put(t, r, limited(dynalimit.Amounts{"rpm": 1000}).Item(schema.Keys{}, schema.ConfigOwner{}, nil))
				calls := map[string]func(*repository) error{}
				if test.reason == later {
					record := schema.LaterVersionKey().Attributes()
					record["schema_version"], record["client_min_version"] = schema.String("0.10.0"), schema.String("0.0.0")
					put(t, r, record)
					calls = readingCalls(t, e)
					calls["Migrate"] = func(r *repository) error { return r.Migrate(ctx) }
				}
				limiter := func(r *repository) *rateLimiter {
					l, err := openLimiter(r, &dynalimit.Options{OnUnavailable: dynalimit.Allow})
					require.NoError(t, err)
					t.Cleanup(func() { _ = l.Close(context.WithoutCancel(ctx)) })
					return l
				}
				one := dynalimit.Amounts{"rpm": 1}
				calls["Acquire"] = func(r *repository) error { return second(limiter(r).Acquire(ctx, "u", model, one)) }
				calls["WithLimits"] = func(r *repository) error {
					return second(limiter(r).Acquire(ctx, "u", model, one, dynalimit.WithLimits(dynalimit.PerMinute("rpm", 9))))
				}
				calls["Wait"] = func(r *repository) error { return second(limiter(r).Wait(ctx, "u", model, one)) }
				calls["Check"] = func(r *repository) error { return second(limiter(r).Check(ctx, "u", model, nil)) }
				calls["CreateTable"] = func(r *repository) error { return r.CreateTable(ctx) }
				calls["CreateEntity"] = func(r *repository) error { return r.CreateEntity(ctx, admin.Entity{ID: "u"}) }
				calls["DeleteEntity"] = func(r *repository) error { return r.DeleteEntity(ctx, "u") }
				calls["SetLimits"] = func(r *repository) error { return r.SetLimits(ctx, admin.Scope{Everyone: true}, oneLimit) }
				calls["DeleteLimits"] = func(r *repository) error { return r.DeleteLimits(ctx, admin.Scope{Entity: "u"}) }
				before, early := scan(t, r), limiter(r)
				require.ErrorIs(t, second(early.Acquire(ctx, "u", model, one)), fault.ErrVersion)
				for call, do := range calls {
					r := e.open(t, r.table, nil)
					for range 2 {
						err := do(r)
						refused, ok := errors.AsType[*fault.VersionError](err)
						require.True(t, ok, "%s: %v", call, err)
						require.ErrorIs(t, err, fault.ErrVersion, call)
						assert.Equal(t, []string{r.table, test.schema, "0.8.0"}, []string{refused.Table, refused.Schema, refused.KnownSchema}, call)
						assert.ErrorContains(t, err, test.reason, call)
						assert.NotErrorIs(t, err, dynalimit.ErrUnavailable, "it is no outage")
					}
				}
				assert.Equal(t, before, scan(t, r), "nothing was written")
				if test.reason != later {
					versioned(t, r, map[string]string{"schema_version": "0.8.0"})
					require.NoError(t, second(early.Acquire(ctx, "u", model, one)), "as soon as the table can be used")
				}
			})
		})
	}
}

// A process that runs for long notices within ten minutes, and what it has cached is not
// used past that.
func TestVersionIsReadAgain(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{rpm}}, func(t *testing.T, s *process) {
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		versioned(t, s.repo, map[string]string{"schema_version": "3.1.0"})
		s.clock.advance(9 * time.Minute)
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		s.clock.advance(time.Minute)
		_, err := s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})
		require.ErrorIs(t, err, fault.ErrVersion)
		_, err = s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})
		require.ErrorIs(t, err, fault.ErrVersion, "and from then on")
	})
}

// The record costs a key of a batch that is read anyway: once, and once in ten minutes.
func TestVersionIsReadWithTheConfiguration(t *testing.T) {
	clock := newHandClock()
	e := memEngine(t, ddbmem.WithClock(clock.now))
	require.NoError(t, e.open(t, "limits", nil).CreateTable(t.Context()))
	wire := record(e.db)
	repo, err := openRepository(e.client(wire.Through), "limits", &dynalimit.RepositoryOptions{Principal: tester, Now: clock.now})
	require.NoError(t, err)
	s := (&process{engine: e, t: t, clock: clock}).on(repo, &dynalimit.Options{Limits: []dynalimit.Limit{rpm}})
	s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
	s.acquire("user-2", dynalimit.Amounts{"rpm": 1})
	s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
	asked := func() (operations []string, versions int) {
		for _, r := range wire.Take() {
			operations = append(operations, r.Operation)
			versions += strings.Count(fmt.Sprint(r.Request), "#VERSION")
		}
		return operations, versions
	}
	operations, versions := asked()
	assert.Equal(t, []string{"BatchGetItem", "UpdateItem", "BatchGetItem", "UpdateItem", "UpdateItem"}, operations)
	assert.Equal(t, 1, versions)
	clock.advance(9 * time.Minute)
	s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
	_, versions = asked()
	assert.Zero(t, versions)
	clock.advance(time.Minute)
	s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
	_, versions = asked()
	assert.Equal(t, 1, versions)
	require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, oneLimit))
	_, versions = asked()
	assert.Zero(t, versions, "a change looks once in the life of a repository")
}

// What an operator should know of a layout is said once in the life of a repository.
func TestOlderLayoutIsToldOnce(t *testing.T) {
	for name, test := range map[string]struct {
		record map[string]string
		want   string
	}{
		"zae-limiter 0.6": {map[string]string{"schema_version": "1.0.0", "updated_by": "client:0.6.1"}, "older layout"},
		"zae-limiter 0.7": {map[string]string{"schema_version": "0.7.0"}, "older layout"},
		"a newer minor":   {map[string]string{"schema_version": "0.10.0"}, "newer layout"},
		"nothing said":    {map[string]string{"lambda_version": "0.8.1"}, "no version record"},
		"ours":            {map[string]string{"schema_version": "0.8.0"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := memEngine(t)
			made := e.repository(t, nil)
			versioned(t, made, test.record)
			var logged bytes.Buffer
			clock := newHandClock()
			r := e.open(t, made.table, &dynalimit.RepositoryOptions{Now: clock.now, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
			for range 3 {
				_, err := r.rereadConfig(t.Context(), "u", model)
				require.NoError(t, err)
				require.NoError(t, r.CreateTable(t.Context()))
				clock.advance(time.Hour)
			}
			if test.want == "" {
				assert.NotContains(t, logged.String(), "level=WARN")
				assert.Equal(t, 1, strings.Count(logged.String(), "Admin.Migrate"), "what would be cheaper")
				return
			}
			assert.Equal(t, 1, strings.Count(logged.String(), "level=WARN"), logged.String())
			assert.Contains(t, logged.String(), test.want)
		})
	}
}

// readingCalls are all calls that only read, as functions of a repository.
func readingCalls(t *testing.T, e *engine) map[string]func(*repository) error {
	t.Helper()
	ctx := t.Context()
	check := func(r *repository, amounts dynalimit.Amounts) error {
		l, err := openLimiter(r, &dynalimit.Options{Limits: oneLimit, OnUnavailable: dynalimit.Allow})
		require.NoError(t, err)
		defer func() { _ = l.Close(context.WithoutCancel(ctx)) }()
		_, err = l.Check(ctx, "key-1", model, amounts)
		return err
	}
	usage := func(read func(*aggregator.Reader) iter.Seq2[aggregator.Usage, error]) func(*repository) error {
		return func(r *repository) error {
			reader, err := aggregator.NewReader(e.client(), r.table, nil)
			require.NoError(t, err)
			return readAll(read(reader))
		}
	}
	hour := aggregator.Query{Window: aggregator.Hour, From: time.Now().Add(-time.Hour), To: time.Now()}
	return map[string]func(*repository) error{
		"Check":         func(r *repository) error { return check(r, nil) },
		"Check amounts": func(r *repository) error { return check(r, dynalimit.Amounts{"rpm": 1}) },
		"ResolveLimits": func(r *repository) error { _, err := r.ResolveLimits(ctx, "key-1", model); return err },
		"GetConfig":     func(r *repository) error { _, err := r.GetConfig(ctx, admin.Scope{Everyone: true}); return err },
		"GetConfigs": func(r *repository) error {
			_, err := r.admin().Limits.GetConfigs(ctx, []admin.Scope{{Everyone: true}, {Everyone: true, Resource: model}, {Entity: "proj-1"}})
			return err
		},
		"Scopes":            func(r *repository) error { return readAll(r.admin().Limits.Scopes(ctx)) },
		"Resources":         func(r *repository) error { return readAll(r.admin().Limits.Resources(ctx)) },
		"Plans":             func(r *repository) error { return readAll(r.admin().Limits.Plans(ctx)) },
		"Limits.Entities":   func(r *repository) error { return readAll(r.admin().Limits.Entities(ctx, "")) },
		"Entities.Get":      func(r *repository) error { _, err := r.GetEntity(ctx, "key-1"); return err },
		"Entities.GetMany":  func(r *repository) error { _, err := r.admin().Entities.GetMany(ctx, []string{"key-1"}); return err },
		"Entities.List":     func(r *repository) error { return readAll(r.admin().Entities.List(ctx)) },
		"Entities.Children": func(r *repository) error { return readAll(r.admin().Entities.Children(ctx, "proj-1")) },
		"Buckets.List":      func(r *repository) error { return readAll(r.admin().Buckets.List(ctx, "key-1")) },
		"Buckets.OfResource": func(r *repository) error {
			return readAll(r.admin().Buckets.OfResource(ctx, model))
		},
		"Namespaces.Get":  func(r *repository) error { _, err := r.admin().Namespaces.Get(ctx, "acme"); return err },
		"Namespaces.List": func(r *repository) error { return readAll(r.admin().Namespaces.List(ctx)) },
		"AuditEvents":     func(r *repository) error { return readAll(r.admin().AuditEvents(ctx, audit.Query{})) },
		"AuditEvents of a target": func(r *repository) error {
			return readAll(r.admin().AuditEvents(ctx, audit.Query{Target: audit.System}))
		},
		"Migrate, dry run": func(r *repository) error { _, err := r.admin().Migrate(ctx, true, nil); return err },
		"usage of an entity": usage(func(r *aggregator.Reader) iter.Seq2[aggregator.Usage, error] {
			return r.Entity(ctx, "key-1", hour)
		}),
		"usage of a resource": usage(func(r *aggregator.Reader) iter.Seq2[aggregator.Usage, error] {
			return r.Resource(ctx, model, hour)
		}),
		"usage of all entities": usage(func(r *aggregator.Reader) iter.Seq2[aggregator.Usage, error] { return r.Entities(ctx, hour) }),
	}
}

// readAll reads a list to its end or first error.
func readAll[T any](list iter.Seq2[T, error]) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

// A role that may not read the record of zae-limiter 0.9 cannot tell, and goes on.
func TestRoleWithoutTheLaterRecordGoesOn(t *testing.T) {
	e := memEngine(t)
	made := e.repository(t, nil)
	versioned(t, made, map[string]string{"schema_version": "0.8.0"})
	e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
		if q.Operation == "GetItem" && bytes.Contains(q.Body, []byte(schema.LaterVersionKey().PK)) {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "no"}}
		}
		return ddbmem.Fault{}
	})
	l, err := openLimiter(e.open(t, made.table, nil), &dynalimit.Options{Limits: oneLimit})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close(context.WithoutCancel(t.Context())) })
	_, err = l.Acquire(t.Context(), "u", model, dynalimit.Amounts{oneLimit[0].Name: 1})
	require.NoError(t, err)
}

// The record of a table says that nothing of an older layout is in it only where that is
// sure: whoever makes the table says so, even if another wrote the record first, and who
// finds it empty.
func TestMarkerOfTheTableThatWasMade(t *testing.T) {
	for name, test := range map[string]struct {
		before func(t *testing.T, e *engine, r *repository)
		first  string // writes the record before the one who makes the table does
		marked bool
	}{
		"made here":            {marked: true},
		"found, holds nothing": {before: tableOnly, marked: true},
		"found, holds something": {before: func(t *testing.T, e *engine, r *repository) {
			tableOnly(t, e, r)
			_, err := e.client().PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &r.table, Item: r.keys.Meta("key-1").Attributes()})
			require.NoError(t, err)
		}},
		"found, by one who may not look": {before: func(t *testing.T, e *engine, r *repository) {
			tableOnly(t, e, r)
			e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
				if q.Operation == "Scan" {
					return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "no"}}
				}
				return ddbmem.Fault{}
			})
		}},
		"made here, found by another": {first: "dynalimit", marked: true},
		"made here, written by zae":   {first: "client:0.6.1"},
		"found, with a record without it": {before: func(t *testing.T, e *engine, r *repository) {
			tableOnly(t, e, r)
			versioned(t, r, map[string]string{"schema_version": "0.8.0", "updated_by": "dynalimit"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			e := memEngine(t)
			r := e.open(t, "limits", nil)
			if test.before != nil {
				test.before(t, e, r)
			}
			if test.first != "" {
				other := e.open(t, "limits", nil)
				e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
					if q.Operation == "PutItem" {
						e.db.SetFaults(nil)
						versioned(t, other, map[string]string{"schema_version": "0.8.0", "updated_by": test.first})
					}
					return ddbmem.Fault{}
				})
			}
			require.NoError(t, r.CreateTable(t.Context()))
			item, err := r.store.Get(t.Context(), "test", schema.VersionKey())
			require.NoError(t, err)
			record, ok := schema.DecodeVersion(item)
			require.True(t, ok)
			assert.Equal(t, test.marked, record.CompositeOnly)
			assert.Equal(t, test.marked, record.KindsMin == schema.KnownKinds, "older versions may use a table that was found")
			assert.Equal(t, test.marked, sharedOf(r).Layout.Current())
		})
	}
}

// tableOnly makes the table as infrastructure code does: without a record.
func tableOnly(t *testing.T, e *engine, r *repository) {
	t.Helper()
	_, err := e.client().CreateTable(t.Context(), r.TableInput())
	require.NoError(t, err)
}

// scan is every item of the table.
func scan(t *testing.T, r *repository) []schema.Item {
	t.Helper()
	client, ok := r.client.(interface {
		Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
	})
	require.True(t, ok)
	var items []schema.Item
	in := &dynamodb.ScanInput{TableName: &r.table}
	for {
		out, err := client.Scan(t.Context(), in)
		require.NoError(t, err)
		items = append(items, out.Items...)
		if out.LastEvaluatedKey == nil {
			return items
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}
