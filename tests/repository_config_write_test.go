package tests

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/levels"
)

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

func TestSetLimitsDropsAFillBegunBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			if q.Operation == "BatchGetItem" {
				return ddbmem.Fault{After: time.Second / 2} // read, answered later
			}
			return ddbmem.Fault{}
		})
		var wg sync.WaitGroup
		wg.Go(func() {
			cfg, err := r.config(t.Context(), "user-1", "gpt-4")
			assert.NoError(t, err)
			assert.Empty(t, cfg.limits)
		})
		synctest.Wait()
		require.NoError(t, r.SetLimits(t.Context(), admin.Scope{Everyone: true}, oneLimit))
		wg.Wait()
		cfg, err := r.config(t.Context(), "user-1", "gpt-4")
		require.NoError(t, err)
		assert.Equal(t, oneLimit, cfg.limits)
	})
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

func TestCreateEntityReachesThisProcessAtOnce(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	parent := func() string {
		cfg, err := r.config(t.Context(), "key-1", "gpt-4")
		require.NoError(t, err)
		return cfg.ParentID
	}
	assert.Empty(t, parent())
	require.NoError(t, r.CreateEntity(t.Context(), admin.Entity{ID: "key-1", ParentID: "p", Cascade: true}))
	assert.Equal(t, "p", parent())
	require.NoError(t, r.DeleteEntity(t.Context(), "key-1"))
	assert.Empty(t, parent())
}

// The new plan is in force in this process at once.
func TestUpdateEntitiesReachThisProcessAtOnce(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	require.NoError(t, r.SetLimits(t.Context(), admin.Scope{Plan: "pro"}, oneLimit))
	require.NoError(t, r.CreateEntity(t.Context(), admin.Entity{ID: "a"}))
	level := func() levels.Level {
		cfg, err := r.config(t.Context(), "a", "gpt-4")
		require.NoError(t, err)
		return cfg.Level
	}
	assert.Empty(t, level())
	errs, err := r.admin().Entities.UpdateMany(t.Context(), []admin.Entity{{ID: "a", Plan: "pro", Version: 1}})
	require.NoError(t, errors.Join(append(errs, err)...))
	assert.Equal(t, levels.PlanDefault, level())
}
