package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
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

func TestUpdateEntity(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, &dynalimit.RepositoryOptions{Now: noon})
		_, err := admin.New(r).Entities.Update(t.Context(), admin.Entity{ID: "key-1"})
		require.ErrorIs(t, err, admin.ErrNotFound)
		require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "key-1", ParentID: "a", Cascade: true, Plan: "free", Metadata: json.RawMessage(`1`)}))
		read, err := admin.New(r).Entities.Get(t.Context(), "key-1")
		require.NoError(t, err)
		want := admin.Entity{ID: "key-1", Name: "Key", ParentID: "b", Plan: "pro", Metadata: json.RawMessage(`{"a": 1}`), CreatedAt: noon(), Version: 2}
		yours := want
		yours.Version = read.Version
		got, err := admin.New(r).Entities.Update(t.Context(), yours)
		require.NoError(t, err)
		assert.Equal(t, want, got)
		got, err = admin.New(r).Entities.Get(t.Context(), "key-1")
		require.NoError(t, err)
		assert.Equal(t, want, got)
		for parent, children := range map[string][]admin.Entity{"a": nil, "b": {want}} {
			found, err := collect(admin.New(r).Entities.Children(t.Context(), parent))
			require.NoError(t, err)
			assert.Equal(t, children, found)
		}

		_, err = admin.New(r).Entities.Update(t.Context(), yours)
		conflict, ok := errors.AsType[*admin.ConflictError[admin.Entity]](err)
		require.True(t, ok, "%v", err)
		require.ErrorIs(t, err, admin.ErrConflict)
		assert.Equal(t, admin.ConflictError[admin.Entity]{Yours: yours, Stored: want}, *conflict)
		assert.ErrorContains(t, err, `stored is {"version":2,"name":"Key","parent":"b","plan":"pro","metadata":{"a":1}}, yours is {"version":1,`)
		again, err := admin.New(r).Entities.Update(t.Context(), want)
		require.NoError(t, err)
		assert.Equal(t, want, again, "nothing differs: nothing is written")

		made := want
		made.CreatedAt = noon().Add(time.Second)
		_, err = admin.New(r).Entities.Update(t.Context(), made)
		require.ErrorIs(t, err, admin.ErrConflict, "it was deleted and made anew")

		events := trail(t, r, audit.Query{Target: "key-1"})
		require.Len(t, events, 2)
		assert.Equal(t, "entity_created", events[0].Action)
		assert.Equal(t, "entity_updated", events[1].Action)
		changes := map[string][2]string{}
		for _, c := range events[1].Changes {
			changes[c.Field] = [2]string{string(c.Before), string(c.After)}
		}
		assert.Equal(t, map[string][2]string{
			"cascade": {"true", "false"}, "metadata": {"1", `{"a":1}`}, "name": {"", `"Key"`}, "parent_counts": {"", "true"},
			"parent_id": {`"a"`, `"b"`}, "plan": {`"free"`, `"pro"`},
		}, changes)
	})
}

// A record of another tool has no version; its first change gives it one, lists it among
// all entities, and keeps what it held besides.
func TestUpdateOfARecordOfAnotherTool(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := zaeTable(t, e, nil)
		all, err := collect(admin.New(r).Entities.List(t.Context()))
		require.NoError(t, err)
		assert.Empty(t, all)
		before, err := shared.Of(r).Table.Get(t.Context(), "test", shared.Of(r).Keys.Meta("key-1"))
		require.NoError(t, err)
		read, err := admin.New(r).Entities.Get(t.Context(), "key-1")
		require.NoError(t, err)
		assert.Zero(t, read.Version)
		updated, err := admin.New(r).Entities.Update(t.Context(), read)
		require.NoError(t, err)
		assert.EqualValues(t, 1, updated.Version)
		after, err := shared.Of(r).Table.Get(t.Context(), "test", shared.Of(r).Keys.Meta("key-1"))
		require.NoError(t, err)
		for name, value := range before {
			assert.Equal(t, value, after[name], name)
		}
		all, err = collect(admin.New(r).Entities.List(t.Context()))
		require.NoError(t, err)
		assert.Equal(t, []admin.Entity{updated}, all)
	})
}

