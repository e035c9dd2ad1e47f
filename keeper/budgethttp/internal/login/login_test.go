package login

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/tokens"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// A login gives two tokens of one session, and each is good for its own purpose only.
func TestTokensOfALogin(t *testing.T) {
	w := newWorld(t)
	c := w.client(orgO, appA)
	g := w.token(w.a, c)
	assert.Equal(t, time.Hour, g.ExpiresIn)
	assert.Equal(t, 7*24*time.Hour, g.RefreshExpiresIn)
	assert.Equal(t, "app", g.Claims.Scope())
	claims, err := w.b.Authenticate(t.Context(), g.Access)
	require.NoError(t, err)
	assert.Equal(t, g.Claims, claims)
	assert.Equal(t, [3]string{orgO, appA, c.ClientID}, [3]string{claims.Org, claims.App, claims.ClientID}, "the whole ids")
	refresh, err := w.a.codec.Parse(g.Refresh)
	require.NoError(t, err)
	assert.NotEqual(t, refresh.ID, claims.ID)
	assert.Equal(t, refresh.Session, claims.Session)

	w.carried(false, w.a, g.Refresh, "a refresh token as bearer")
	_, err = w.a.Refresh(t.Context(), g.Access)
	require.ErrorIs(t, err, ErrUnauthorized, "an access token to refresh")

	w.clock.Advance(time.Hour)
	w.carried(false, w.a, g.Access, "expired")
	next, err := w.b.Refresh(t.Context(), g.Refresh)
	require.NoError(t, err)
	assert.True(t, next.Refresh.Empty())
	w.carried(true, w.a, next.Access, "refreshed")
	assert.NotEqual(t, claims.ID, next.Claims.ID)
	assert.Equal(t, claims.Session, next.Claims.Session)

	w.clock.Advance(7 * 24 * time.Hour)
	_, err = w.b.Refresh(t.Context(), g.Refresh)
	require.ErrorIs(t, err, ErrUnauthorized, "the refresh token has expired")
	assert.Equal(t, "org", w.token(w.a, w.client(orgP, "")).Claims.Scope())
}

// Whatever is no good token is refused alike.
func TestBearersThatAreRefused(t *testing.T) {
	w := newWorld(t)
	g := w.token(w.a, w.client(orgO, ""))
	other, err := credentials.NewKeySet(nil, fixtureNow.Add(-time.Hour))
	require.NoError(t, err)
	stranger, err := tokens.New(tokens.Options{Keys: other, Issuer: issuer, Audience: audience, Now: w.clock.Now})
	require.NoError(t, err)
	forged, err := stranger.Sign(g.Claims)
	require.NoError(t, err)
	for name, text := range map[string]string{
		"none": "", "garbage": "a.b.c", "a secret": "dls_x", "another signer's": forged.Reveal(),
		"a byte more": g.Access.Reveal() + "A", "a byte less": g.Access.Reveal()[1:],
	} {
		_, err := w.a.Authenticate(t.Context(), credentials.NewSecret(text))
		assert.Equal(t, ErrUnauthorized, err, name)
		_, err = w.a.Refresh(t.Context(), credentials.NewSecret(text))
		assert.Equal(t, ErrUnauthorized, err, name)
	}
}

// A revoked refresh token ends its session: itself and every access token of it, here at
// once and elsewhere within 30 seconds. A revoked access token ends alone.
func TestRevocation(t *testing.T) {
	w := newWorld(t)
	c := w.client(orgO, appA)
	first, second := w.token(w.a, c), w.token(w.a, c)
	next, err := w.a.Refresh(t.Context(), first.Refresh)
	require.NoError(t, err)
	for _, n := range []*node{w.a, w.b} {
		for _, g := range []Grant{first, second, next} {
			w.carried(true, n, g.Access, "before")
		}
	}
	require.NoError(t, w.a.Revoke(t.Context(), second.Claims.ClientID, first.Refresh))
	for _, g := range []Grant{first, next} {
		w.carried(false, w.a, g.Access, "at once where it was revoked")
	}
	_, err = w.a.Refresh(t.Context(), first.Refresh)
	require.ErrorIs(t, err, ErrUnauthorized)
	w.clock.Advance(30 * time.Second)
	for _, g := range []Grant{first, next} {
		w.carried(false, w.b, g.Access, "elsewhere after 30 s")
	}
	_, err = w.b.Refresh(t.Context(), first.Refresh)
	require.ErrorIs(t, err, ErrUnauthorized)
	w.carried(true, w.b, second.Access, "another session")

	third, err := w.b.Refresh(t.Context(), second.Refresh)
	require.NoError(t, err)
	require.NoError(t, w.b.Revoke(t.Context(), third.Claims.ClientID, second.Access))
	w.carried(false, w.b, second.Access, "alone")
	w.carried(true, w.b, third.Access, "its session goes on")
	_, err = w.b.Refresh(t.Context(), second.Refresh)
	require.NoError(t, err)
}

