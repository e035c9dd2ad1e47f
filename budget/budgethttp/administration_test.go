package budgethttp

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/budget/credentials"
	"github.com/dynalimit/dynalimit/budget/internal/fixture"
)

// Credentials of what was deleted meanwhile end, also when their caller has hung up.
func TestCredentialsOfWhatIsGoneEndThoughTheCallerLeaves(t *testing.T) {
	w := newWorld(t)
	for app, leave := range map[string]struct{ before, created, seen bool }{
		"a": {before: true}, "b": {created: true}, "c": {seen: true}, "d": {},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if leave.before {
			cancel()
		}
		_, err := administration{w.a.keeper, w.a.store}.issue(ctx, &exchange{principal: fixture.Principal}, orgO, app, func(ctx context.Context) error {
			if leave.created {
				cancel()
			}
			_, err := w.b.keeper.Setup().GetApp(ctx, orgO, app) // deleted, or never there
			if leave.seen {
				cancel()
			}
			return err
		})
		require.ErrorIs(t, err, budget.ErrNotFound)
		cancel()
		_, err = w.b.store.Lookup(t.Context(), credentials.ClientID(orgO, app))
		require.ErrorIs(t, err, credentials.ErrNotFound, app)
	}
}