// jitter makes transactions arrive up to 20 ms late, so that reads and writes of many
// callers interleave.
func jitter(q *ddbmem.Request) ddbmem.Fault {
	return ddbmem.Fault{Before: time.Duration(rand.IntN(20)) * time.Millisecond}
}

// However many entities are moved at once, there is no cycle, and no chain deeper than
// those that a cascade follows.
func TestRacingMovesMakeNoCycleAndNoDeepChain(t *testing.T) {
	for _, n := range []int{3, 12} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := memEngine(t)
				r := e.repository(t, nil)
				name := func(i int) string { return fmt.Sprint("e", i) }
				var keys []schema.Key
				for i := range n {
					keys = append(keys, shared.Of(r).Keys.Meta(name(i)))
					require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: name(i)}))
				}
				e.db.SetFaults(jitter)
				var moved, refused atomic.Int64
				var movers sync.WaitGroup
				for range 8 {
					movers.Go(func() {
						for range 60 {
							from, to := name(rand.IntN(n)), name(rand.IntN(n))
							read, err := admin.New(r).Entities.Get(t.Context(), from)
							if !assert.NoError(t, err) {
								return
							}
							if read.ParentID = to; from == to {
								read.ParentID = ""
							}
							switch _, err = admin.New(r).Entities.Update(t.Context(), read); {
							case err == nil:
								moved.Add(1)
								assertForest(t, r, keys)
							case isValidation(err):
								refused.Add(1)
							default:
								assert.True(t, errors.Is(err, admin.ErrConflict) || errors.Is(err, dynalimit.ErrUnavailable), "%v", err)
							}
						}
					})
				}
				movers.Wait()
				assert.NotZero(t, moved.Load())
				assert.NotZero(t, refused.Load())
			})
		})
	}
}

// assertForest checks that the records of keys, which one request reads, are in no cycle
// and in no chain that is too deep.
func assertForest(t *testing.T, r *dynalimit.Repository, keys []schema.Key) {
	t.Helper()
	found, err := shared.Of(r).Table.BatchGet(t.Context(), "test", keys)
	if !assert.NoError(t, err) {
		return
	}
	for _, key := range keys {
		var chain []string
		for at := key; at != shared.Of(r).Keys.Meta(""); at = shared.Of(r).Keys.Meta(schema.DecodeLink(found[at]).ParentID) {
			if chain = append(chain, at.PK); !assert.LessOrEqual(t, len(chain), schema.MaxDepth, "%v", chain) {
				return
			}
		}
	}
}

// between runs do once, before the first transaction arrives.
func between(do func()) ddbmem.FaultFunc {
	var once atomic.Bool
	return func(q *ddbmem.Request) ddbmem.Fault {
		if q.Operation == "TransactWriteItems" && once.CompareAndSwap(false, true) {
			do()
		}
		return ddbmem.Fault{}
	}
}

// A move sees what was put below the entity while it was decided.
func TestAMoveSeesWhatWasPutBelowMeanwhile(t *testing.T) {
	e := memEngine(t)
	r := e.repository(t, nil)
	for i := 1; i < schema.MaxDepth; i++ {
		require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: fmt.Sprint(i + 1), ParentID: fmt.Sprint(i)}))
	}
	require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "e"}))
	e.db.SetFaults(between(func() {
		assert.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "c", ParentID: "e"}))
	}))
	_, err := admin.New(r).Entities.Update(t.Context(), admin.Entity{ID: "e", ParentID: "7", Version: 1})
	require.ErrorContains(t, err, "deeper than 8 levels")
	read, err := admin.New(r).Entities.Get(t.Context(), "e")
	require.NoError(t, err)
	assert.Empty(t, read.ParentID)
	_, err = admin.New(r).Entities.Update(t.Context(), admin.Entity{ID: "e", ParentID: "6", Version: 1})
	require.NoError(t, err, "that its family grew is no conflict")
}

