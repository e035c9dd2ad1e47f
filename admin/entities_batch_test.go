package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
	"github.com/dynalimit/dynalimit/internal/testworld"
)

// setupsOf are n entities with limits of their own, under a parent if there is one.
func setupsOf(n int, parent string) []admin.EntitySetup {
	setups := make([]admin.EntitySetup, n)
	for i := range setups {
		setups[i] = admin.EntitySetup{
			Entity: admin.Entity{ID: fmt.Sprintf("key-%05d", i), Name: "Key", ParentID: parent, Cascade: parent != ""},
			Limits: map[string][]dynalimit.Limit{"gpt-4": {dynalimit.PerMinute("rpm", 10)}},
		}
	}
	return setups
}

// create makes entities, all of them.
func create(t *testing.T, r *dynalimit.Repository, setups []admin.EntitySetup) {
	t.Helper()
	errs, err := admin.New(r).Entities.CreateMany(t.Context(), setups)
	require.NoError(t, err)
	require.Len(t, errs, len(setups))
	require.NoError(t, errors.Join(errs...))
}

func newTableOf(t *testing.T, e *engine, opts *dynalimit.RepositoryOptions) *dynalimit.Repository {
	t.Helper()
	return e.repository(t, opts)
}

func olderTable(t *testing.T, e *engine, opts *dynalimit.RepositoryOptions) *dynalimit.Repository {
	t.Helper()
	return legacyTable(t, e, "0.6", opts)
}

// Ten thousand entities with limits are made in seconds where each request takes 5 ms.
func TestTenThousandEntitiesTakeSeconds(t *testing.T) {
	for name, test := range map[string]struct {
		entities int
		parent   string
		table    func(*testing.T, *engine, *dynalimit.RepositoryOptions) *dynalimit.Repository
		most     time.Duration
	}{
		"without a parent":            {10_000, "", newTableOf, 6 * time.Second},
		"below a parent":              {1000, "org", newTableOf, 1500 * time.Millisecond},
		"which may have older limits": {1000, "", olderTable, 1500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := memEngine(t)
				r := test.table(t, e, nil)
				e.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{After: 5 * time.Millisecond} })
				before, start := e.db.Meter(), time.Now()
				create(t, r, setupsOf(test.entities, test.parent))
				took, used := time.Since(start), e.db.Meter().Sub(before)
				t.Logf("%d entities with limits, each request 5 ms: %v, %d requests, %v write units", test.entities, took, used.Requests(), used.WriteUnits())
				assert.LessOrEqual(t, took, test.most)
				e.db.SetFaults(nil)
				counts, err := shared.Of(r).Table.Get(t.Context(), "test", shared.Of(r).Keys.EntityResources())
				require.NoError(t, err)
				assert.Equal(t, schema.Number(int64(test.entities)), counts["gpt-4"])
			})
		})
	}
}

