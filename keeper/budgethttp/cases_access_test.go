package budgethttp

import (
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
	"github.com/dynalimit/dynalimit/keeper/credentials"
	"github.com/dynalimit/dynalimit/keeper/internal/fixture"
)

// logIn logs in.
func (n *node) logIn(credentials example) *reply {
	n.t.Helper()
	return n.as("").do(http.MethodPost, "/auth/token", credentials)
}

// refresh asks for a new access token.
func (n *node) refresh(token string) *reply {
	n.t.Helper()
	return n.as("").do(http.MethodPost, "/auth/refresh", example{"refresh_token": token})
}

// forge signs what a test wants, by the key that signs unless it says otherwise. It is app A's
// access token but for the changes.
func (w *world) forge(method jwt.SigningMethod, key any, header, claims example) string {
	w.t.Helper()
	signer, now := w.keys.Signer(w.clock.Now()), w.clock.Now()
	if key == nil {
		key = signer.Private()
	}
	token := jwt.New(method)
	token.Header = example{"alg": method.Alg(), "typ": "JWT", "kid": signer.ID}.but(header)
	token.Claims = jwt.MapClaims(example{
		"iss": "dynalimit", "aud": "budget", "sub": credentials.ClientID(orgO, appA), "jti": "forged", "sid": "forged too", "cv": 1,
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "type": "access", "org_id": orgO, "app_id": appA, "scope": "app",
	}.but(claims))
	text, err := token.SignedString(key)
	require.NoError(w.t, err)
	return text
}

// Whatever is wrong with a token, the answer is the same, where it is a bearer's and where it
// is to be refreshed.
func TestCaseE35BadTokensAreAllAlike(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		grant := w.a.logIn(w.login(pathA)).is(http.StatusOK)
		access, refresh := grant.text("access_token"), grant.text("refresh_token")
		want := w.a.ask("x").fails(http.StatusUnauthorized, wire.Unauthorized)
		same := func(name string, r *reply) {
			t.Helper()
			r.fails(http.StatusUnauthorized, wire.Unauthorized)
			assert.Equal(t, want.body["message"], r.body["message"], name)
			assert.Equal(t, want.body["details"], r.body["details"], name)
			assert.Equal(t, want.header.Get("WWW-Authenticate"), r.header.Get("WWW-Authenticate"), name)
		}
		bearer := func(value string) *reply {
			return w.b.as("").send(http.MethodGet, pathA+"/model-selection", nil, "Authorization", value)
		}
		same("two tokens", bearer("Bearer "+access+" "+access))
		same("no scheme", bearer(access))
		same("basic", bearer("Basic "+access))
		bearer("bearer " + access).is(http.StatusOK)
		same("a refresh token", w.a.ask(refresh))
		refused := w.a.refresh(access).fails(http.StatusUnauthorized, wire.Unauthorized)

		stranger, err := credentials.NewKeySet(nil, fixtureNow.Add(-time.Hour))
		require.NoError(t, err)
		public := []byte(w.keys.Signer(w.clock.Now()).Public())
		now := w.clock.Now()
		for kind, try := range map[string]func(name, token string){
			"access": func(name, token string) { same(name, w.b.ask(token)) },
			"refresh": func(name, token string) {
				r := w.b.refresh(token).fails(http.StatusUnauthorized, wire.Unauthorized)
				assert.Equal(t, refused.body["message"], r.body["message"], name)
				assert.Equal(t, refused.body["details"], r.body["details"], name)
			},
		} {
			of := func(header, claims example) string {
				all := example{"type": kind}
				maps.Copy(all, claims)
				return w.forge(jwt.SigningMethodEdDSA, nil, header, all)
			}
			if good := of(nil, nil); kind == "access" {
				w.b.ask(good).is(http.StatusOK)
			} else {
				w.b.refresh(good).is(http.StatusOK)
			}
			changed := []byte(of(nil, nil))
			changed[len(changed)/2] ^= 1
			for name, token := range map[string]string{
				"alg none":             w.forge(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil, example{"type": kind}),
				"alg HS384":            w.forge(jwt.SigningMethodHS384, public, nil, example{"type": kind}),
				"alg HS384, by header": of(example{"alg": "HS384"}, nil),
				"expired by 1 s":       of(nil, example{"exp": now.Add(-time.Second).Unix(), "iat": now.Add(-time.Hour).Unix()}),
				"another issuer":       of(nil, example{"iss": "other"}),
				"another audience":     of(nil, example{"aud": "other"}),
				"no issuer":            of(nil, example{"iss": nil}),
				"no audience":          of(nil, example{"aud": nil}),
				"no jti":               of(nil, example{"jti": nil}),
				"no exp":               of(nil, example{"exp": nil}),
				"a changed byte":       string(changed),
				"an unknown kid":       of(example{"kid": "nobody"}, nil),
				"no kid":               of(example{"kid": nil}, nil),
				"another's key":        w.forge(jwt.SigningMethodEdDSA, stranger.Signer(now).Private(), nil, example{"type": kind}),
				"none":                 "",
			} {
				if token != "" || kind == "access" {
					try(kind+": "+name, token)
				}
			}
		}
		same("another issuer's server", w.with(func(o *Options) { o.Issuer = "other" }).ask(access))
		same("another audience's server", w.with(func(o *Options) { o.Audience = "other" }).ask(access))

		w.clock.Advance(time.Hour - time.Second)
		w.b.ask(access).is(http.StatusOK)
		w.clock.Advance(time.Second)
		same("expired", w.b.ask(access))
		w.clock.Advance(time.Second)
		same("expired by 1 s", w.a.ask(access))
		w.b.refresh(refresh).is(http.StatusOK)
		w.clock.Advance(7*24*time.Hour - time.Hour)
		w.b.refresh(refresh).fails(http.StatusUnauthorized, wire.Unauthorized)
	})
}

