package dynalimit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/testworld"
	"github.com/dynalimit/dynalimit/sources"
)

func TestCreateTable(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.open(t, testworld.NewTableName(), &dynalimit.RepositoryOptions{Now: noon})
		e.deleteAfter(t, r.table)
		for range 2 {
			require.NoError(t, r.CreateTable(t.Context()), "a second call finds it as it is")
		}
		out, err := e.client().DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &r.table})
		require.NoError(t, err)
		assert.Equal(t, types.StreamViewTypeNewAndOldImages, out.Table.StreamSpecification.StreamViewType)
		for _, x := range out.Table.GlobalSecondaryIndexes {
			assert.NotEqual(t, types.ProjectionTypeAll, x.Projection.ProjectionType, "an acquire must not be charged for %s", *x.IndexName)
		}
		ttl, err := e.client().DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &r.table})
		require.NoError(t, err)
		assert.Equal(t, schema.TTL, aws.ToString(ttl.TimeToLiveDescription.AttributeName))

		version, err := r.store.Get(t.Context(), "test", schema.VersionKey())
		require.NoError(t, err)
		assert.Equal(t, schema.Item{
			"PK": schema.String("SYSTEM#"), "SK": schema.String("#VERSION"), "schema_version": schema.String("0.8.0"),
			"client_min_version": schema.String("0.0.0"), "updated_at": schema.String("2099-01-02T12:00:00Z"), "updated_by": schema.String("dynalimit"),
			"composite_only": &types.AttributeValueMemberBOOL{Value: true}, "kinds_min": schema.Number(schema.KnownKinds),
		}, version)
	})
}

func TestCreateTableRefusesAnotherTTL(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.open(t, testworld.NewTableName(), nil)
		_, err := e.client().CreateTable(t.Context(), r.TableInput())
		require.NoError(t, err)
		e.deleteAfter(t, r.table)
		_, err = e.client().UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
			TableName: &r.table, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("expires"), Enabled: aws.Bool(true)},
		})
		require.NoError(t, err)
		require.ErrorContains(t, r.CreateTable(t.Context()), `by the attribute "expires"`)
	})
}

// slowTable answers DescribeTable as DynamoDB does for a table being made.
type slowTable struct {
	dynalimit.DynamoDB
	ready  time.Time
	index  types.IndexStatus
	looked int
}

func (s *slowTable) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, fns ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	s.looked++
	out, err := s.DynamoDB.DescribeTable(ctx, in, fns...)
	if err == nil && time.Now().Before(s.ready) {
		if s.index != "" {
			out.Table.GlobalSecondaryIndexes[0].IndexStatus = s.index
		} else {
			out.Table.TableStatus = types.TableStatusCreating
		}
	}
	return out, err
}

func TestCreateTableWaits(t *testing.T) {
	for name, index := range map[string]types.IndexStatus{"for the table": "", "for its indexes": types.IndexStatusCreating} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := memEngine(t)
				slow := &slowTable{DynamoDB: e.client(), ready: time.Now().Add(30 * time.Second), index: index}
				r, err := openRepository(slow, "limits", &dynalimit.RepositoryOptions{Principal: tester})
				require.NoError(t, err)
				start := time.Now()
				require.NoError(t, r.CreateTable(t.Context()))
				assert.GreaterOrEqual(t, time.Since(start), 30*time.Second)
				assert.LessOrEqual(t, time.Since(start), 30*time.Second+2*time.Second)
				assert.Less(t, slow.looked, 40, "it does not hammer")
			})
		})
	}
}

func TestCreateTableGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		slow := &slowTable{DynamoDB: e.client(), ready: time.Now().Add(time.Hour)}
		r, err := openRepository(slow, "limits", &dynalimit.RepositoryOptions{Principal: tester})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, r.CreateTable(ctx), context.DeadlineExceeded)
		err = r.CreateTable(t.Context())
		require.ErrorIs(t, err, fault.ErrTable)
		assert.ErrorContains(t, err, "is not active after 10m0s")
	})
}

