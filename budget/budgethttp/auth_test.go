package budgethttp

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/tokens"
	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/wire"
	"github.com/dynalimit/dynalimit/budget/credentials"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// client makes credentials of whose path it is, and returns what logs in with them.
func (w *world) login(path string) example {
	w.t.Helper()
	body := exampleApp
	if path == pathO {
		body = exampleOrg
	}
	put := w.a.as("key").do(http.MethodPut, path, body).is(http.StatusCreated)
	return example{"client_id": put.text("client_id"), "client_secret": w.a.secretOf(path, put.text("retrieval_token"))}
}

// ask sends a request with a token as it is.
func (n *node) ask(bearer string) *reply {
	n.t.Helper()
	return n.as("").send(http.MethodGet, pathA+"/model-selection", nil, "Authorization", "Bearer "+bearer)
}

func TestTokensAreIssuedAndRefreshed(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		credentials := w.login(pathA)
		w.clock.Advance(time.Minute)
		for _, path := range []string{"/auth/token", "/api/v1/auth/token"} {
			r := w.b.as("").do(http.MethodPost, path, credentials).is(http.StatusOK)
			assert.Equal(t, int64(3600), r.number("expires_in"))
			assert.Equal(t, int64(604_800), r.number("refresh_expires_in"))
			assert.Equal(t, []any{"Bearer", "app", orgO, appA}, []any{r.at("token_type"), r.at("scope"), r.at("org_id"), r.at("app_id")})
			assert.Equal(t, "no-store", r.header.Get("Cache-Control"))
			w.a.ask(r.text("access_token")).is(http.StatusOK)

			refreshed := w.a.as("").do(http.MethodPost, strings.Replace(path, "token", "refresh", 1), example{"refresh_token": r.text("refresh_token")}).is(http.StatusOK)
			assert.Equal(t, orgO, refreshed.text("org_id"), "the whole id")
			assert.NotContains(t, refreshed.body, "refresh_token")
			w.b.ask(refreshed.text("access_token")).is(http.StatusOK)
			for _, secret := range []string{r.text("access_token"), r.text("refresh_token"), credentials["client_secret"].(string)} {
				assert.NotContains(t, w.log.String(), secret)
			}
		}
	})
}

// Whatever is wrong with a token, the answer is the same.
func TestBadTokensAreAllAlike(t *testing.T) {
	w := newWorld(t)
	grant := w.a.as("").do(http.MethodPost, "/auth/token", w.login(pathA)).is(http.StatusOK)
	access, refresh := grant.text("access_token"), grant.text("refresh_token")
	want := w.a.ask("x").fails(http.StatusUnauthorized, wire.Unauthorized)
	same := func(name string, r *reply) {
		t.Helper()
		r.fails(http.StatusUnauthorized, wire.Unauthorized)
		assert.Equal(t, want.body["message"], r.body["message"], name)
		assert.Equal(t, want.body["details"], r.body["details"], name)
	}
	same("a refresh token", w.a.ask(refresh))
	changed := []byte(access)
	changed[len(changed)/2] ^= 1
	same("a changed byte", w.a.ask(string(changed)))
	same("another issuer's", w.with(func(o *Options) { o.Issuer = "other" }).ask(access))
	same("for somebody else", w.with(func(o *Options) { o.Audience = "other" }).ask(access))
	same("two tokens", w.a.as("").send(http.MethodGet, pathA+"/model-selection", nil, "Authorization", "Bearer "+access+" "+access))
	same("no scheme", w.a.as("").send(http.MethodGet, pathA+"/model-selection", nil, "Authorization", access))
	same("basic", w.a.as("").send(http.MethodGet, pathA+"/model-selection", nil, "Authorization", "Basic "+access))
	w.a.as("").send(http.MethodGet, pathA+"/model-selection", nil, "Authorization", "bearer "+access).is(http.StatusOK)

	refused := w.a.as("").do(http.MethodPost, "/auth/refresh", example{"refresh_token": access}).fails(http.StatusUnauthorized, wire.Unauthorized)
	for _, bad := range []string{"x", refresh + "x", access} {
		r := w.a.as("").do(http.MethodPost, "/auth/refresh", example{"refresh_token": bad}).fails(http.StatusUnauthorized, wire.Unauthorized)
		assert.Equal(t, refused.body["message"], r.body["message"])
	}
	w.clock.Advance(time.Hour)
	same("expired", w.a.ask(access))
	w.a.as("").do(http.MethodPost, "/auth/refresh", example{"refresh_token": refresh}).is(http.StatusOK)
	w.clock.Advance(7 * 24 * time.Hour)
	w.a.as("").do(http.MethodPost, "/auth/refresh", example{"refresh_token": refresh}).fails(http.StatusUnauthorized, wire.Unauthorized)
}

// A client that is not there, and a secret that is not its, are answered alike.
func TestBadLoginsAreAllAlike(t *testing.T) {
	w := newWorld(t)
	good := w.login(pathA)
	log := func(values example) *reply {
		return w.a.as("").do(http.MethodPost, "/auth/token", good.but(values))
	}
	want := log(example{"client_secret": "wrong"}).fails(http.StatusUnauthorized, wire.Unauthorized)
	for _, values := range []example{{"client_id": credentials.ClientID(orgNone, "")}, {"client_id": "nobody"}, {"client_id": credentials.ClientID(orgO, "")}, {"client_id": "org-" + orgO + "#"}} {
		assert.Equal(t, want.body["message"], log(values).fails(http.StatusUnauthorized, wire.Unauthorized).body["message"])
	}
	for _, values := range []example{{"client_secret": strings.Repeat("x", 129)}, {"client_id": strings.Repeat("x", 129)}, {"client_secret": ""}, {"client_secret": nil}, {"client_secret": 1}, {"grant": "x"}} {
		log(values).fails(http.StatusBadRequest, wire.InvalidRequest)
	}
}

