package admin_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// hostile are names of namespaces, entities and resources that look like each other and
// like keys.
var hostile = []string{"a", "a.b", "a-", "ab", "A", "a:a", "a@a", "0", "ENTITY", "SYSTEM", "AUDIT", "RESOURCE", "NAMESPACES", "PLAN", "default"}

// furnish writes something of each kind into what a repository is bound to.
func furnish(ctx context.Context, t require.TestingT, r *dynalimit.Repository, ids []string) {
	limits := []dynalimit.Limit{dynalimit.PerDay("rpm", 100), dynalimit.DailyQuota("usd", 100, "")} // what was taken stays taken
	require.NoError(t, admin.New(r).Limits.Set(ctx, admin.Scope{Everyone: true}, limits))
	l, err := dynalimit.New(r, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close(context.WithoutCancel(ctx))) }()
	for i, id := range ids {
		resource := id + "/" + ids[0]
		require.NoError(t, admin.New(r).Limits.Set(ctx, admin.Scope{Everyone: true, Resource: resource}, limits))
		require.NoError(t, admin.New(r).Limits.Set(ctx, admin.Scope{Plan: id, Resource: resource}, limits))
		require.NoError(t, admin.New(r).Limits.Set(ctx, admin.Scope{Entity: id}, limits))
		require.NoError(t, admin.New(r).Entities.Create(ctx, admin.Entity{ID: id, ParentID: strings.Join(ids[:min(i, 1)], ""), Plan: id}))
		_, err := l.Acquire(ctx, id, resource, dynalimit.Amounts{"rpm": 1, "usd": 1})
		require.NoError(t, err)
	}
}

// dump is what the table holds, by key.
func dump(t *testing.T, r *dynalimit.Repository) map[schema.Key]schema.Item {
	t.Helper()
	items := map[schema.Key]schema.Item{}
	for _, item := range scan(t, r) {
		items[schema.KeyOf(item)] = item
	}
	return items
}

// A purge removes all of its namespace, and nothing else.
func TestPurgeTouchesItsNamespaceAlone(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.SampledFrom(hostile), 2, 3, rapid.ID).Draw(rt, "namespaces")
		ids := rapid.SliceOfNDistinct(rapid.SampledFrom(hostile), 1, 2, rapid.ID).Draw(rt, "ids")
		ctx := t.Context()
		clock := newHandClock()
		db := ddbmem.New(ddbmem.WithClock(clock.now))
		defer db.Close()
		open := func(name string) *dynalimit.Repository {
			r, err := dynalimit.NewRepository(db.Client(), "limits", &dynalimit.RepositoryOptions{Namespace: name, Now: clock.now, Principal: tester})
			require.NoError(rt, err)
			return r
		}
		whole := open("")
		require.NoError(rt, whole.CreateTable(ctx))
		furnish(ctx, rt, whole, ids)
		for _, name := range names {
			require.NoError(rt, admin.New(whole).Namespaces.Register(ctx, name))
			furnish(ctx, rt, open(name), ids)
		}
		gone := names[0]
		require.NoError(rt, admin.New(whole).Namespaces.Delete(ctx, gone))
		clock.advance(11 * time.Minute)
		before := dump(t, whole)
		require.NoError(rt, admin.New(whole).Namespaces.Purge(ctx, gone, nil))
		after := dump(t, whole)
		record := schema.Key{PK: gone + "/SYSTEM#", SK: "#NAMESPACE"}
		for key, item := range before {
			switch {
			case key == record:
				assert.Equal(rt, schema.String("purged"), after[key]["state"])
			case strings.HasPrefix(key.PK, gone+"/"):
				assert.NotContains(rt, after, key, "it stays")
			default:
				assert.Equal(rt, item, after[key], "%v", key)
			}
		}
		for key := range after {
			if _, was := before[key]; !was {
				assert.Equal(rt, "AUDIT#$NAMESPACE:"+gone, key.PK)
			}
		}
		assert.Len(rt, life(t, whole, gone), 4)
	})
}