func TestCreateTableReportsFailures(t *testing.T) {
	for _, operation := range []string{"DescribeTable", "CreateTable", "DescribeTimeToLive", "UpdateTimeToLive", "PutItem"} {
		t.Run(operation, func(t *testing.T) {
			e := memEngine(t)
			e.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
				if r.Operation == operation {
					return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "no"}}
				}
				return ddbmem.Fault{}
			})
			err := e.open(t, "limits", nil).CreateTable(t.Context())
			require.ErrorContains(t, err, "AccessDeniedException")
			assert.False(t, errors.Is(err, dynalimit.ErrUnavailable), "a missing permission is no outage")
			e.db.SetFaults(nil)
			assert.NoError(t, e.open(t, "limits", nil).CreateTable(t.Context()), "a call that failed can be repeated")
		})
	}
}

func TestCreateTableRemarksOnTablesOfOthers(t *testing.T) {
	e := memEngine(t)
	var logged bytes.Buffer
	r := e.open(t, "limits", &dynalimit.RepositoryOptions{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	in := r.TableInput()
	in.StreamSpecification = nil
	in.GlobalSecondaryIndexes[1].Projection = &types.Projection{ProjectionType: types.ProjectionTypeAll}
	_, err := e.client().CreateTable(t.Context(), in)
	require.NoError(t, err)
	require.NoError(t, r.CreateTable(t.Context()))
	assert.Contains(t, logged.String(), "index GSI2 projects all attributes")
	assert.Contains(t, logged.String(), "no stream of new and old images")

	logged.Reset()
	ours := e.open(t, "ours", &dynalimit.RepositoryOptions{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	require.NoError(t, ours.CreateTable(t.Context()))
	assert.Empty(t, logged.String())
}

func TestTableRequests(t *testing.T) {
	e := memEngine(t)
	wire := record(e.db)
	r, err := openRepository(e.client(wire.Through), "limits", &dynalimit.RepositoryOptions{Principal: tester, Now: noon})
	require.NoError(t, err)
	require.NoError(t, r.CreateTable(t.Context()))
	assertGolden(t, "create_table", wire.Take())
	require.NoError(t, r.CreateTable(t.Context()))
	assertGolden(t, "create_table_again", wire.Take())
}

// TestTableWithoutAnIndex: a table of zae-limiter 0.7 or older lacks GSI3. Reads by
// the index name the command that adds it.
func TestTableWithoutAnIndex(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.open(t, testworld.NewTableName(), nil)
		in := r.TableInput()
		in.GlobalSecondaryIndexes = slices.DeleteFunc(in.GlobalSecondaryIndexes, func(x types.GlobalSecondaryIndex) bool { return *x.IndexName == "GSI3" })
		in.AttributeDefinitions = slices.DeleteFunc(in.AttributeDefinitions, func(x types.AttributeDefinition) bool {
			return strings.HasPrefix(*x.AttributeName, "GSI3")
		})
		_, err := e.client().CreateTable(t.Context(), in)
		require.NoError(t, err)
		e.deleteAfter(t, r.table)
		for _, err := range admin.New(r.Repository).Entities.List(t.Context()) {
			require.ErrorIs(t, err, fault.ErrTable)
			require.ErrorContains(t, err, "'dynalimit doctor' prints the command")
			return
		}
		t.Error("the list has neither an entity nor an error")
	})
}

func TestResolveLimitsRefusesBadInput(t *testing.T) {
	s := memProcess(t, nil)
	_, err := s.repo.ResolveLimits(t.Context(), "a b", model)
	requireInvalid(t, err, "entity")
	_, err = s.repo.ResolveLimits(t.Context(), "a", "")
	requireInvalid(t, err, "resource")
	put(t, s.repo, schema.Item{"PK": schema.String("SYSTEM#"), "SK": schema.String("#CONFIG"), "l_rpm_cp": schema.Number(1)})
	_, err = s.repo.ResolveLimits(t.Context(), "a", model)
	requireInvalid(t, err, "stored limits of source system")
	_, err = (&dynalimit.Repository{}).ResolveLimits(t.Context(), "a", model)
	requireInvalid(t, err, "repository")
}

func TestInvalidateConfig(t *testing.T) {
	s := memProcess(t, nil)
	fill := func() {
		for _, entity := range []string{"a", "b"} {
			for _, resource := range []string{"r", "q"} {
				_, err := s.repo.config(t.Context(), entity, resource)
				require.NoError(t, err)
			}
		}
	}
	type key struct{ entity, resource string }
	for _, test := range []struct {
		entity, resource string
		left             []key
	}{
		{"a", "r", []key{{"a", "q"}, {"b", "q"}, {"b", "r"}}},
		{"a", "", []key{{"b", "q"}, {"b", "r"}}},
		{"", "r", []key{{"a", "q"}, {"b", "q"}}},
		{"", "", nil},
		{"c", "r", []key{{"a", "q"}, {"a", "r"}, {"b", "q"}, {"b", "r"}}},
	} {
		fill()
		s.repo.InvalidateConfig(test.entity, test.resource)
		var left []key
		for _, k := range []key{{"a", "q"}, {"a", "r"}, {"b", "q"}, {"b", "r"}} {
			c, err := s.repo.config(t.Context(), k.entity, k.resource)
			require.NoError(t, err)
			if !c.Read {
				left = append(left, k)
			}
		}
		assert.Equal(t, test.left, left, "%q %q", test.entity, test.resource)
	}
	(&dynalimit.Repository{}).InvalidateConfig("", "")
}

func TestSettersReachThisProcessAtOnce(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	capacity := func() int64 {
		cfg, err := r.config(t.Context(), "user-1", "gpt-4")
		require.NoError(t, err)
		if len(cfg.limits) == 0 {
			return 0
		}
		return cfg.limits[0].Capacity
	}
	assert.Zero(t, capacity())
	require.NoError(t, r.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 1)}))
	assert.Equal(t, int64(1), capacity())
	require.NoError(t, r.SetLimits(t.Context(), admin.Scope{Everyone: true, Resource: "gpt-4"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 2)}))
	assert.Equal(t, int64(2), capacity())
	require.NoError(t, r.SetLimits(t.Context(), admin.Scope{Entity: "user-1"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 3)}))
	assert.Equal(t, int64(3), capacity())
	require.NoError(t, r.SetLimits(t.Context(), admin.Scope{Entity: "user-1", Resource: "gpt-4"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 4)}))
	assert.Equal(t, int64(4), capacity())
	require.NoError(t, r.DeleteLimits(t.Context(), admin.Scope{Entity: "user-1", Resource: "gpt-4"}))
	assert.Equal(t, int64(3), capacity())
	require.NoError(t, r.DeleteLimits(t.Context(), admin.Scope{Entity: "user-1", Resource: schema.DefaultResource}))
	assert.Equal(t, int64(2), capacity())
	require.NoError(t, r.DeleteLimits(t.Context(), admin.Scope{Everyone: true, Resource: "gpt-4"}))
	assert.Equal(t, int64(1), capacity())
	require.NoError(t, r.DeleteLimits(t.Context(), admin.Scope{Everyone: true}))
	assert.Zero(t, capacity())
}

