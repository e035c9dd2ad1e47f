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

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
)

// An entity that gets a child while it is about to be deleted is not deleted, and one
// whose deletion has begun gets none.
func TestAChildAndTheDeletionOfItsParentRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "p"}))
		e.db.SetFaults(between(func() {
			assert.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "c", ParentID: "p"}))
		}))
		require.ErrorContains(t, admin.New(r).Entities.Delete(t.Context(), "p"), `"p" has children (1)`)
		e.db.SetFaults(nil)
		_, err := admin.New(r).Entities.Get(t.Context(), "p")
		require.NoError(t, err)
		require.NoError(t, admin.New(r).Entities.Delete(t.Context(), "c"))

		require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: "p"}, oneLimit))
		var transactions atomic.Int64
		e.db.SetFaults(between(func() {
			e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault { // the mark is made, and nothing else
				if q.Operation == "TransactWriteItems" && transactions.Add(1) > 1 {
					return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "no"}}
				}
				return ddbmem.Fault{}
			})
			assert.ErrorContains(t, admin.New(r).Entities.Delete(t.Context(), "p"), "AccessDenied")
			e.db.SetFaults(nil)
		}))
		err = admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "c", ParentID: "p"})
		require.ErrorContains(t, err, `"p" is being deleted`)
		assert.True(t, isValidation(err))
		_, err = admin.New(r).Entities.Get(t.Context(), "c")
		require.ErrorIs(t, err, admin.ErrNotFound)
	})
}

// A deletion that was cut at any request is finished by the next call, with one event.
func TestDeletionsAreResumed(t *testing.T) {
	for name, fault := range map[string]ddbmem.Fault{
		"not executed": {Drop: true}, "answers lost": {Lose: true}, "refused": {Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "no"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for cut := int64(1); ; cut++ {
					if deleteCut(t, cut, fault) {
						assert.Greater(t, cut, int64(8))
						return
					}
				}
			})
		})
	}
}

// deleteCut deletes an entity whose requests fail from one on, and again. It is true if
// the first call did not get as far.
func deleteCut(t *testing.T, cut int64, fault ddbmem.Fault) (whole bool) {
	e := memEngine(t)
	r := e.repository(t, nil)
	require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "a", Name: "A"}))
	for _, resource := range []string{"", "gpt-4"} {
		require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: "a", Resource: resource}, oneLimit))
		require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: "b", Resource: resource}, oneLimit))
	}
	for i := range 30 {
		put(t, r, shared.Of(r).Keys.Bucket("a", fmt.Sprint(i)).Attributes())
	}
	var requests atomic.Int64
	e.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
		if requests.Add(1) >= cut {
			return fault
		}
		return ddbmem.Fault{}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	err := admin.New(r).Entities.Delete(ctx, "a")
	cancel()
	e.db.SetFaults(nil)
	whole = requests.Load() < cut
	require.True(t, whole == (err == nil) || fault.Lose, "%d: %v", cut, err)
	if found, err := admin.New(r).Entities.Get(t.Context(), "a"); err == nil {
		assert.False(t, found.Deleting)
		assert.Empty(t, trail(t, r, audit.Query{Target: "a", Principal: "cleaner"}))
	} else {
		require.ErrorIs(t, err, admin.ErrNotFound)
		assertMarked(t, r, strings.Contains(err.Error(), "is being deleted; finish that with Entities.Delete"))
	}
	require.NoError(t, admin.New(r).Entities.Delete(t.Context(), "a"))
	assert.Empty(t, partition(t, r, "a"))
	_, err = admin.New(r).Entities.Get(t.Context(), "a")
	require.ErrorContains(t, err, "has no record")
	var actions []string
	for _, event := range trail(t, r, audit.Query{Target: "a"}) {
		actions = append(actions, strings.TrimSpace(event.Action+" "+event.Resource))
	}
	slices.Sort(actions)
	assert.Equal(t, []string{
		"entity_created", "entity_deleted", "limits_deleted _default_", "limits_deleted gpt-4", "limits_set _default_", "limits_set gpt-4",
	}, actions, cut)
	counts, err := shared.Of(r).Table.Get(t.Context(), "test", shared.Of(r).Keys.EntityResources())
	require.NoError(t, err)
	assert.Equal(t, schema.Number(1), counts["gpt-4"])
	assert.Equal(t, schema.Number(1), counts["_default_"])
	require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "a"}))
	return whole
}

// assertMarked checks what can be done with an entity whose deletion has begun.
func assertMarked(t *testing.T, r *dynalimit.Repository, marked bool) {
	t.Helper()
	all, err := collect(admin.New(r).Entities.List(t.Context()))
	require.NoError(t, err)
	if !marked {
		assert.Empty(t, all)
		return
	}
	require.Len(t, all, 1)
	assert.True(t, all[0].Deleting)
	err = admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "a"})
	require.ErrorIs(t, err, admin.ErrExists)
	require.ErrorContains(t, err, "finish that with Entities.Delete")
	_, err = admin.New(r).Entities.Update(t.Context(), all[0])
	require.ErrorIs(t, err, admin.ErrNotFound)
}