// A purge is refused until each limiter has noticed the deletion. Then it is final: the name
// stays taken, and its life has each event once, however often the purge is called.
func TestPurgeOfANamespace(t *testing.T) {
	inNamespace(t, perMinute(), func(t *testing.T, operator, eu *process) {
		ctx := t.Context()
		namespaces := admin.New(operator.repo).Namespaces
		eu.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		assert.Equal(t, fault.RegisterNamespace, inactive(t, namespaces.Purge(ctx, "us", nil)).Fix)
		assert.Contains(t, inactive(t, namespaces.Purge(ctx, "eu", nil)).Reason, "delete it")
		require.NoError(t, namespaces.Delete(ctx, "eu"))
		from := time.Now().Add(11 * time.Minute)
		elapse(11*time.Minute - time.Millisecond)
		assert.Contains(t, inactive(t, namespaces.Purge(ctx, "eu", nil)).Reason, "from "+from.UTC().Format(time.RFC3339)+" on")
		assert.NotNil(t, eu.item("user-1"))
		assert.Equal(t, []string{"namespace_registered", "namespace_deleted"}, life(t, operator.repo, "eu"))

		elapse(time.Millisecond)
		var last admin.PurgeProgress
		require.NoError(t, namespaces.Purge(ctx, "eu", func(p admin.PurgeProgress) {
			last = p
			require.ErrorIs(t, namespaces.Register(ctx, "eu"), fault.ErrNamespaceDeleted)
			n, err := namespaces.Get(ctx, "eu")
			require.NoError(t, err)
			assert.Equal(t, fault.NamespacePurging, n.State)
		}))
		assert.Equal(t, 2, last.Pass)
		assert.Equal(t, int64(1), last.Removed)
		assert.Nil(t, eu.item("user-1"))
		require.ErrorIs(t, namespaces.Register(ctx, "eu"), fault.ErrNamespaceDeleted)
		require.NoError(t, namespaces.Delete(ctx, "eu"), "it is")
		_, err := eu.limiter.Acquire(ctx, "user-1", model, dynalimit.Amounts{"rpm": 1})
		assert.Equal(t, fault.NamespacePurged, inactive(t, err).State)
		want := []string{"namespace_registered", "namespace_deleted", "namespace_purge_started", "namespace_purged"}
		assert.Equal(t, want, life(t, operator.repo, "eu"))
	})
}

// What is written while the table is looked through, behind the place that was reached, is
// found by the next pass.
func TestPurgeLooksUntilNothingIsLeft(t *testing.T) {
	inNamespace(t, perMinute(), func(t *testing.T, operator, eu *process) {
		lease := eu.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		require.NoError(t, admin.New(operator.repo).Namespaces.Delete(t.Context(), "eu"))
		elapse(11 * time.Minute)
		passes := 0
		require.NoError(t, admin.New(operator.repo).Namespaces.Purge(t.Context(), "eu", func(p admin.PurgeProgress) {
			if passes = p.Pass; p.Removed > 0 && p.Removed == int64(p.Pass) && p.Pass < 4 {
				require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 100}))
			}
		}))
		assert.Nil(t, eu.item("user-1"))
		assert.Equal(t, 5, passes)
	})
}

// What a lease wrote after the purge is removed by another run, which records nothing.
func TestPurgeAgainRemovesWhatCameLate(t *testing.T) {
	inNamespace(t, perMinute(), func(t *testing.T, operator, eu *process) {
		lease := eu.acquire("user-1", dynalimit.Amounts{"tpm": 1})
		require.NoError(t, admin.New(operator.repo).Namespaces.Delete(t.Context(), "eu"))
		elapse(11 * time.Minute)
		require.NoError(t, admin.New(operator.repo).Namespaces.Purge(t.Context(), "eu", nil))
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 100}))
		require.NotNil(t, eu.item("user-1"))
		before := life(t, operator.repo, "eu")
		require.NoError(t, admin.New(operator.repo).Namespaces.Purge(t.Context(), "eu", nil))
		assert.Nil(t, eu.item("user-1"))
		assert.Equal(t, before, life(t, operator.repo, "eu"))
	})
}