func TestChangesDropAFillBetweenReadAndWrite(t *testing.T) {
	for name, test := range map[string]struct {
		operation string
		change    func(context.Context, *repository) error
		changed   func(*resolved) bool
	}{
		"limits": {
			"TransactWriteItems",
			func(ctx context.Context, r *repository) error {
				return r.SetLimits(ctx, admin.Scope{Everyone: true}, oneLimit)
			},
			func(c *resolved) bool { return len(c.limits) > 0 },
		},
		"a new entity": {
			"TransactWriteItems",
			func(ctx context.Context, r *repository) error {
				return r.CreateEntity(ctx, admin.Entity{ID: "user-1", ParentID: "team-1"})
			},
			func(c *resolved) bool { return c.ParentID == "team-1" },
		},
		"an entity's end": {
			"TransactWriteItems",
			func(ctx context.Context, r *repository) error { return r.DeleteEntity(ctx, "user-1") },
			func(c *resolved) bool { return c.ParentID == "" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := memEngine(t)
				r := e.repository(t, nil)
				if name == "an entity's end" {
					require.NoError(t, r.CreateEntity(t.Context(), admin.Entity{ID: "user-1", ParentID: "team-1"}))
				}
				e.db.SetFaults(on(test.operation, ddbmem.Fault{Before: 900 * time.Millisecond})) // most of the time it has
				var wg sync.WaitGroup
				wg.Go(func() { assert.NoError(t, test.change(t.Context(), r)) })
				synctest.Wait() // the cache was evicted, the change is not written
				cfg, err := r.config(t.Context(), "user-1", "gpt-4")
				require.NoError(t, err)
				assert.False(t, test.changed(cfg))
				wg.Wait()
				cfg, err = r.config(t.Context(), "user-1", "gpt-4")
				require.NoError(t, err)
				assert.True(t, test.changed(cfg))
			})
		})
	}
}