// An entity without a record is deleted too, with its event; where nothing is, nothing is
// recorded.
func TestDeleteEntityWithoutARecord(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		require.NoError(t, admin.New(r).Entities.Delete(t.Context(), "a"))
		assert.Empty(t, trail(t, r, audit.Query{Target: "a"}))
		put(t, r, shared.Of(r).Keys.Bucket("a", model).Attributes())
		require.NoError(t, admin.New(r).Entities.Delete(t.Context(), "a"))
		assert.Empty(t, partition(t, r, "a"))
		events := trail(t, r, audit.Query{Target: "a"})
		require.Len(t, events, 1)
		assert.Equal(t, "entity_deleted", events[0].Action)
	})
}

// A call that deletes what another call deleted, and that was made anew meanwhile, leaves
// the new one alone.
func TestALateDeletionLeavesANewEntityAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "a"}))
		require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: "a"}, oneLimit))
		var transactions atomic.Int64
		e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			if q.Operation == "TransactWriteItems" && transactions.Add(1) == 2 { // the first marks
				e.db.SetFaults(nil)
				assert.NoError(t, admin.New(r).Entities.Delete(t.Context(), "a"))
				assert.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "a", Name: "new"}))
				assert.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: "a"}, oneLimit))
			}
			return ddbmem.Fault{}
		})
		require.NoError(t, admin.New(r).Entities.Delete(t.Context(), "a"))
		read, err := admin.New(r).Entities.Get(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, "new", read.Name)
		limits, err := limitsAt(admin.New(r).Limits.GetConfig(t.Context(), admin.Scope{Entity: "a"}))
		require.NoError(t, err)
		assert.Equal(t, oneLimit, limits)
	})
}

// What a lease took before its entity was deleted is not given back, neither to nothing
// nor to the bucket of an acquire after that.
func TestLeasesOfADeletedEntityGiveNothingBack(t *testing.T) {
	for name, anew := range map[string]bool{"no bucket": false, "a new bucket": true} {
		t.Run(name, func(t *testing.T) {
			testEngines(t, func(t *testing.T, e *engine) {
				s := newProcess(t, e, perMinute())
				require.NoError(t, admin.New(s.repo).Entities.Create(t.Context(), admin.Entity{ID: "user-1"}))
				rolled, settled, adjusted := s.acquire("user-1", dynalimit.Amounts{"rpm": 20}), s.acquire("user-1", dynalimit.Amounts{"rpm": 20}), s.acquire("user-1", dynalimit.Amounts{"rpm": 20})
				require.NoError(t, admin.New(s.repo).Entities.Delete(t.Context(), "user-1"))
				if anew {
					s.peer(perMinute()).acquire("user-1", dynalimit.Amounts{"rpm": 90})
				}
				_ = rolled.Rollback(t.Context())
				_ = settled.Settle(t.Context(), dynalimit.Amounts{"rpm": 1})
				_ = adjusted.Adjust(t.Context(), dynalimit.Amounts{"rpm": -19})
				if !anew {
					assert.Nil(t, s.item("user-1"))
					return
				}
				assert.Equal(t, schema.Number(10_000), s.item("user-1")["b_rpm_tk"])
				s.deny("user-1", dynalimit.Amounts{"rpm": 11})
			})
		})
	}
}

// An entity that is to go as it was read stays when a source of it is changed at the last
// moment, between the look at its sources and the mark.
func TestAnEntityIsDeletedAsItWasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "x"}))
		require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: "x"}, oneLimit))
		read, err := admin.New(r).Entities.Get(t.Context(), "x")
		require.NoError(t, err)
		sources, err := admin.New(r).Limits.GetConfigs(t.Context(), []admin.Scope{{Entity: "x"}})
		require.NoError(t, err)

		e.db.SetFaults(between(func() { assert.NoError(t, admin.New(r).Limits.SetBlocked(t.Context(), admin.Scope{Entity: "x"}, true)) }))
		conflict, ok := errors.AsType[*admin.ConflictError[admin.ScopedConfig]](admin.New(r).Entities.DeleteAsRead(t.Context(), read, sources))
		require.True(t, ok)
		assert.Equal(t, sources[0].Config, conflict.Yours.Config)
		assert.True(t, conflict.Stored.Config.Blocked)
		e.db.SetFaults(nil)
		_, err = admin.New(r).Entities.Get(t.Context(), "x")
		require.NoError(t, err)

		assert.True(t, isValidation(admin.New(r).Entities.DeleteAsRead(t.Context(), read, []admin.ScopedConfig{{Scope: admin.Scope{Entity: "other"}}})))
		sources, err = admin.New(r).Limits.GetConfigs(t.Context(), []admin.Scope{{Entity: "x"}})
		require.NoError(t, err)
		require.NoError(t, admin.New(r).Entities.DeleteAsRead(t.Context(), read, sources))
		require.NoError(t, admin.New(r).Entities.DeleteAsRead(t.Context(), read, sources), "it is gone")
		<-time.After(time.Second) // what is made now was made at another time
		require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "x"}))
		require.ErrorIs(t, admin.New(r).Entities.DeleteAsRead(t.Context(), read, sources), admin.ErrConflict)
	})
}
