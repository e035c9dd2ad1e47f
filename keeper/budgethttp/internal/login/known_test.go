package login

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// known shows an access token twice at a node, which knows it then.
func (w *world) known(n *node, access credentials.Secret) {
	w.t.Helper()
	before, _ := n.Stats()
	w.carried(true, n, access, "the first time")
	w.carried(true, n, access, "the second time")
	after, _ := n.Stats()
	require.Positive(w.t, after-before, "it is known")
}

// That a token is known to be genuine says nothing of its revocation.
func TestKnownTokenIsRevoked(t *testing.T) {
	for name, revoke := range map[string]func(w *world, g Grant) error{
		"the token": func(w *world, g Grant) error { return w.a.Revoke(t.Context(), g.Claims.ClientID, g.Access) },
		"its login": func(w *world, g Grant) error { return w.a.Revoke(t.Context(), g.Claims.ClientID, g.Refresh) },
		"its client": func(w *world, g Grant) error {
			return w.a.store.Revoke(t.Context(), g.Claims.Org, g.Claims.App)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			g := w.token(w.a, w.client(orgO, appA))
			w.known(w.a, g.Access)
			w.known(w.b, g.Access)
			require.NoError(t, revoke(w, g))
			w.carried(false, w.a, g.Access, "where it was revoked")
			w.clock.Advance(credentials.CacheTTL)
			w.carried(false, w.b, g.Access, "and elsewhere")
		})
	}
}

// While the store does not say that a token was not revoked, it lets nobody in, however
// well it is known.
func TestKnownTokenIsRefusedWhileRevocationsCannotBeRead(t *testing.T) {
	w := newWorld(t)
	brief := w.brief()
	g := w.token(w.a, w.client(orgO, appA))
	w.known(brief, g.Access)
	w.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: r.Table == "control"} })
	w.clock.Advance(credentials.CacheTTL - time.Second)
	w.carried(true, brief, g.Access, "for as long as it is known not to be revoked")
	w.clock.Advance(time.Second)
	_, err := brief.Authenticate(t.Context(), g.Access)
	require.ErrorIs(t, err, credentials.ErrUnavailable)
	w.db.SetFaults(nil)
	w.carried(true, brief, g.Access, "when it can be read")
}

// A known token ends with the key that signed it.
func TestKnownTokenEndsWhenItsKeyIsTakenOut(t *testing.T) {
	w := newWorld(t)
	keys := &source{w.keys}
	n := w.node(func(o *Options) { o.Store = w.storeOf(keys) })
	g := w.token(n, w.client(orgO, appA))
	w.known(n, g.Access)
	fresh, err := credentials.NewKeySet(nil, fixtureNow)
	require.NoError(t, err)
	keys.set = fresh
	w.carried(false, n, g.Access, "its key is gone")
	keys.set = w.keys
	w.carried(true, n, g.Access, "its key is back")
}

// source has keys that a test changes.
type source struct{ set *credentials.KeySet }

func (s *source) Keys() *credentials.KeySet { return s.set }