// What is unknown or has expired needs no end; what is another's cannot be ended.
func TestRevocationOfOtherTokens(t *testing.T) {
	w := newWorld(t)
	mine, other := w.token(w.a, w.client(orgO, appA)), w.token(w.a, w.client(orgO, ""))
	for _, text := range []string{"", "garbage", "a.b.c", strings.Repeat("x", 5000)} {
		require.NoError(t, w.a.Revoke(t.Context(), mine.Claims.ClientID, credentials.NewSecret(text)), text)
	}
	for _, g := range []credentials.Secret{other.Access, other.Refresh} {
		require.ErrorIs(t, w.a.Revoke(t.Context(), mine.Claims.ClientID, g), ErrUnauthorized)
	}
	w.carried(true, w.a, other.Access, "another's")
	w.clock.Advance(2 * time.Hour)
	w.wire.take()
	require.NoError(t, w.a.Revoke(t.Context(), mine.Claims.ClientID, mine.Access))
	assert.Empty(t, w.wire.take(), "nothing is written for what has expired")
	w.clock.Advance(7*24*time.Hour - 2*time.Hour - time.Minute)
	last, err := w.a.Refresh(t.Context(), mine.Refresh)
	require.NoError(t, err)
	w.clock.Advance(20 * time.Minute)
	require.NoError(t, w.a.Revoke(t.Context(), last.Claims.ClientID, mine.Refresh))
	w.carried(false, w.a, last.Access, "an access token outlives its refresh token, and ends with it all the same")
}

func second[T any](_ T, err error) error { return err }

// A rotation without grace ends refresh tokens of before, one with a grace does not; a
// revocation of credentials ends access tokens too.
func TestRotationAndTokens(t *testing.T) {
	w := newWorld(t)
	c := w.client(orgO, "")
	g := w.token(w.a, c)
	_, err := w.b.store.Rotate(t.Context(), orgO, "", 24)
	require.NoError(t, err)
	_, err = w.a.Refresh(t.Context(), g.Refresh)
	require.NoError(t, err, "with a grace")
	r, err := w.b.store.Rotate(t.Context(), orgO, "", 0)
	require.NoError(t, err)
	_, err = w.a.Refresh(t.Context(), g.Refresh)
	require.ErrorIs(t, err, ErrUnauthorized, "without")
	w.carried(true, w.a, g.Access, "access tokens go on to their end")
	_, err = w.a.Token(t.Context(), home, c.ClientID, c.Secret)
	require.ErrorIs(t, err, ErrUnauthorized)

	c, err = w.a.store.Retrieve(t.Context(), orgO, "", r.Token)
	require.NoError(t, err)
	g = w.token(w.a, c)
	w.carried(true, w.b, g.Access, "of the new version")
	require.NoError(t, w.b.store.Revoke(t.Context(), orgO, ""))
	w.carried(false, w.b, g.Access, "of revoked credentials, at once")
	w.clock.Advance(30 * time.Second)
	w.carried(false, w.a, g.Access, "of revoked credentials, elsewhere")
	_, err = w.a.Refresh(t.Context(), g.Refresh)
	require.ErrorIs(t, err, ErrUnauthorized)
}

func TestOptionsThatCannotBe(t *testing.T) {
	w := newWorld(t)
	for name, change := range map[string]func(*Options){
		"no store":                            func(o *Options) { o.Store = nil },
		"no limiter":                          func(o *Options) { o.Limiter = nil },
		"no issuer":                           func(o *Options) { o.Issuer = "" },
		"access tokens for ever":              func(o *Options) { o.AccessTTL = 8 * 24 * time.Hour },
		"longer than revocations are kept":    func(o *Options) { o.RefreshTTL = 31 * 24 * time.Hour },
		"no failures of a client at all":      func(o *Options) { o.PerClient = -1 },
		"no failures of an address at all":    func(o *Options) { o.PerAddress = -1 },
		"access tokens of less than a second": func(o *Options) { o.AccessTTL = time.Millisecond },
	} {
		o := Options{Store: w.a.store, Limiter: w.a.opts.Limiter, Issuer: issuer, Audience: audience}
		change(&o)
		_, err := New(o)
		assert.Error(t, err, name)
	}
}
