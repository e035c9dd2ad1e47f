package credentials

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An unknown client, a wrong secret, a client that was revoked and one with a grace cost
// the same: one read, and one HMAC, or one for each pepper while there are two.
func TestRefusedLoginsAreAlike(t *testing.T) {
	w := newWorld(t)
	known := w.create(w.a, orgO, appA).ClientID
	w.create(w.a, orgO, "revoked")
	require.NoError(t, w.a.Revoke(t.Context(), orgO, "revoked"))
	w.create(w.a, orgO, "grace")
	w.rotate(w.a, orgO, "grace", 24)
	w.create(w.a, orgO, "deleted")
	require.NoError(t, w.a.Delete(t.Context(), orgO, "deleted"))
	two, err := w.keys.Rotated(chance(6), fixtureNow, 0)
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		node   *Store
		hashes int64
	}{"one pepper": {w.a, 1}, "two peppers": {w.node(func(o *Options) { o.Keys = two }), 2}} {
		for _, id := range []string{
			known, ClientID(orgO, "nobody"), ClientID(orgO, "revoked"), ClientID(orgO, "grace"), ClientID(orgO, "deleted"), ClientID(orgP, ""),
		} {
			for _, secret := range []string{"dls_wrong", "", string(make([]byte, 128))} {
				before, meter := tc.node.Stats(), w.db.Meter()
				_, err := tc.node.Verify(t.Context(), id, NewSecret(secret))
				require.Equal(t, ErrInvalidCredentials, err)
				after, spent := tc.node.Stats(), w.db.Meter().Sub(meter)
				assert.Equal(t, tc.hashes, after.Hashes-before.Hashes, "%s: %s", name, id)
				assert.Equal(t, int64(1), after.RefusedLogins-before.RefusedLogins)
				assert.Equal(t, int64(1), spent.Requests(), "%s: %s", name, id)
				assert.InDelta(t, 1, spent.ReadUnits(), 0, "%s: %s", name, id)
			}
		}
	}
}