// An entity that cannot be made fails alone; a parent comes before its children, also in
// one transaction.
func TestCreateEntitiesFailAlone(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "there", Name: "first"}))
		require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "below", ParentID: "loop"}))
		put(t, r, schema.EntityRecord{ID: "gone", Version: 3, Deleting: true}.Item(shared.Of(r).Keys, nil))
		setups := []admin.EntitySetup{
			{Entity: admin.Entity{ID: "org"}, Limits: map[string][]dynalimit.Limit{"": oneLimit}},
			{Entity: admin.Entity{ID: "there", Name: "second"}, Limits: map[string][]dynalimit.Limit{"": oneLimit}},
			{Entity: admin.Entity{ID: "team", ParentID: "org"}},
			{Entity: admin.Entity{ID: "key", ParentID: "team", Cascade: true, Metadata: json.RawMessage(`[1]`)}, Limits: map[string][]dynalimit.Limit{"": oneLimit, "gpt-4": {rpm, tpm}}},
			{Entity: admin.Entity{ID: "loop", ParentID: "below"}},
			{Entity: admin.Entity{ID: "gone"}},
			{Entity: admin.Entity{ID: "orphan", ParentID: "gone"}},
			{Entity: admin.Entity{ID: "early", ParentID: "late"}},
			{Entity: admin.Entity{ID: "late", ParentID: "org"}},
		}
		errs, err := admin.New(r).Entities.CreateMany(t.Context(), setups)
		require.NoError(t, err)
		require.Len(t, errs, len(setups))
		for i, want := range []string{1: "already exists", 4: "makes a cycle: loop → below → loop", 5: "is being deleted", 6: `"gone" is being deleted`, 8: ""} {
			id := setups[i].Entity.ID
			if want != "" {
				require.ErrorContains(t, errs[i], want, id)
				assert.Len(t, trail(t, r, audit.Query{Target: id}), map[string]int{"there": 1}[id])
				continue
			}
			require.NoError(t, errs[i], id)
			read, err := admin.New(r).Entities.Get(t.Context(), id)
			require.NoError(t, err)
			made := setups[i].Entity
			made.Version, made.CreatedAt = 1, read.CreatedAt
			assert.Equal(t, made, read)
			for resource, limits := range setups[i].Limits {
				got, err := limitsAt(admin.New(r).Limits.GetConfig(t.Context(), admin.Scope{Entity: id, Resource: resource}))
				require.NoError(t, err)
				assert.Equal(t, limits, got)
			}
			assert.Len(t, trail(t, r, audit.Query{Target: id}), 1+len(setups[i].Limits))
		}
		require.ErrorIs(t, errs[1], admin.ErrExists)
		counts, err := shared.Of(r).Table.Get(t.Context(), "test", shared.Of(r).Keys.EntityResources())
		require.NoError(t, err)
		assert.Equal(t, schema.Number(2), counts["_default_"])
		assert.Equal(t, schema.Number(1), counts["gpt-4"])
	})
}

// Limits that an entity had before it had a record are replaced, and not counted again.
func TestCreateEntitiesReplaceLimits(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: "key-00000", Resource: "gpt-4"}, oneLimit))
		create(t, r, setupsOf(2, ""))
		limits, err := limitsAt(admin.New(r).Limits.GetConfig(t.Context(), admin.Scope{Entity: "key-00000", Resource: "gpt-4"}))
		require.NoError(t, err)
		assert.Equal(t, []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)}, limits)
		counts, err := shared.Of(r).Table.Get(t.Context(), "test", shared.Of(r).Keys.EntityResources())
		require.NoError(t, err)
		assert.Equal(t, schema.Number(2), counts["gpt-4"])
	})
}

