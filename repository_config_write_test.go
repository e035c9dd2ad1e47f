package dynalimit

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

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/levels"
)

func TestSettersReachThisProcessAtOnce(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	capacity := func() int64 {
		cfg, _, _, err := r.config(t.Context(), "user-1", "gpt-4", time.Time{})
		require.NoError(t, err)
		if len(cfg.limits) == 0 {
			return 0
		}
		return cfg.limits[0].Capacity
	}
	assert.Zero(t, capacity())
	require.NoError(t, r.SetLimits(t.Context(), Scope{Everyone: true}, []Limit{PerMinute("rpm", 1)}))
	assert.Equal(t, int64(1), capacity())
	require.NoError(t, r.SetLimits(t.Context(), Scope{Everyone: true, Resource: "gpt-4"}, []Limit{PerMinute("rpm", 2)}))
	assert.Equal(t, int64(2), capacity())
	require.NoError(t, r.SetLimits(t.Context(), Scope{Entity: "user-1"}, []Limit{PerMinute("rpm", 3)}))
	assert.Equal(t, int64(3), capacity())
	require.NoError(t, r.SetLimits(t.Context(), Scope{Entity: "user-1", Resource: "gpt-4"}, []Limit{PerMinute("rpm", 4)}))
	assert.Equal(t, int64(4), capacity())
	require.NoError(t, r.DeleteLimits(t.Context(), Scope{Entity: "user-1", Resource: "gpt-4"}))
	assert.Equal(t, int64(3), capacity())
	require.NoError(t, r.DeleteLimits(t.Context(), Scope{Entity: "user-1", Resource: schema.DefaultResource}))
	assert.Equal(t, int64(2), capacity())
	require.NoError(t, r.DeleteLimits(t.Context(), Scope{Everyone: true, Resource: "gpt-4"}))
	assert.Equal(t, int64(1), capacity())
	require.NoError(t, r.DeleteLimits(t.Context(), Scope{Everyone: true}))
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
			cfg, _, _, err := r.config(t.Context(), "user-1", "gpt-4", time.Time{})
			assert.NoError(t, err)
			assert.Empty(t, cfg.limits)
		})
		synctest.Wait()
		require.NoError(t, r.SetLimits(t.Context(), Scope{Everyone: true}, oneLimit))
		wg.Wait()
		cfg, _, _, err := r.config(t.Context(), "user-1", "gpt-4", time.Time{})
		require.NoError(t, err)
		assert.Equal(t, oneLimit, cfg.limits)
	})
}

func TestChangesDropAFillBetweenReadAndWrite(t *testing.T) {
	for name, test := range map[string]struct {
		operation string
		change    func(context.Context, *Repository) error
		changed   func(*resolvedConfig) bool
	}{
		"limits": {
			"TransactWriteItems",
			func(ctx context.Context, r *Repository) error {
				return r.SetLimits(ctx, Scope{Everyone: true}, oneLimit)
			},
			func(c *resolvedConfig) bool { return len(c.limits) > 0 },
		},
		"a new entity": {
			"TransactWriteItems",
			func(ctx context.Context, r *Repository) error {
				return r.CreateEntity(ctx, Entity{ID: "user-1", ParentID: "team-1"})
			},
			func(c *resolvedConfig) bool { return c.parentID == "team-1" },
		},
		"an entity's end": {
			"TransactWriteItems",
			func(ctx context.Context, r *Repository) error { return r.DeleteEntity(ctx, "user-1") },
			func(c *resolvedConfig) bool { return c.parentID == "" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := memEngine(t)
				r := e.repository(t, nil)
				if name == "an entity's end" {
					require.NoError(t, r.CreateEntity(t.Context(), Entity{ID: "user-1", ParentID: "team-1"}))
				}
				e.db.SetFaults(on(test.operation, ddbmem.Fault{Before: 900 * time.Millisecond})) // most of the time it has
				var wg sync.WaitGroup
				wg.Go(func() { assert.NoError(t, test.change(t.Context(), r)) })
				synctest.Wait() // the cache was evicted, the change is not written
				cfg, _, _, err := r.config(t.Context(), "user-1", "gpt-4", time.Time{})
				require.NoError(t, err)
				assert.False(t, test.changed(cfg))
				wg.Wait()
				cfg, _, _, err = r.config(t.Context(), "user-1", "gpt-4", time.Time{})
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
				err := r.SetLimits(t.Context(), Scope{Everyone: true, Resource: "gpt-4"}, oneLimit)
				if test.ok {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, ErrUnavailable)
				assert.Equal(t, int64(table.Tries), seen.Load())
			})
		})
	}
}

func TestCreateEntityReachesThisProcessAtOnce(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	parent := func() string {
		cfg, _, _, err := r.config(t.Context(), "key-1", "gpt-4", time.Time{})
		require.NoError(t, err)
		return cfg.parentID
	}
	assert.Empty(t, parent())
	require.NoError(t, r.CreateEntity(t.Context(), Entity{ID: "key-1", ParentID: "p", Cascade: true}))
	assert.Equal(t, "p", parent())
	require.NoError(t, r.DeleteEntity(t.Context(), "key-1"))
	assert.Empty(t, parent())
}

// The new plan is in force in this process at once.
func TestUpdateEntitiesReachThisProcessAtOnce(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	require.NoError(t, r.SetLimits(t.Context(), Scope{Plan: "pro"}, oneLimit))
	require.NoError(t, r.CreateEntity(t.Context(), Entity{ID: "a"}))
	level := func() levels.Level {
		cfg, _, _, err := r.config(t.Context(), "a", "gpt-4", time.Time{})
		require.NoError(t, err)
		return cfg.level
	}
	assert.Empty(t, level())
	errs, err := Administer(r).UpdateEntities(t.Context(), []Entity{{ID: "a", Plan: "pro", Version: 1}})
	require.NoError(t, errors.Join(append(errs, err)...))
	assert.Equal(t, levels.PlanDefault, level())
}