// Ten logins of an address may fail in a minute; the next is not looked at.
func TestFailedLoginsAreLimited(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		good := w.login(pathA)
		for range 10 {
			w.a.as("").do(http.MethodPost, "/auth/token", example{"client_id": "nobody", "client_secret": "x"}).fails(http.StatusUnauthorized, wire.Unauthorized)
		}
		for _, n := range []*node{w.a, w.b} {
			r := n.as("").do(http.MethodPost, "/auth/token", good).fails(http.StatusTooManyRequests, wire.RateLimitExceeded)
			assert.NotEmpty(t, r.header.Get("Retry-After"))
		}
		elsewhere := w.with(func(o *Options) {
			o.Address = func(*http.Request) netip.Addr { return netip.MustParseAddr("203.0.113.7") }
		})
		elsewhere.as("").do(http.MethodPost, "/auth/token", good).is(http.StatusOK)
		w.clock.Advance(time.Minute)
		w.a.as("").do(http.MethodPost, "/auth/token", good).is(http.StatusOK)
	})
}

// A refresh token ends with all access tokens from it, an access token alone: at once on
// the node that was asked, within 30 s on the other.
func TestRevokedTokensEnd(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		good, whole := w.login(pathA), w.login(pathO)
		grant := func() *reply { return w.a.as("").do(http.MethodPost, "/auth/token", good).is(http.StatusOK) }
		end := func(bearer, token string) *reply {
			return w.a.as("").send(http.MethodPost, "/auth/revoke", []byte(`{"token":"`+token+`"}`), "Authorization", "Bearer "+bearer)
		}
		first, second, caller := grant(), grant(), grant().text("access_token")
		sibling := w.b.as("").do(http.MethodPost, "/auth/refresh", example{"refresh_token": first.text("refresh_token")}).is(http.StatusOK).text("access_token")
		for _, n := range []*node{w.a, w.b} { // both know them for good
			n.ask(first.text("access_token")).is(http.StatusOK)
			n.ask(sibling).is(http.StatusOK)
			n.ask(second.text("access_token")).is(http.StatusOK)
		}
		assert.Empty(t, end(caller, first.text("refresh_token")).is(http.StatusNoContent).raw)
		end(caller, second.text("access_token")).is(http.StatusNoContent)
		for _, ended := range []string{first.text("access_token"), sibling, second.text("access_token")} {
			w.a.ask(ended).fails(http.StatusUnauthorized, wire.Unauthorized)
		}
		w.clock.Advance(31 * time.Second)
		for _, ended := range []string{first.text("access_token"), sibling, second.text("access_token")} {
			w.b.ask(ended).fails(http.StatusUnauthorized, wire.Unauthorized)
		}
		w.b.as("").do(http.MethodPost, "/auth/refresh", example{"refresh_token": first.text("refresh_token")}).fails(http.StatusUnauthorized, wire.Unauthorized)
		w.b.as("").do(http.MethodPost, "/auth/refresh", example{"refresh_token": second.text("refresh_token")}).is(http.StatusOK)

		end(caller, "unknown").is(http.StatusNoContent)
		end(caller, first.text("refresh_token")).is(http.StatusNoContent)
		other := w.a.as("").do(http.MethodPost, "/auth/token", whole).is(http.StatusOK)
		end(other.text("access_token"), caller).fails(http.StatusUnauthorized, wire.Unauthorized)
		end(second.text("refresh_token"), caller).fails(http.StatusUnauthorized, wire.Unauthorized)
		end(second.text("access_token"), caller).fails(http.StatusUnauthorized, wire.Unauthorized)
		w.a.ask(caller).is(http.StatusOK)
	})
}

// While nobody can tell whether a token was revoked, it lets nobody in.
func TestTokensFailClosed(t *testing.T) {
	w := newWorld(t)
	fresh := w.node(w.keeper())
	codec, err := tokens.New(tokens.Options{Keys: w.keys, Issuer: "dynalimit", Audience: "budget", Now: w.clock.Now})
	require.NoError(t, err)
	claims := Claims{ClientID: credentials.ClientID(orgO, appA), Org: orgO, App: appA, Kind: Access, ID: "9", Session: "9", Version: 1, Issued: w.clock.Now(), Expires: w.clock.Now().Add(time.Hour)}
	text, err := codec.Sign(claims)
	require.NoError(t, err)
	w.engine.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
		return ddbmem.Fault{Error: &ddbmem.Error{Code: "InternalServerError", Message: "secret-of-the-inside"}}
	})
	fresh.ask(text.Reveal()).fails(http.StatusServiceUnavailable, wire.ServiceUnavailable)
	w.engine.SetFaults(nil)
	w.clock.Advance(time.Minute)
}

// With an authenticator of one's own there are no tokens of the server's.
func TestOwnAuthenticatorIssuesNoTokens(t *testing.T) {
	w := newWorld(t)
	n := w.with(func(o *Options) {
		o.Limiter, o.Authenticate = nil, func(*http.Request) (Claims, error) { return Claims{Org: orgO, Kind: Access}, nil }
	})
	n.as("").get(pathA + "/model-selection").is(http.StatusOK)
	n.do(http.MethodPost, "/auth/token", exampleLogin).fails(http.StatusNotFound, wire.NotFound)
}
