package budgethttp

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/wire"
	"github.com/dynalimit/dynalimit/budget/credentials"
	"github.com/dynalimit/dynalimit/budget/internal/fixture"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// claimsOf is what a token says.
func claimsOf(t testing.TB, token string) (claims map[string]any) {
	t.Helper()
	parts := strings.Split(token, ".")
	require.Len(t, parts, 3)
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &claims))
	return claims
}

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

// A login gives two tokens, and one of them gives further ones, that reach what they say.
func TestCaseE35TokenLifecycle(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		credentials := w.login(pathA)
		w.clock.Advance(time.Minute)
		for _, path := range []string{"/auth/token", "/api/v1/auth/token"} {
			r := w.b.as("").do(http.MethodPost, path, credentials).is(http.StatusOK)
			assert.Equal(t, []int64{3600, 604_800}, []int64{r.number("expires_in"), r.number("refresh_expires_in")})
			assert.Equal(t, []any{"Bearer", "app", orgO, appA}, []any{r.at("token_type"), r.at("scope"), r.at("org_id"), r.at("app_id")})
			assert.Equal(t, "no-store", r.header.Get("Cache-Control"))
			access, refresh := claimsOf(t, r.text("access_token")), claimsOf(t, r.text("refresh_token"))
			assert.NotEmpty(t, access["jti"])
			assert.NotEqual(t, access["jti"], refresh["jti"])
			assert.Equal(t, access["sid"], refresh["sid"], "of one login")
			w.a.ask(r.text("access_token")).is(http.StatusOK)

			refreshed := w.a.as("").do(http.MethodPost, strings.Replace(path, "token", "refresh", 1), example{"refresh_token": r.text("refresh_token")}).is(http.StatusOK)
			assert.Equal(t, []any{orgO, appA}, []any{refreshed.at("org_id"), refreshed.at("app_id")}, "the whole id")
			assert.Equal(t, orgO, claimsOf(t, refreshed.text("access_token"))["org_id"])
			assert.NotEqual(t, access["jti"], claimsOf(t, refreshed.text("access_token"))["jti"])
			assert.NotContains(t, refreshed.body, "refresh_token")
			for _, n := range []*node{w.a, w.b} {
				n.ask(refreshed.text("access_token")).is(http.StatusOK)
			}
			for _, secret := range []string{r.text("access_token"), r.text("refresh_token"), credentials["client_secret"].(string)} {
				assert.NotContains(t, w.log.String(), secret)
			}
		}
	})
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

