package aggregator_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
)

// consumed is what the limit rpm of windows counted, by where they begin.
func consumed(t *testing.T, windows []aggregator.Usage) map[string]int64 {
	t.Helper()
	sums := map[string]int64{}
	for _, u := range windows {
		for _, l := range u.Limits {
			sums[u.Resource+" "+u.Start.Format(time.RFC3339)] += l.Consumed
		}
	}
	return sums
}

// family is a table with a team, three keys that are below it, two of which cascade, and one
// that is alone; and with two teams, each with a key that cascades into it, of which one has
// no limits, and the other limits other things.
func family(t *testing.T, seed uint64) *world {
	t.Helper()
	w := newWorld(t, seed)
	for _, e := range []admin.Entity{
		{ID: "team", Plan: "pro"},
		{ID: "key-1", ParentID: "team", Cascade: true, Plan: "pro"},
		{ID: "key-2", ParentID: "team", Plan: "pro"},
		{ID: "free", Plan: "pro"},
		{ID: "key-3", ParentID: "free", Cascade: true, Plan: "pro"},
		{ID: "other", Plan: "pro"},
		{ID: "key-4", ParentID: "other", Cascade: true, Plan: "pro"},
	} {
		require.NoError(t, admin.New(w.repo).Entities.Create(t.Context(), e))
	}
	for _, resource := range []string{"gpt-4", "org/claude", "gpt"} {
		require.NoError(t, admin.New(w.repo).Limits.SetUnlimited(t.Context(), admin.Scope{Entity: "free", Resource: resource}))
		_, err := admin.New(w.repo).Limits.SetConfig(t.Context(), admin.Scope{Entity: "other", Resource: resource}, admin.LimitConfig{Limits: limits(1)[1:], Only: true})
		require.NoError(t, err)
	}
	return w
}
