package manifest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/admin"
)

// TestVersionSaysWhetherParentsCount: a file of version 1 keeps its meaning, and an export, of
// version 2, says the same as the table.
func TestVersionSaysWhetherParentsCount(t *testing.T) {
	const text = "entities: {team: {plan: pro}, a: {parent: team}, b: {parent: team, cascade: true}}\nplans: {pro: {default: {limits: {rpm: 5}}}}\n"
	one, two := parsed(t, text), parsed(t, "version: 2\n"+text)
	assert.Equal(t, admin.Entity{ID: "a", ParentID: "team", Detached: true}, one.Entities["a"].Record)
	assert.Equal(t, admin.Entity{ID: "a", ParentID: "team"}, two.Entities["a"].Record)
	assert.Equal(t, one.Entities["b"], two.Entities["b"])
	assert.Len(t, one.Warnings, 1)
	assert.Empty(t, two.Warnings)
	_, err := Parse("limits.yaml", []byte("entities: {a: {parent: team, detached: true}}"))
	require.ErrorContains(t, err, "entities.a.detached: is of version 2")
	_, err = Parse("limits.yaml", []byte("version: 2\nentities: {a: {parent: team, cascade: false}}"))
	require.ErrorContains(t, err, "entities.a.cascade: is false, which in a file of version 1 means")

	w := newWorld(t, "")
	w.apply(t, text, Options{})
	w.apply(t, text, Options{})
	assert.Equal(t, []string{"update record of entity a: detached true -> "}, lines(w.plan(t, two, Options{})))
	p := w.plan(t, parsed(t, "version: 2\nentities: {a: {parent: team}, team: {plan: none}}"), Options{})
	assert.Contains(t, p.Warnings, `entity a: its parent "team" has no limits of its own and no plan with limits: calls of its children charge nothing to it`)
}