// There is no change of an entity without its event and no event without its change,
// whatever becomes of the requests: the events of an entity, one after another, tell what
// its record says.
func TestEntitiesAndTheirEventsAreOne(t *testing.T) {
	underFaultsOfChanges(t, func(t *testing.T, e *engine, r *dynalimit.Repository) {
		for n := range 60 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n%5+1)*500*time.Millisecond)
			id := fmt.Sprint("e", n%3)
			read, err := admin.New(r).Entities.Get(ctx, id)
			switch {
			case n%20 > 16:
				_ = admin.New(r).Entities.Delete(ctx, id)
			case err == nil:
				read.Name, read.Metadata = fmt.Sprint("name ", n), json.RawMessage(fmt.Sprint(n))
				_, _ = admin.New(r).Entities.Update(ctx, read)
			default:
				_ = admin.New(r).Entities.Create(ctx, admin.Entity{ID: id, Name: fmt.Sprint("new ", n), ParentID: "p"})
			}
			cancel()
		}
		e.db.SetFaults(nil)
		synctest.Wait()
		for n := range 3 {
			id := fmt.Sprint("e", n)
			item, err := shared.Of(r).Table.Get(t.Context(), "test", shared.Of(r).Keys.Meta(id))
			require.NoError(t, err)
			told, events := replay(t, r, id)
			assert.NotEmpty(t, events)
			if record := schema.DecodeEntity(item); item == nil || record.Deleting {
				assert.Empty(t, told)
			} else {
				want := map[string]string{"name": `"` + record.Name + `"`, "cascade": "false", "parent_id": `"p"`}
				if record.Metadata != nil {
					want["metadata"] = string(record.Metadata)
				}
				assert.Equal(t, want, told)
			}
		}
	})
}

// replay is what the events of an entity say that it is. Each begins where the one before
// it ended.
func replay(t *testing.T, r *dynalimit.Repository, id string) (fields map[string]string, events []audit.Event) {
	t.Helper()
	fields = map[string]string{}
	events = trail(t, r, audit.Query{Target: id})
	for _, event := range events {
		for _, c := range event.Changes {
			require.Equal(t, fields[c.Field], string(c.Before), "%s of %s", c.Field, event.Action)
			if fields[c.Field] = string(c.After); c.After == nil {
				delete(fields, c.Field)
			}
		}
		if event.Action == "entity_deleted" {
			require.Empty(t, fields)
		}
	}
	return fields, events
}

// Every entity is listed, page by page, in its namespace alone.
func TestEntitiesListsThemAll(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		name := e.repository(t, nil).Table()
		eu, us := e.namespaced(t, name, "eu", &dynalimit.RepositoryOptions{Now: noon}), e.namespaced(t, name, "us", nil)
		var items []schema.Item
		var want []string
		for i := range 2000 {
			id := fmt.Sprintf("key-%04d", i)
			want = append(want, id)
			items = append(items, schema.EntityRecord{ID: id, Metadata: json.RawMessage(`[]`), Version: 1, CreatedAt: noon()}.Item(shared.Of(eu).Keys, nil))
		}
		put(t, eu, items...)
		require.NoError(t, admin.New(us).Entities.Create(t.Context(), admin.Entity{ID: "other"}))
		require.NoError(t, admin.New(eu).Limits.Set(t.Context(), admin.Scope{Entity: "no-record"}, oneLimit))
		all, err := collect(admin.New(eu).Entities.List(t.Context()))
		require.NoError(t, err)
		assert.Equal(t, want, slices.Sorted(slices.Values(ids(all))))
		assert.Equal(t, admin.Entity{ID: all[7].ID, Metadata: json.RawMessage(`[]`), Version: 1, CreatedAt: noon()}, all[7])
		all, err = collect(admin.New(us).Entities.List(t.Context()))
		require.NoError(t, err)
		assert.Equal(t, []string{"other"}, ids(all))

		seen := 0
		for _, err := range admin.New(eu).Entities.List(t.Context()) {
			require.NoError(t, err)
			if seen++; seen == 150 {
				break
			}
		}
		assert.Equal(t, 150, seen)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = collect(admin.New(eu).Entities.List(ctx))
		require.ErrorIs(t, err, context.Canceled)
	})
}

