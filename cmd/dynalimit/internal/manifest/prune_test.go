package manifest

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// An entity that somebody changed since the plan, or gave a source or a block, is not deleted.
func TestPruningDeletesNothingThatWasNotPlanned(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *world){
		"a block that is new": func(t *testing.T, w *world) {
			set(t, w.repo, admin.Scope{Entity: "x", Resource: "gpt-4"}, admin.LimitConfig{Blocked: true})
		},
		"a source that is another": func(t *testing.T, w *world) { set(t, w.repo, admin.Scope{Entity: "x"}, rpm(1)) },
		"the record": func(t *testing.T, w *world) {
			e := must(admin.New(w.repo).Entities.Get(t.Context(), "x"))
			e.Name = "by hand"
			must(admin.New(w.repo).Entities.Update(t.Context(), e))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "")
			w.apply(t, "system: {limits: {rpm: 100}}\nentities: {x: {name: X, default: {limits: {rpm: 5}}}, other: {}}", Options{})
			p := w.plan(t, parsed(t, "system: {limits: {rpm: 100}}"), Options{Prune: true})
			require.Equal(t, 2, p.Count(Delete), lines(p))
			change(t, w)
			before := w.says(t)
			out, err := Apply(t.Context(), Of(admin.New(w.repo)), p, func(int, int) {})
			require.NoError(t, err)
			require.Len(t, out.Failed, 1)
			assert.True(t, out.Failed[0].Conflict)
			assert.Equal(t, 1, out.Done)
			assert.Equal(t, strings.ReplaceAll(before, "  other: {}\n", ""), w.says(t))
		})
	}
}

// A block that somebody set goes with its entity, or with a source, only if blocks are to be
// lifted.
func TestPruningKeepsWhoIsBlocked(t *testing.T) {
	for _, before := range []string{
		"entities: {x: {name: X, default: {limits: {rpm: 5}}}}", // its record is the manifest's
		"entities: {x: {default: {limits: {rpm: 5}}}}",          // it has none
	} {
		w := newWorld(t, "")
		w.apply(t, before, Options{})
		require.NoError(t, admin.New(w.repo).Limits.SetBlocked(t.Context(), admin.Scope{Entity: "x"}, true))
		p := w.apply(t, "version: 1", Options{Prune: true})
		assert.Contains(t, strings.Join(p.Warnings, "\n"), "--lift-blocks")
		assert.Zero(t, w.admits(t, "x", "gpt-4"))

		p = w.plan(t, parsed(t, "version: 1"), Options{Prune: true, LiftBlocks: true})
		assert.NotEmpty(t, p.Warnings)
		w.all(t, p)
		assert.NotContains(t, w.says(t), "x:")
	}
}

// Entities are deleted several at once, children before their parents, each try in a time of
// its own: many go in one apply from far away too.
func TestPruningFromFarAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		var b strings.Builder
		b.WriteString("entities:\n  org: {}\n")
		for i := range 90 {
			fmt.Fprintf(&b, "  key-%d: {parent: org, default: {limits: {rpm: %d}}}\n", i, i+1)
		}
		w.apply(t, b.String(), Options{})
		p := w.plan(t, parsed(t, "version: 1"), Options{Prune: true})
		w.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 100 * time.Millisecond} })
		w.timed(t, "the deletion of 91 entities at 100 ms a request", 15*time.Second, func() { w.all(t, p) })
	})
}