// A refresh token ends with all access tokens from it, an access token alone: at once on the
// node that was asked, within 30 s on the other.
func TestCaseE36Revocation(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		good, whole := w.login(pathA), w.login(pathO)
		grant := func() *reply { return w.a.logIn(good).is(http.StatusOK) }
		end := func(n *node, bearer, token string) *reply {
			return n.as("").send(http.MethodPost, "/auth/revoke", []byte(`{"token":"`+token+`"}`), "Authorization", "Bearer "+bearer)
		}
		first, second, caller := grant(), grant(), grant().text("access_token")
		sibling := w.b.refresh(first.text("refresh_token")).is(http.StatusOK).text("access_token")
		cousin := w.b.refresh(second.text("refresh_token")).is(http.StatusOK).text("access_token")
		ended := []string{first.text("access_token"), sibling, second.text("access_token")}
		for _, n := range []*node{w.a, w.b} { // both know them for good
			for _, token := range append(ended, cousin) {
				n.ask(token).is(http.StatusOK)
			}
		}
		assert.Empty(t, end(w.a, caller, first.text("refresh_token")).is(http.StatusNoContent).raw)
		end(w.a, caller, second.text("access_token")).is(http.StatusNoContent)
		for _, token := range ended {
			w.a.ask(token).fails(http.StatusUnauthorized, wire.Unauthorized)
		}
		w.a.refresh(first.text("refresh_token")).fails(http.StatusUnauthorized, wire.Unauthorized)
		w.clock.Advance(30 * time.Second)
		for _, token := range ended {
			w.b.ask(token).fails(http.StatusUnauthorized, wire.Unauthorized)
		}
		w.b.refresh(first.text("refresh_token")).fails(http.StatusUnauthorized, wire.Unauthorized)
		for _, n := range []*node{w.a, w.b} {
			n.ask(cousin).is(http.StatusOK)
			n.refresh(second.text("refresh_token")).is(http.StatusOK)
		}

		end(w.a, caller, "unknown").is(http.StatusNoContent)
		end(w.a, caller, first.text("refresh_token")).is(http.StatusNoContent)
		other := w.a.logIn(whole).is(http.StatusOK)
		end(w.a, other.text("access_token"), caller).fails(http.StatusUnauthorized, wire.Unauthorized)
		end(w.b, second.text("refresh_token"), caller).fails(http.StatusUnauthorized, wire.Unauthorized)
		for _, n := range []*node{w.a, w.b} {
			end(n, second.text("access_token"), caller).fails(http.StatusUnauthorized, wire.Unauthorized)
			n.ask(caller).is(http.StatusOK)
		}
		w.clock.Advance(time.Hour)
		fresh := grant().text("access_token")
		w.a.ask(caller).fails(http.StatusUnauthorized, wire.Unauthorized)
		end(w.a, fresh, caller).is(http.StatusNoContent)
		w.b.ask(fresh).is(http.StatusOK)
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

// With a grace two secrets work, until its end to the second; without one, one.
func TestCaseE38Rotation(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		admin := w.a.as("key")
		began := fixtureNow
		for path, body := range map[string]example{pathO: exampleOrg, pathA: exampleApp} {
			w.clock.Set(began)
			put := admin.do(http.MethodPut, path, body).is(http.StatusCreated)
			client, first := put.text("client_id"), w.a.secretOf(path, put.text("retrieval_token"))
			rotate := func(hours any) *reply {
				return admin.do(http.MethodPost, path+"/credentials/rotate", example{"grace_hours": hours})
			}
			for _, bad := range []any{-1, 169, "24", 1.5, nil, true, 1e18} {
				rotate(bad).fails(http.StatusBadRequest, wire.InvalidRequest)
			}
			admin.do(http.MethodPost, path+"/credentials/rotate", example{}).fails(http.StatusBadRequest, wire.InvalidRequest)

			r := rotate(24).is(http.StatusOK)
			assert.Equal(t, began.Add(24*time.Hour).Format(time.RFC3339), r.at("grace_until"))
			assert.Equal(t, false, r.at("oldest_dropped"))
			second := w.b.secretOf(path, r.text("retrieval_token"))
			works := func(want bool, secret, why string) {
				t.Helper()
				assert.Equal(t, want, w.good(client, secret), why)
			}
			works(true, first, "the old one in its grace")
			works(true, second, "the new one at once")
			admin.do(http.MethodPut, path, body.but(example{"tight_mode_threshold_pct": 80})).is(http.StatusOK)
			works(true, first, "a PUT leaves it alone")
			works(true, second, "a PUT leaves it alone")
			w.clock.Set(began.Add(86_399 * time.Second))
			works(true, first, "the last second of its grace")
			w.clock.Set(began.Add(86_400 * time.Second))
			works(false, first, "the end of its grace")
			w.a.logIn(example{"client_id": client, "client_secret": first}).fails(http.StatusUnauthorized, wire.Unauthorized)
			w.b.logIn(example{"client_id": client, "client_secret": second}).is(http.StatusOK)

			third := w.a.secretOf(path, rotate(2).is(http.StatusOK).text("retrieval_token"))
			again := rotate(1).is(http.StatusOK)
			assert.Equal(t, true, again.at("oldest_dropped"))
			fourth := w.a.secretOf(path, again.text("retrieval_token"))
			works(false, second, "the oldest of three")
			works(true, third, "the second newest")
			works(true, fourth, "the newest")

			outstanding := w.a.logIn(example{"client_id": client, "client_secret": fourth}).is(http.StatusOK).text("refresh_token")
			w.b.refresh(outstanding).is(http.StatusOK)
			none := rotate(0).is(http.StatusOK)
			assert.NotContains(t, none.body, "grace_until")
			fifth := w.a.secretOf(path, none.text("retrieval_token"))
			works(false, fourth, "no grace")
			works(true, fifth, "the new one at once")
			for _, n := range []*node{w.a, w.b} {
				n.refresh(outstanding).fails(http.StatusUnauthorized, wire.Unauthorized)
			}
			began = w.clock.Now().Add(time.Hour)
		}
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