// A children index that projects what it did before records had a version returns them
// whole.
func TestChildrenOfAnIndexThatProjectsLess(t *testing.T) {
	projected := []string{"entity_id", "name", "parent_id", "cascade", "metadata", "created_at", "plan"}
	for name, projected := range map[string][]string{
		"no version":            projected,
		"no keeper":             append(slices.Clone(projected), "metadata_json", "version", "deleting"),
		"no parent that counts": append(slices.Clone(projected), "metadata_json", "version", "deleting", "managed_by"),
	} {
		t.Run(name, func(t *testing.T) {
			testEngines(t, func(t *testing.T, e *engine) {
				r := e.open(t, testworld.NewTableName(), &dynalimit.RepositoryOptions{Now: noon})
				in := r.TableInput()
				in.GlobalSecondaryIndexes[0].Projection = &types.Projection{ProjectionType: types.ProjectionTypeInclude, NonKeyAttributes: projected}
				_, err := e.client().CreateTable(t.Context(), in)
				require.NoError(t, err)
				e.deleteAfter(t, aws.ToString(in.TableName))
				require.NoError(t, r.CreateTable(t.Context())) // the version record
				_, _, err = admin.New(r).Upgrade(t.Context(), false)
				require.NoError(t, err)
				want := admin.Entity{ID: "k", Name: "n", ParentID: "p", ManagedBy: applier, CreatedAt: noon(), Version: 1, Metadata: json.RawMessage(`{"a": 1.50}`)}
				require.NoError(t, admin.New(r).Entities.Create(t.Context(), want))
				got, err := collect(admin.New(r).Entities.Children(t.Context(), "p"))
				require.NoError(t, err)
				assert.Equal(t, []admin.Entity{want}, got)
			})
		})
	}
}

// The buckets of an entity are listed with what they hold now.
func TestBucketsAreListed(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		require.NoError(t, admin.New(s.repo).Limits.Set(t.Context(), admin.Scope{Entity: "user-1", Resource: "own"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 60)}))
		s.acquire("user-1", dynalimit.Amounts{"rpm": 40, "tpm": 10_000})
		s.acquire("user-2", dynalimit.Amounts{"rpm": 1})
		_, err := s.limiter.Acquire(t.Context(), "user-1", "own", dynalimit.Amounts{"rpm": 60})
		require.NoError(t, err)
		began := s.clock.now()
		s.clock.advance(6 * time.Second)
		buckets, err := collect(admin.New(s.repo).Buckets.List(t.Context(), "user-1"))
		require.NoError(t, err)
		require.Len(t, buckets, 2)
		status := func(resource string, l dynalimit.Limit, left int64, reset time.Duration) dynalimit.LimitStatus {
			return dynalimit.LimitStatus{EntityID: "user-1", Resource: resource, Limit: l, Remaining: left, Reset: reset}
		}
		assert.Equal(t, []dynalimit.LimitStatus{
			status(model, dynalimit.PerMinute("rpm", 100), 70, 18*time.Second), status(model, dynalimit.PerMinute("tpm", 10_000), 1000, 54*time.Second),
		}, buckets[0].Limits)
		assert.Equal(t, model, buckets[0].Resource)
		assert.True(t, began.Equal(buckets[0].Refilled))
		assert.True(t, buckets[0].Expires.After(began))
		assert.Equal(t, []dynalimit.LimitStatus{status("own", dynalimit.PerMinute("rpm", 60), 6, 54*time.Second)}, buckets[1].Limits)
		assert.Zero(t, buckets[1].Expires, "limits of its own: for ever")
	})
}

func TestBucketsFollowPagesAndStop(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		var items []schema.Item
		for i := range 250 {
			items = append(items, shared.Of(r).Keys.Bucket("a", fmt.Sprintf("r-%03d", i)).Attributes())
		}
		old := shared.Of(r).Keys.Bucket("a", "r-000#rpm").Attributes()
		put(t, r, append(items, old, shared.Of(r).Keys.Bucket("a0", "x").Attributes())...)
		buckets, err := collect(admin.New(r).Buckets.List(t.Context(), "a"))
		require.NoError(t, err)
		require.Len(t, buckets, 250)
		assert.Equal(t, admin.Bucket{EntityID: "a", Resource: "r-249"}, buckets[249])
		for b, err := range admin.New(r).Buckets.List(t.Context(), "a") {
			require.NoError(t, err)
			assert.Equal(t, "r-000", b.Resource)
			break
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, second(collect(admin.New(r).Buckets.List(ctx, "a"))), context.Canceled)
		assert.True(t, isValidation(second(collect(admin.New(r).Buckets.List(t.Context(), "a#b")))))
		broken := shared.Of(r).Keys.Bucket("b", "x").Attributes()
		broken["rf"] = schema.String("soon")
		put(t, r, broken)
		require.ErrorContains(t, second(collect(admin.New(r).Buckets.List(t.Context(), "b"))), "is malformed")
	})
}

