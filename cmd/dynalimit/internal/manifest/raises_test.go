package manifest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// TestRaisesAreNotTheFiles: a raise is no difference; apply and prune keep it, whether the file has
// its source, changes it, or leaves it out, and the file that is exported has none.
func TestRaisesAreNotTheFiles(t *testing.T) {
	const system = "system: {limits: {rpm: 60}}\n"
	for name, test := range map[string]struct {
		before, after string
		alone         bool // the raise's source says nothing else in the end
		stays         bool // and the entity's record
	}{
		"of a source that is not in the file": {system, system, true, false},
		"of a source that is":                 {system + "entities: {x: {default: {limits: {rpm: 5}}}}", system + "entities: {x: {default: {limits: {rpm: 5}}}}", false, false},
		"of a source that changes":            {system + "entities: {x: {default: {limits: {rpm: 5}}}}", system + "entities: {x: {default: {limits: {rpm: 6}}}}", false, false},
		"of a source that is made":            {system, system + "entities: {x: {default: {limits: {rpm: 5}}}}", false, false},
		"of a source that goes":               {system + "entities: {x: {name: X, default: {limits: {rpm: 5}}}}", system + "entities: {x: {name: X}}", true, true},
		"of limits that are left out":         {system + "entities: {x: {default: {limits: {rpm: 5}}}}", system, true, false},
		"of an entity that is left out":       {system + "entities: {x: {name: X, default: {limits: {rpm: 5}}}}", system, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "")
			w.apply(t, test.before, Options{})
			at, ctx := admin.Scope{Entity: "x"}, t.Context()
			limits := admin.New(w.repo).Limits
			require.NoError(t, limits.Raise(ctx, at, "rpm", 600, time.Now().Add(time.Hour)))
			p := w.plan(t, parsed(t, test.before), Options{Prune: true})
			assert.False(t, p.Drifts(), lines(p))
			require.Len(t, p.Raises, 1)
			assert.Equal(t, at, p.Raises[0].Scope)
			assert.NotContains(t, w.says(t), "600")
			var shown strings.Builder
			Show(&term.Output{Writer: &shown}, p, "limits.yaml", false)
			assert.Contains(t, shown.String(), "entity x: rpm is raised to 600 until 2")

			w.apply(t, test.after, Options{Prune: true})
			c, err := limits.GetConfig(ctx, at)
			require.NoError(t, err)
			require.Len(t, c.Raises, 1)
			assert.Equal(t, test.alone, len(c.Limits) == 0)
			assert.Equal(t, test.stays, strings.Contains(w.says(t), "name: X"))
			assert.False(t, w.plan(t, parsed(t, test.after), Options{Prune: true}).Drifts())
		})
	}
}
