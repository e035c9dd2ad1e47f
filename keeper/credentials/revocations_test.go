package credentials

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/keeper/internal/fixture"
)

// revoked asks a node about a token.
func (w *world) revoked(s *Store, token TokenRef) bool {
	w.t.Helper()
	revoked, err := s.Revoked(w.t.Context(), token)
	require.NoError(w.t, err)
	return revoked
}

// What is revoked is refused at once on the node that did it, and elsewhere when what that
// remembers is over.
func TestRevokedTokens(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		ctx, until := t.Context(), w.clock.Now().Add(time.Hour)
		one := TokenRef{ID: "one", Session: "s", ClientID: "c", Version: 1}
		two := TokenRef{ID: "two", Session: "s", ClientID: "c", Version: 1}
		other := TokenRef{ID: "three", Session: "z", ClientID: "c", Version: 1}
		for _, s := range []*Store{w.a, w.b} {
			for _, token := range []TokenRef{one, two, other} {
				assert.False(t, w.revoked(s, token))
			}
		}
		require.NoError(t, w.a.RevokeToken(ctx, "one", until))
		assert.True(t, w.revoked(w.a, one), "at once")
		assert.False(t, w.revoked(w.a, two), "only that one")
		w.clock.Advance(CacheTTL)
		assert.True(t, w.revoked(w.b, one), "elsewhere after the cache")

		require.NoError(t, w.b.RevokeSession(ctx, "s", until))
		assert.True(t, w.revoked(w.b, two), "with its session, at once")
		w.clock.Advance(CacheTTL)
		assert.True(t, w.revoked(w.a, two), "with its session, elsewhere")
		assert.False(t, w.revoked(w.a, other), "another session")
		assert.False(t, w.revoked(w.a, TokenRef{ID: "s"}), "a session's id is no token's")
	})
}

// A node asks once about a token and remembers for 30 seconds that it is good; who asks in the
// last fifth of them has it read again beside.
func TestGoodTokensAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where a read beside has ended after Wait
		w := newWorld(t)
		token := TokenRef{ID: "one", Session: "s", ClientID: "c", Version: 1}
		before := w.db.Meter()
		for range 8 {
			w.revoked(w.a, token)
			w.clock.Advance(CacheTTL/10 - time.Millisecond)
		}
		synctest.Wait()
		spent := w.db.Meter().Sub(before)
		assert.Equal(t, int64(1), spent.Requests())
		assert.InDelta(t, 3, spent.ReadUnits(), 0)
		w.clock.Advance(8 * time.Millisecond)
		w.revoked(w.a, token)
		synctest.Wait()
		assert.Equal(t, int64(2), w.db.Meter().Sub(before).Requests(), "again, ahead of its end")
		require.NoError(t, w.b.RevokeToken(t.Context(), "one", w.clock.Now().Add(time.Hour)))
		w.clock.Advance(CacheTTL - time.Millisecond)
		assert.False(t, w.revoked(w.a, token), "the last moment of what it remembers")
		synctest.Wait() // the read beside
		assert.True(t, w.revoked(w.a, token))
	})
}

// While the store does not answer, what is remembered holds for its time and no longer.
func TestRevocationFailsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // whose time stands while something is done
		w := newWorld(t, func(o *Options) { o.Timeout, o.RequestTimeout = 50*time.Millisecond, 20*time.Millisecond })
		token := TokenRef{ID: "one"}
		w.revoked(w.a, token)
		w.db.SetFaults(fixture.Down)
		assert.False(t, w.revoked(w.a, token), "remembered")
		w.clock.Advance(CacheTTL)
		revoked, err := w.a.Revoked(t.Context(), token)
		require.ErrorIs(t, err, ErrUnavailable)
		assert.True(t, revoked)
	})
}

// Revoking what has expired writes nothing; a revocation goes after its token.
func TestRevocationsEndWithTheirTokens(t *testing.T) {
	w := newWorld(t)
	ctx, now := t.Context(), w.clock.Now()
	before := w.db.Meter()
	require.NoError(t, w.a.RevokeToken(ctx, "old", now.Add(-time.Hour)))
	assert.Zero(t, w.db.Meter().Sub(before).Requests())
	require.NoError(t, w.a.RevokeToken(ctx, "one", now.Add(time.Hour)))
	for _, id := range []string{"", strings.Repeat("x", 129)} {
		require.ErrorAs(t, w.a.RevokeToken(ctx, id, now.Add(time.Hour)), new(*ValidationError))
		_, err := w.a.Revoked(ctx, TokenRef{ID: id})
		require.ErrorAs(t, err, new(*ValidationError))
	}
}