// An entity goes with what is its own, and nothing of one whose id begins alike, differs
// in case or is the same in another namespace.
func TestEntitiesOfSimilarNamesStayApart(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		eu := e.namespaced(t, r.Table(), "a", nil)
		ids := []string{"a", "A", "a0", "a:b", "a.b", "a@b", "a-", "PK", "SK", "0", strings.Repeat("a", 256)}
		for _, r := range []*dynalimit.Repository{r, eu} {
			for _, id := range ids {
				create(t, r, []admin.EntitySetup{{
					Entity: admin.Entity{ID: id, Name: id},
					Limits: map[string][]dynalimit.Limit{"PK": oneLimit, "SK": oneLimit, "a/b": oneLimit, "": oneLimit},
				}})
				put(t, r, shared.Of(r).Keys.Bucket(id, "a/b").Attributes())
			}
		}
		require.NoError(t, admin.New(r).Entities.Delete(t.Context(), "a"))
		assert.Empty(t, partition(t, r, "a"))
		assert.Len(t, partition(t, eu, "a"), 6)
		for _, id := range ids[1:] {
			assert.Len(t, partition(t, r, id), 6, id)
			read, err := admin.New(r).Entities.Get(t.Context(), id)
			require.NoError(t, err)
			assert.Equal(t, id, read.Name)
		}
		for r, want := range map[*dynalimit.Repository]int{r: len(ids) - 1, eu: len(ids)} {
			all, err := collect(admin.New(r).Entities.List(t.Context()))
			require.NoError(t, err)
			assert.Len(t, all, want)
			counts, err := shared.Of(r).Table.Get(t.Context(), "test", shared.Of(r).Keys.EntityResources())
			require.NoError(t, err)
			assert.Equal(t, schema.Number(int64(want)), counts["a/b"])
		}
		assert.Len(t, trail(t, r, audit.Query{Target: "a"}), 10)
		assert.Len(t, trail(t, eu, audit.Query{Target: "a"}), 5)
	})
}

// A change of an entity that fails because the table does not answer forgets nothing: a
// block that is known stays in force.
func TestEntityChangeThatFailsInAnOutageForgetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), &dynalimit.Options{OnUnavailable: dynalimit.Allow, Limits: oneLimit})
		ctx := t.Context()
		require.NoError(t, admin.New(s.repo).Limits.SetBlocked(ctx, admin.Scope{Entity: "key"}, true))
		acquire := func() error {
			return second(s.limiter.Acquire(ctx, "key", model, dynalimit.Amounts{oneLimit[0].Name: 1}))
		}
		require.ErrorIs(t, acquire(), dynalimit.ErrBlocked)
		s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} })
		require.ErrorIs(t, admin.New(s.repo).Entities.Create(ctx, admin.Entity{ID: "key", ParentID: "org"}), dynalimit.ErrUnavailable)
		errs, err := admin.New(s.repo).Entities.CreateMany(ctx, []admin.EntitySetup{{Entity: admin.Entity{ID: "key"}}})
		if err == nil {
			err = errs[0]
		}
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
		require.ErrorIs(t, acquire(), dynalimit.ErrBlocked)
		s.db.SetFaults(nil)
		s.recovers()
	})
}

// TestParentThatBeginsToCountMakesNoCycle: another tool may have put records in a cycle while their
// parents were for order alone.
func TestParentThatBeginsToCountMakesNoCycle(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	put(t, r, schema.EntityRecord{ID: "a", ParentID: "b", Detached: true, Version: 1}.Item(shared.Of(r).Keys, nil))
	put(t, r, schema.EntityRecord{ID: "b", ParentID: "a", Cascade: true, Version: 1}.Item(shared.Of(r).Keys, nil))
	for _, cascade := range []bool{false, true} {
		_, err := admin.New(r).Entities.Update(t.Context(), admin.Entity{ID: "a", ParentID: "b", Cascade: cascade, Version: 1})
		require.ErrorContains(t, err, "makes a cycle")
	}
}