// A purge that is killed at any request is run again, by another process: the namespace is
// empty then, and its life has each event once.
func TestPurgeIsResumed(t *testing.T) {
	for name, fault := range map[string]ddbmem.Fault{"before the request": {Drop: true}, "after it": {Lose: true}} {
		t.Run(name, func(t *testing.T) {
			inNamespace(t, perMinute(), func(t *testing.T, operator, eu *process) {
				for i := range 60 { // several batches
					eu.acquire(fmt.Sprintf("user-%d", i), dynalimit.Amounts{"rpm": 1})
				}
				require.NoError(t, admin.New(operator.repo).Namespaces.Delete(t.Context(), "eu"))
				elapse(11 * time.Minute)
				kills := 0
				for ; ; kills++ {
					require.Less(t, kills, 100)
					ctx, kill := context.WithCancel(t.Context())
					var requests atomic.Int64
					operator.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
						if n := requests.Add(1); n <= int64(kills) {
							return ddbmem.Fault{}
						}
						kill()
						return fault
					})
					err := admin.New(operator.peer(nil).repo).Namespaces.Purge(ctx, "eu", nil)
					kill()
					operator.db.SetFaults(nil)
					elapse(time.Minute) // a breaker that opened closes
					if err == nil {
						break
					}
				}
				assert.Greater(t, kills, 4)
				require.NoError(t, admin.New(operator.repo).Namespaces.Purge(t.Context(), "eu", nil))
				for _, item := range scan(t, operator.repo) {
					key := schema.KeyOf(item)
					assert.True(t, !strings.HasPrefix(key.PK, "eu/") || key.SK == "#NAMESPACE", "%v", key)
				}
				assert.Equal(t, []string{"namespace_registered", "namespace_deleted", "namespace_purge_started", "namespace_purged"}, life(t, operator.repo, "eu"))
			})
		})
	}
}

// Batches that are not processed, pages that are throttled and conflicts are tried again.
func TestPurgeOutlastsABusyTable(t *testing.T) {
	inNamespace(t, perMinute(), func(t *testing.T, operator, eu *process) {
		for i := range 60 {
			eu.acquire(fmt.Sprintf("user-%d", i), dynalimit.Amounts{"rpm": 1})
		}
		require.NoError(t, admin.New(operator.repo).Namespaces.Delete(t.Context(), "eu"))
		elapse(11 * time.Minute)
		var asked atomic.Int64
		operator.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			again := asked.Add(1)%3 != 0
			switch {
			case !again:
			case r.Operation == "TransactWriteItems":
				return ddbmem.Fault{Error: cancelled("TransactionConflict", "None")}
			case r.Operation == "BatchWriteItem":
				return ddbmem.Fault{Unprocessed: 20}
			case r.Operation == "Scan":
				return ddbmem.Fault{Error: &ddbmem.Error{Code: "ProvisionedThroughputExceededException"}}
			}
			return ddbmem.Fault{}
		})
		require.NoError(t, admin.New(operator.repo).Namespaces.Purge(t.Context(), "eu", nil))
		operator.db.SetFaults(nil)
		assert.False(t, slices.ContainsFunc(scan(t, operator.repo), func(item schema.Item) bool {
			key := schema.KeyOf(item)
			return strings.HasPrefix(key.PK, "eu/") && key.SK != "#NAMESPACE"
		}))
	})
}

// Two purges at once: each event is there once.
func TestPurgesAtOnce(t *testing.T) {
	inNamespace(t, perMinute(), func(t *testing.T, operator, eu *process) {
		for i := range 60 {
			eu.acquire(fmt.Sprintf("user-%d", i), dynalimit.Amounts{"rpm": 1})
		}
		require.NoError(t, admin.New(operator.repo).Namespaces.Delete(t.Context(), "eu"))
		elapse(11 * time.Minute)
		operator.slowly(time.Millisecond, time.Millisecond)
		errs := make(chan error)
		for range 3 {
			go func() { errs <- admin.New(operator.peer(nil).repo).Namespaces.Purge(t.Context(), "eu", nil) }()
		}
		require.NoError(t, errors.Join(<-errs, <-errs, <-errs))
		synctest.Wait()
		assert.Equal(t, []string{"namespace_registered", "namespace_deleted", "namespace_purge_started", "namespace_purged"}, life(t, operator.repo, "eu"))
	})
}