// While nobody can tell whether a token was revoked, it lets nobody in: not on a node that has
// never seen it, and not on one that last knew 30 s ago.
func TestCaseE36TokensFailClosed(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		grant := w.a.logIn(w.login(pathA)).is(http.StatusOK)
		access, refresh := grant.text("access_token"), grant.text("refresh_token")
		w.a.ask(access).is(http.StatusOK)
		w.clock.Advance(30 * time.Second)
		w.engine.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "InternalServerError", Message: "secret-of-the-inside"}}
		})
		for _, n := range []*node{w.a, w.node(w.keeper())} {
			r := n.ask(access).fails(http.StatusServiceUnavailable, wire.ServiceUnavailable)
			assert.NotEmpty(t, r.header.Get("Retry-After"))
		}
		w.b.refresh(refresh).fails(http.StatusServiceUnavailable, wire.ServiceUnavailable)
		w.engine.SetFaults(nil)
	})
}

// Of two rotations at the same time, each at a node of its own, one wins, and its secret works.
func TestCaseE38ConcurrentRotations(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		put := w.a.as("key").do(http.MethodPut, pathA, exampleApp).is(http.StatusCreated)
		client, first := put.text("client_id"), w.a.secretOf(pathA, put.text("retrieval_token"))
		w.engine.SetFaults(fixture.NewGate(2).Before("TransactWriteItems")) // both have read what is there
		var mu sync.Mutex
		replies := map[int]*reply{}
		together(2, 2, func(i int) {
			r := []*node{w.a, w.b}[i].as("key").do(http.MethodPost, pathA+"/credentials/rotate", example{"grace_hours": 24})
			mu.Lock()
			defer mu.Unlock()
			replies[r.status] = r
		})
		w.engine.SetFaults(nil)
		require.Contains(t, replies, http.StatusOK)
		require.Contains(t, replies, http.StatusConflict)
		replies[http.StatusConflict].fails(http.StatusConflict, wire.ConcurrentModification)
		assert.NotContains(t, replies[http.StatusConflict].body, "retrieval_token")
		second := w.a.secretOf(pathA, replies[http.StatusOK].text("retrieval_token"))
		assert.True(t, w.good(client, second))
		assert.True(t, w.good(client, first), "in its grace")
		w.b.logIn(example{"client_id": client, "client_secret": second}).is(http.StatusOK)
	})
}
