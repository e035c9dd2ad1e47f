package infra

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/admin"
)

// TestTheFirstGroupIsTheTablesAdministrators: setting it changes the version record, which is
// in no namespace. Who administers a namespace is told so, and sets groups once there is one.
func TestTheFirstGroupIsTheTablesAdministrators(t *testing.T) {
	inWorld(t, func(w world) {
		set := func(policy, namespace, resource string) (*guarded, error) {
			r, g := w.open(policy, namespace)
			return g, only(admin.New(r).Limits.SetConfig(w.Context(), admin.Scope{Everyone: true, Resource: resource}, admin.LimitConfig{Groups: []string{"all"}}))
		}
		whole, bound := roleOf(t, "Admin", ""), roleOf(t, "Admin", "eu")
		before := w.dump()
		_, err := set(bound, "eu", "a")
		require.ErrorContains(t, err, "set kinds_min in the version record, by who administers the whole table")
		require.ErrorContains(t, err, "AccessDenied")
		assert.Equal(t, before, w.dump(), "nothing was changed")
		for _, one := range []struct{ policy, namespace, resource string }{{whole, "eu", "b"}, {bound, "eu", "c"}, {whole, "", "d"}} {
			g, err := set(one.policy, one.namespace, one.resource)
			require.NoError(t, err)
			g.permits(t)
		}
	})
}