func TestSetLimitsRetriesConflicts(t *testing.T) {
	for name, test := range map[string]struct {
		conflicts int64
		ok        bool
	}{"some": {table.Tries - 1, true}, "for good": {1 << 40, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := memEngine(t)
				r := e.repository(t, nil)
				var seen atomic.Int64
				e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
					if q.Operation == "TransactWriteItems" && seen.Add(1) <= test.conflicts {
						return ddbmem.Fault{Error: &ddbmem.Error{Code: "TransactionCanceledException", Reasons: []ddbmem.Reason{{Code: "TransactionConflict"}, {Code: "None"}}}}
					}
					return ddbmem.Fault{}
				})
				err := r.SetLimits(t.Context(), admin.Scope{Everyone: true, Resource: "gpt-4"}, oneLimit)
				if test.ok {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, dynalimit.ErrUnavailable)
				assert.Equal(t, int64(table.Tries), seen.Load())
			})
		})
	}
}

// The new plan is in force in this process at once.
func TestUpdateEntitiesReachThisProcessAtOnce(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	require.NoError(t, r.SetLimits(t.Context(), admin.Scope{Plan: "pro"}, oneLimit))
	require.NoError(t, r.CreateEntity(t.Context(), admin.Entity{ID: "a"}))
	level := func() sources.Source {
		cfg, err := r.config(t.Context(), "a", "gpt-4")
		require.NoError(t, err)
		return cfg.Source
	}
	assert.Empty(t, level())
	errs, err := r.admin().Entities.UpdateMany(t.Context(), []admin.Entity{{ID: "a", Plan: "pro", Version: 1}})
	require.NoError(t, errors.Join(append(errs, err)...))
	assert.Equal(t, sources.PlanDefault, level())
}

// What changes limits and entities in a table without a namespace needs no action that
// docs/permissions.md does not give it.
func TestActionsOfChangesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("docs/permissions.md")
	require.NoError(t, err)
	documented := map[string]bool{}
	for _, role := range []string{"serves calls", "sets limits"} {
		row := regexp.MustCompile(`(?m)^\| ` + role + `.*$`).Find(text)
		for _, action := range regexp.MustCompile("`(?:dynamodb:)?([A-Za-z]+Item)`").FindAllSubmatch(row, -1) {
			documented[string(action[1])] = true
		}
	}

	e := memEngine(t)
	r := e.repository(t, nil)
	var mu sync.Mutex
	used := map[string]bool{"Query": false}
	e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
		mu.Lock()
		defer mu.Unlock()
		var body struct{ TransactItems []map[string]json.RawMessage }
		if q.Operation != "TransactWriteItems" || json.Unmarshal(q.Body, &body) != nil {
			used[q.Operation] = q.Operation != "Query"
		}
		for _, part := range body.TransactItems {
			for kind := range part {
				used[map[string]string{"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}[kind]] = true
			}
		}
		return ddbmem.Fault{}
	})
	require.NoError(t, r.SetLimits(t.Context(), admin.Scope{Entity: "u", Resource: "gpt-4"}, oneLimit))
	require.NoError(t, r.CreateEntity(t.Context(), admin.Entity{ID: "k", ParentID: "no-record"}))
	require.NoError(t, r.SetLimits(t.Context(), admin.Scope{Entity: "k", Resource: "gpt-4"}, oneLimit))
	require.NoError(t, r.ResetBucket(t.Context(), "k", "gpt-4"))
	require.NoError(t, r.DeleteEntity(t.Context(), "k"))
	require.NoError(t, r.SetLimits(t.Context(), admin.Scope{Everyone: true, Resource: "gpt-4"}, oneLimit))
	require.NoError(t, r.DeleteLimits(t.Context(), admin.Scope{Everyone: true, Resource: "gpt-4"}))
	for action, item := range used {
		if item {
			assert.True(t, documented[action], action)
		}
	}
	assert.True(t, used["ConditionCheckItem"])
}
