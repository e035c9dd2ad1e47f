package dynalimit

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

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

func TestUpdateEntity(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, &RepositoryOptions{Now: noon})
		_, err := r.UpdateEntity(t.Context(), Entity{ID: "key-1"})
		require.ErrorIs(t, err, ErrNotFound)
		require.NoError(t, r.CreateEntity(t.Context(), Entity{ID: "key-1", ParentID: "a", Cascade: true, Plan: "free", Metadata: json.RawMessage(`1`)}))
		read, err := r.GetEntity(t.Context(), "key-1")
		require.NoError(t, err)
		want := Entity{ID: "key-1", Name: "Key", ParentID: "b", Plan: "pro", Metadata: json.RawMessage(`{"a": 1}`), CreatedAt: noon(), Version: 2}
		yours := want
		yours.Version = read.Version
		got, err := r.UpdateEntity(t.Context(), yours)
		require.NoError(t, err)
		assert.Equal(t, want, got)
		got, err = r.GetEntity(t.Context(), "key-1")
		require.NoError(t, err)
		assert.Equal(t, want, got)
		for parent, children := range map[string][]Entity{"a": nil, "b": {want}} {
			found, err := collect(r.Children(t.Context(), parent))
			require.NoError(t, err)
			assert.Equal(t, children, found)
		}

		_, err = r.UpdateEntity(t.Context(), yours)
		conflict, ok := errors.AsType[*EntityConflictError](err)
		require.True(t, ok, "%v", err)
		require.ErrorIs(t, err, ErrConflict)
		assert.Equal(t, EntityConflictError{Yours: yours, Stored: want}, *conflict)
		assert.ErrorContains(t, err, `stored is {"version":2,"name":"Key","parent":"b","plan":"pro","metadata":{"a":1}}, yours is {"version":1,`)
		again, err := r.UpdateEntity(t.Context(), want)
		require.NoError(t, err)
		assert.Equal(t, want, again, "nothing differs: nothing is written")

		made := want
		made.CreatedAt = noon().Add(time.Second)
		_, err = r.UpdateEntity(t.Context(), made)
		require.ErrorIs(t, err, ErrConflict, "it was deleted and made anew")

		events := trail(t, r, AuditQuery{Target: "key-1"})
		require.Len(t, events, 2)
		assert.Equal(t, "entity_created", events[0].Action)
		assert.Equal(t, "entity_updated", events[1].Action)
		changes := map[string][2]string{}
		for _, c := range events[1].Changes {
			changes[c.Field] = [2]string{string(c.Before), string(c.After)}
		}
		assert.Equal(t, map[string][2]string{
			"cascade": {"true", "false"}, "metadata": {"1", `{"a":1}`}, "name": {"", `"Key"`},
			"parent_id": {`"a"`, `"b"`}, "plan": {`"free"`, `"pro"`},
		}, changes)
	})
}

// What a bucket holds stays, and the parent is another one at once.
func TestBucketsKeepWhatTheyHoldWhenTheEntityChanges(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		s.family("user-1", "project-1")
		s.acquire("user-1", Amounts{"rpm": 40})
		before := s.item("user-1")
		read, err := s.repo.GetEntity(t.Context(), "user-1")
		require.NoError(t, err)
		read.ParentID, read.Name = "project-2", "moved"
		_, err = s.repo.UpdateEntity(t.Context(), read)
		require.NoError(t, err)
		assert.Equal(t, before, s.item("user-1"))
		s.deny("user-1", Amounts{"rpm": 61})
		s.acquire("user-1", Amounts{"rpm": 60})
		report, err := s.limiter.Check(t.Context(), "project-2", model, nil)
		require.NoError(t, err)
		assert.EqualValues(t, 40, report.Statuses[0].Remaining)
	})
}