// What does not fit one transaction goes in the next: many resources, many parents, large
// metadata.
func TestCreateEntitiesFitTheirTransactions(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.namespaced(t, e.repository(t, nil).Table(), "eu", nil) // which is checked in each transaction
		for i := 1; i < schema.MaxDepth; i++ {
			require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: fmt.Sprint("p", i), ParentID: map[bool]string{true: fmt.Sprint("p", i-1)}[i > 1]}))
		}
		most := admin.EntitySetup{Entity: admin.Entity{ID: "most", ParentID: fmt.Sprint("p", schema.MaxDepth-1)}, Limits: map[string][]dynalimit.Limit{}}
		for i := range 44 {
			most.Limits[fmt.Sprint("r", i)] = oneLimit
		}
		setups := []admin.EntitySetup{most}
		large := json.RawMessage(`{"x":"` + strings.Repeat("x", schema.MaxMetadata-8) + `"}`)
		for i := range 120 {
			setups = append(setups, admin.EntitySetup{Entity: admin.Entity{ID: fmt.Sprint("k", i), ParentID: fmt.Sprint("q", i), Metadata: large}})
		}
		create(t, r, setups)
		all, err := collect(admin.New(r).Entities.List(t.Context()))
		require.NoError(t, err)
		assert.Len(t, all, 7+1+120)

		most.Entity.ID, most.Limits["one more"] = "more", oneLimit
		for field, bad := range map[string]admin.EntitySetup{
			"setups[1].limits":               most,
			"setups[1].entity.ID":            {Entity: admin.Entity{ID: "a b"}},
			"setups[1].limits[a b].resource": {Entity: admin.Entity{ID: "a"}, Limits: map[string][]dynalimit.Limit{"a b": oneLimit}},
			"setups[1].limits[]":             {Entity: admin.Entity{ID: "a"}, Limits: map[string][]dynalimit.Limit{"": nil}},
			"setups[1].limits[_default_]":    {Entity: admin.Entity{ID: "a"}, Limits: map[string][]dynalimit.Limit{"": oneLimit, "_default_": oneLimit}},
			"setups[1].entity.Metadata":      {Entity: admin.Entity{ID: "a", Metadata: json.RawMessage("{")}},
		} {
			_, err := admin.New(r).Entities.CreateMany(t.Context(), []admin.EntitySetup{{Entity: admin.Entity{ID: "good"}}, bad})
			var v *dynalimit.ValidationError
			require.ErrorAs(t, err, &v, field)
			assert.Equal(t, field, v.Field)
		}
		_, err = admin.New(r).Entities.CreateMany(t.Context(), []admin.EntitySetup{{Entity: admin.Entity{ID: "good"}}, {Entity: admin.Entity{ID: "good"}}})
		require.ErrorContains(t, err, `setups[1].entity.ID: "good" is given twice`)
		_, err = admin.New(r).Entities.Get(t.Context(), "good")
		require.ErrorIs(t, err, admin.ErrNotFound, "nothing was written")
	})
}

// Conflicts, throttling and lost answers are tried again; whatever happens, an entity is
// there with its limits and its events, or not at all.
func TestEntitiesOfABatchAndTheirEventsAreOne(t *testing.T) {
	reasons := func(code string) *ddbmem.Error {
		return &ddbmem.Error{Code: "TransactionCanceledException", Reasons: []ddbmem.Reason{{Code: code}, {}}}
	}
	for name, faults := range map[string]struct {
		of   map[string][]ddbmem.Fault
		stay bool          // the last one goes on, instead of all beginning anew
		most time.Duration // of the call; 0: it is to succeed
	}{
		"lost answers":        {of: map[string][]ddbmem.Fault{"TransactWriteItems": {{Lose: true}, {}, {Lose: true}}}},
		"conflicts":           {of: map[string][]ddbmem.Fault{"TransactWriteItems": {{Error: reasons("TransactionConflict")}, {}}}},
		"throttling":          {of: map[string][]ddbmem.Fault{"TransactWriteItems": {{Error: reasons("ThrottlingError")}, {}, {Error: &ddbmem.Error{Code: "ThrottlingException"}}}}},
		"unprocessed":         {of: map[string][]ddbmem.Fault{"BatchGetItem": {{Unprocessed: 10}, {Unprocessed: 3}, {}}}},
		"slow, cancelled":     {of: map[string][]ddbmem.Fault{"TransactWriteItems": {{After: 400 * time.Millisecond}}}, most: 2 * time.Second},
		"slow, cancelled too": {of: map[string][]ddbmem.Fault{"TransactWriteItems": {{Before: 400 * time.Millisecond}}}, most: 2 * time.Second},
		"refused from then on": {of: map[string][]ddbmem.Fault{"TransactWriteItems": {
			{}, {}, {}, {Error: &ddbmem.Error{Code: "InternalServerError"}},
		}}, stay: true, most: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := memEngine(t)
				r := e.repository(t, nil)
				var seen atomic.Int64
				e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
					list := faults.of[q.Operation]
					if list == nil {
						return ddbmem.Fault{}
					}
					if n := int(seen.Add(1) - 1); n < len(list) || !faults.stay {
						return list[n%len(list)]
					}
					return list[len(list)-1]
				})
				setups := setupsOf(300, "")
				ctx := t.Context()
				if faults.most > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, faults.most)
					defer cancel()
				}
				errs, err := admin.New(r).Entities.CreateMany(ctx, setups)
				require.NoError(t, err)
				require.Len(t, errs, len(setups))
				e.db.SetFaults(nil)
				synctest.Wait()
				if faults.most == 0 {
					require.NoError(t, errors.Join(errs...))
				} else {
					require.Error(t, errors.Join(errs...))
				}
				assertWhole(t, r, setups, errs)
			})
		})
	}
}