// A record of another tool has no version; its first change gives it one, lists it among
// all entities, and keeps what it held besides.
func TestUpdateOfARecordOfAnotherTool(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := zaeTable(t, e, nil)
		all, err := collect(r.Entities(t.Context()))
		require.NoError(t, err)
		assert.Empty(t, all)
		before, err := r.store.Get(t.Context(), "test", r.keys.Meta("key-1"))
		require.NoError(t, err)
		read, err := r.GetEntity(t.Context(), "key-1")
		require.NoError(t, err)
		assert.Zero(t, read.Version)
		updated, err := r.UpdateEntity(t.Context(), read)
		require.NoError(t, err)
		assert.EqualValues(t, 1, updated.Version)
		after, err := r.store.Get(t.Context(), "test", r.keys.Meta("key-1"))
		require.NoError(t, err)
		for name, value := range before {
			assert.Equal(t, value, after[name], name)
		}
		all, err = collect(r.Entities(t.Context()))
		require.NoError(t, err)
		assert.Equal(t, []Entity{updated}, all)
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
					keys = append(keys, r.keys.Meta(name(i)))
					require.NoError(t, r.CreateEntity(t.Context(), Entity{ID: name(i)}))
				}
				e.db.SetFaults(jitter)
				var moved, refused atomic.Int64
				var movers sync.WaitGroup
				for range 8 {
					movers.Go(func() {
						for range 60 {
							from, to := name(rand.IntN(n)), name(rand.IntN(n))
							read, err := r.GetEntity(t.Context(), from)
							if !assert.NoError(t, err) {
								return
							}
							if read.ParentID = to; from == to {
								read.ParentID = ""
							}
							switch _, err = r.UpdateEntity(t.Context(), read); {
							case err == nil:
								moved.Add(1)
								assertForest(t, r, keys)
							case isValidation(err):
								refused.Add(1)
							default:
								assert.True(t, errors.Is(err, ErrConflict) || errors.Is(err, ErrUnavailable), "%v", err)
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
func assertForest(t *testing.T, r *Repository, keys []schema.Key) {
	t.Helper()
	found, err := r.store.BatchGet(t.Context(), "test", keys)
	if !assert.NoError(t, err) {
		return
	}
	for _, key := range keys {
		var chain []string
		for at := key; at != r.keys.Meta(""); at = r.keys.Meta(schema.DecodeLink(found[at]).ParentID) {
			if chain = append(chain, at.PK); !assert.LessOrEqual(t, len(chain), maxDepth, "%v", chain) {
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
	for i := 1; i < maxDepth; i++ {
		require.NoError(t, r.CreateEntity(t.Context(), Entity{ID: fmt.Sprint(i + 1), ParentID: fmt.Sprint(i)}))
	}
	require.NoError(t, r.CreateEntity(t.Context(), Entity{ID: "e"}))
	e.db.SetFaults(between(func() { assert.NoError(t, r.CreateEntity(t.Context(), Entity{ID: "c", ParentID: "e"})) }))
	_, err := r.UpdateEntity(t.Context(), Entity{ID: "e", ParentID: "7", Version: 1})
	require.ErrorContains(t, err, "deeper than 8 levels")
	read, err := r.GetEntity(t.Context(), "e")
	require.NoError(t, err)
	assert.Empty(t, read.ParentID)
	_, err = r.UpdateEntity(t.Context(), Entity{ID: "e", ParentID: "6", Version: 1})
	require.NoError(t, err, "that its family grew is no conflict")
}

// There is no change of an entity without its event and no event without its change,
// whatever becomes of the requests: the events of an entity, one after another, tell what
// its record says.
func TestEntitiesAndTheirEventsAreOne(t *testing.T) {
	underFaultsOfChanges(t, func(t *testing.T, e *engine, r *Repository) {
		for n := range 60 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n%5+1)*500*time.Millisecond)
			id := fmt.Sprint("e", n%3)
			read, err := r.GetEntity(ctx, id)
			switch {
			case n%20 > 16:
				_ = r.DeleteEntity(ctx, id)
			case err == nil:
				read.Name, read.Metadata = fmt.Sprint("name ", n), json.RawMessage(fmt.Sprint(n))
				_, _ = r.UpdateEntity(ctx, read)
			default:
				_ = r.CreateEntity(ctx, Entity{ID: id, Name: fmt.Sprint("new ", n), ParentID: "p"})
			}
			cancel()
		}
		e.db.SetFaults(nil)
		synctest.Wait()
		for n := range 3 {
			id := fmt.Sprint("e", n)
			item, err := r.store.Get(t.Context(), "test", r.keys.Meta(id))
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
func replay(t *testing.T, r *Repository, id string) (fields map[string]string, events []AuditEvent) {
	t.Helper()
	fields = map[string]string{}
	events = trail(t, r, AuditQuery{Target: id})
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
		name := e.repository(t, nil).table
		eu, us := e.namespaced(t, name, "eu", &RepositoryOptions{Now: noon}), e.namespaced(t, name, "us", nil)
		var items []schema.Item
		var want []string
		for i := range 2000 {
			id := fmt.Sprintf("key-%04d", i)
			want = append(want, id)
			items = append(items, eu.keys.EncodeEntity(schema.EntityRecord{ID: id, Metadata: json.RawMessage(`[]`), Version: 1, CreatedAt: noon()}, nil))
		}
		put(t, eu, items...)
		require.NoError(t, us.CreateEntity(t.Context(), Entity{ID: "other"}))
		require.NoError(t, eu.SetLimits(t.Context(), Scope{Entity: "no-record"}, oneLimit))
		all, err := collect(eu.Entities(t.Context()))
		require.NoError(t, err)
		assert.Equal(t, want, slices.Sorted(slices.Values(ids(all))))
		assert.Equal(t, Entity{ID: all[7].ID, Metadata: json.RawMessage(`[]`), Version: 1, CreatedAt: noon()}, all[7])
		all, err = collect(us.Entities(t.Context()))
		require.NoError(t, err)
		assert.Equal(t, []string{"other"}, ids(all))

		seen := 0
		for _, err := range eu.Entities(t.Context()) {
			require.NoError(t, err)
			if seen++; seen == 150 {
				break
			}
		}
		assert.Equal(t, 150, seen)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = collect(eu.Entities(ctx))
		require.ErrorIs(t, err, context.Canceled)
	})
}

// A children index that projects what it did before records had a version returns them
// whole.
func TestChildrenOfAnIndexThatProjectsLess(t *testing.T) {
	projected := []string{"entity_id", "name", "parent_id", "cascade", "metadata", "created_at", "plan"}
	for name, projected := range map[string][]string{
		"no version": projected,
		"no keeper":  append(slices.Clone(projected), "metadata_json", "version", "deleting"),
	} {
		t.Run(name, func(t *testing.T) {
			testEngines(t, func(t *testing.T, e *engine) {
				r := e.open(t, newTable(), &RepositoryOptions{Now: noon})
				in := r.TableInput()
				in.GlobalSecondaryIndexes[0].Projection = &types.Projection{ProjectionType: types.ProjectionTypeInclude, NonKeyAttributes: projected}
				_, err := e.client().CreateTable(t.Context(), in)
				require.NoError(t, err)
				e.deleteAfter(t, aws.ToString(in.TableName))
				want := Entity{ID: "k", Name: "n", ParentID: "p", ManagedBy: applier, CreatedAt: noon(), Version: 1, Metadata: json.RawMessage(`{"a": 1.50}`)}
				require.NoError(t, r.CreateEntity(t.Context(), want))
				got, err := collect(r.Children(t.Context(), "p"))
				require.NoError(t, err)
				assert.Equal(t, []Entity{want}, got)
			})
		})
	}
}

// The buckets of an entity are listed with what they hold now.
func TestBucketsAreListed(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		require.NoError(t, s.repo.SetLimits(t.Context(), Scope{Entity: "user-1", Resource: "own"}, []Limit{PerMinute("rpm", 60)}))
		s.acquire("user-1", Amounts{"rpm": 40, "tpm": 10_000})
		s.acquire("user-2", Amounts{"rpm": 1})
		_, err := s.limiter.Acquire(t.Context(), "user-1", "own", Amounts{"rpm": 60})
		require.NoError(t, err)
		began := s.clock.now()
		s.clock.advance(6 * time.Second)
		buckets, err := collect(s.repo.Buckets(t.Context(), "user-1"))
		require.NoError(t, err)
		require.Len(t, buckets, 2)
		status := func(resource string, l Limit, left int64, reset time.Duration) LimitStatus {
			return LimitStatus{EntityID: "user-1", Resource: resource, Limit: l, Remaining: left, Reset: reset}
		}
		assert.Equal(t, []LimitStatus{
			status(model, PerMinute("rpm", 100), 70, 18*time.Second), status(model, PerMinute("tpm", 10_000), 1000, 54*time.Second),
		}, buckets[0].Limits)
		assert.Equal(t, model, buckets[0].Resource)
		assert.True(t, began.Equal(buckets[0].Refilled))
		assert.True(t, buckets[0].Expires.After(began))
		assert.Equal(t, []LimitStatus{status("own", PerMinute("rpm", 60), 6, 54*time.Second)}, buckets[1].Limits)
		assert.Zero(t, buckets[1].Expires, "limits of its own: for ever")
	})
}

func TestBucketsFollowPagesAndStop(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		var items []schema.Item
		for i := range 250 {
			items = append(items, r.keys.Bucket("a", fmt.Sprintf("r-%03d", i)).Attributes())
		}
		old := r.keys.Bucket("a", "r-000#rpm").Attributes()
		put(t, r, append(items, old, r.keys.Bucket("a0", "x").Attributes())...)
		buckets, err := collect(r.Buckets(t.Context(), "a"))
		require.NoError(t, err)
		require.Len(t, buckets, 250)
		assert.Equal(t, Bucket{EntityID: "a", Resource: "r-249"}, buckets[249])
		for b, err := range r.Buckets(t.Context(), "a") {
			require.NoError(t, err)
			assert.Equal(t, "r-000", b.Resource)
			break
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, second(collect(r.Buckets(ctx, "a"))), context.Canceled)
		assert.True(t, isValidation(second(collect(r.Buckets(t.Context(), "a#b")))))
		broken := r.keys.Bucket("b", "x").Attributes()
		broken["rf"] = schema.String("soon")
		put(t, r, broken)
		require.ErrorContains(t, second(collect(r.Buckets(t.Context(), "b"))), "is malformed")
	})
}

// An entity goes with what is its own, and nothing of one whose id begins alike, differs
// in case or is the same in another namespace.
func TestEntitiesOfSimilarNamesStayApart(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		eu := e.namespaced(t, r.table, "a", nil)
		ids := []string{"a", "A", "a0", "a:b", "a.b", "a@b", "a-", "PK", "SK", "0", strings.Repeat("a", 256)}
		for _, r := range []*Repository{r, eu} {
			for _, id := range ids {
				create(t, r, []EntitySetup{{
					Entity: Entity{ID: id, Name: id},
					Limits: map[string][]Limit{"PK": oneLimit, "SK": oneLimit, "a/b": oneLimit, "": oneLimit},
				}})
				put(t, r, r.keys.Bucket(id, "a/b").Attributes())
			}
		}
		require.NoError(t, r.DeleteEntity(t.Context(), "a"))
		assert.Empty(t, partition(t, r, "a"))
		assert.Len(t, partition(t, eu, "a"), 6)
		for _, id := range ids[1:] {
			assert.Len(t, partition(t, r, id), 6, id)
			read, err := r.GetEntity(t.Context(), id)
			require.NoError(t, err)
			assert.Equal(t, id, read.Name)
		}
		for r, want := range map[*Repository]int{r: len(ids) - 1, eu: len(ids)} {
			all, err := collect(r.Entities(t.Context()))
			require.NoError(t, err)
			assert.Len(t, all, want)
			counts, err := r.store.Get(t.Context(), "test", r.keys.EntityResources())
			require.NoError(t, err)
			assert.Equal(t, schema.Number(int64(want)), counts["a/b"])
		}
		assert.Len(t, trail(t, r, AuditQuery{Target: "a"}), 10)
		assert.Len(t, trail(t, eu, AuditQuery{Target: "a"}), 5)
	})
}

// A change of an entity that fails because the table does not answer forgets nothing: a
// block that is known stays in force.
func TestEntityChangeThatFailsInAnOutageForgetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), &Options{OnUnavailable: Allow, Limits: oneLimit})
		ctx := t.Context()
		require.NoError(t, s.repo.SetBlocked(ctx, Scope{Entity: "key"}, true))
		acquire := func() error { return second(s.limiter.Acquire(ctx, "key", model, Amounts{oneLimit[0].Name: 1})) }
		require.ErrorIs(t, acquire(), ErrBlocked)
		s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} })
		require.ErrorIs(t, s.repo.CreateEntity(ctx, Entity{ID: "key", ParentID: "org"}), ErrUnavailable)
		errs, err := s.repo.CreateEntities(ctx, []EntitySetup{{Entity: Entity{ID: "key"}}})
		if err == nil {
			err = errs[0]
		}
		require.ErrorIs(t, err, ErrUnavailable)
		require.ErrorIs(t, acquire(), ErrBlocked)
		s.db.SetFaults(nil)
		s.recovers()
	})
}