// assertWhole checks that each entity is there with its limits and events, or not at all,
// and that what was said to be made is there.
func assertWhole(t *testing.T, r *dynalimit.Repository, setups []admin.EntitySetup, errs []error) {
	t.Helper()
	made := int64(0)
	for i, s := range setups {
		_, err := admin.New(r).Entities.Get(t.Context(), s.Entity.ID)
		limits, limitsErr := limitsAt(admin.New(r).Limits.GetConfig(t.Context(), admin.Scope{Entity: s.Entity.ID, Resource: "gpt-4"}))
		require.NoError(t, limitsErr)
		events := trail(t, r, audit.Query{Target: s.Entity.ID})
		if err == nil {
			made++
			assert.Len(t, limits, 1)
			assert.Len(t, events, 2)
			continue
		}
		require.ErrorIs(t, err, admin.ErrNotFound)
		require.Error(t, errs[i])
		assert.Empty(t, limits)
		assert.Empty(t, events)
	}
	counts, err := shared.Of(r).Table.Get(t.Context(), "test", shared.Of(r).Keys.EntityResources())
	require.NoError(t, err)
	if made == 0 {
		assert.Empty(t, counts["gpt-4"])
	} else {
		assert.Equal(t, schema.Number(made), counts["gpt-4"])
	}
}

// An entity that somebody else makes while the transaction is on its way fails alone.
func TestAnEntityMadeMeanwhileFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		e.db.SetFaults(between(func() {
			assert.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "key-00003", Name: "mine"}))
		}))
		errs, err := admin.New(r).Entities.CreateMany(t.Context(), setupsOf(10, ""))
		require.NoError(t, err)
		for i, err := range errs {
			if i == 3 {
				require.ErrorIs(t, err, admin.ErrExists)
			} else {
				require.NoError(t, err)
			}
		}
		read, err := admin.New(r).Entities.Get(t.Context(), "key-00003")
		require.NoError(t, err)
		assert.Equal(t, "mine", read.Name)
	})
}

func TestCreateEntitiesRequests(t *testing.T) {
	e := memEngine(t)
	require.NoError(t, e.open(t, "limits", nil).CreateTable(t.Context()))
	wire := record(e.db)
	r, err := dynalimit.NewRepository(e.client(wire.Through), "limits", &dynalimit.RepositoryOptions{Principal: tester, Now: noon})
	require.NoError(t, err)
	require.NoError(t, shared.Of(r).Layout.Check(t.Context()))
	create(t, r, []admin.EntitySetup{{Entity: admin.Entity{ID: "org"}}})
	wire.Take()
	create(t, r, []admin.EntitySetup{
		{Entity: admin.Entity{ID: "key-1", ParentID: "org"}, Limits: map[string][]dynalimit.Limit{"": {rpm}, "gpt-4": {rpm}}},
		{Entity: admin.Entity{ID: "key-2", ParentID: "key-1"}, Limits: map[string][]dynalimit.Limit{"gpt-4": {rpm}}},
	})
	requests := wire.Take()
	queries := 0
	for _, q := range requests {
		if q.Operation == "Query" {
			queries++
		}
	}
	assert.Equal(t, 2, queries, "of the children, at once: in no order")
	assertGolden(t, "create_entities", []testworld.Recorded{requests[0], requests[1], requests[len(requests)-1]})
}
