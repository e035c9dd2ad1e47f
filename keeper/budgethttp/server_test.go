package budgethttp

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/tokens"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// What belongs to others is refused alike, whether it exists or not, before anything is
// read or looked at.
func TestTokensOpenWhatIsTheirs(t *testing.T) {
	w := newWorld(t)
	w.a.submit(call(1)).is(http.StatusAccepted)
	app := func(org, app string) string { return "/api/v1/orgs/" + org + "/apps/" + app + "/aggregates/today" }
	org := func(org string) string { return "/api/v1/orgs/" + org + "/aggregates/today" }
	for _, test := range []struct {
		token, path string
		status      int
	}{
		{"", app(orgO, appA), 401},
		{"unknown", app(orgO, appA), 401},
		{"refresh", app(orgO, appA), 401},
		{"key", app(orgO, appA), 401},
		{"a", app(orgO, appA), 200},
		{"org", app(orgO, appA), 200},
		{"org", app(orgO, appB), 200},
		{"org", org(orgO), 200},
		{"a", org(orgO), 403},
		{"a", app(orgO, appB), 403},
		{"a", app(orgO, "none"), 403},
		{"a", app(orgOther, appA), 403},
		{"a", app(orgNone, appA), 403},
		{"a", app("not-a-uuid", appA), 403},
		{"org", org(orgOther), 403},
		{"org", org(orgNone), 403},
		{"other", app(orgO, appA), 403},
		{"gone", org(orgNone), 404},
		{"gone", app(orgNone, appA), 404},
	} {
		r := w.a.as(test.token).get(test.path).is(test.status)
		assert.Equal(t, test.status == 401, r.header.Get("WWW-Authenticate") != "", "%s", test.path)
	}
	w.a.as("other").get(org(orgOther)).is(http.StatusOK) // that it was not revoked is known
	meter := w.db.Meter()
	w.a.as("other").do(http.MethodPost, pathA+"/usage", example{"nonsense": true}).is(http.StatusForbidden)
	w.a.as("").do(http.MethodPost, pathA+"/usage", call(2)).is(http.StatusUnauthorized)
	assert.Equal(t, meter, w.db.Meter(), "nothing was asked of the store")
}

// An authenticator that fails for another reason lets nobody in.
func TestAuthenticatorThatFailsLetsNobodyIn(t *testing.T) {
	w := newWorld(t)
	w.with(func(o *Options) {
		o.Authenticate = func(*http.Request) (Claims, error) { return Claims{Org: orgO, Kind: Access}, errSecret }
	}).get(pathA+"/model-selection").fails(http.StatusInternalServerError, wire.InternalError)
	assert.Contains(t, w.finalLog(), "secret-of-the-inside", "the operator is told")
}

// What a program's own authenticator says of a carrier lets it in by an access token of an
// organisation alone.
func TestAuthenticatorLetsInByAccessTokensAlone(t *testing.T) {
	w := newWorld(t)
	for claims, status := range map[Claims]int{
		{Org: orgO, Kind: Access}: 200, {Org: orgO, Kind: string(tokens.Refresh)}: 401, {Org: orgO}: 401, {Kind: Access}: 401, {}: 401,
	} {
		w.with(func(o *Options) {
			o.Authenticate = func(*http.Request) (Claims, error) { return claims, nil }
		}).get(pathA + "/model-selection").is(status)
	}
}

// Every error has one shape: those of the routes, of HTTP, and of what is not there.
func TestEveryErrorHasOneShape(t *testing.T) {
	w := newWorld(t)
	raw, err := wireJSON(call(1))
	require.NoError(t, err)
	for _, test := range []struct {
		method, path string
		body         []byte
		headers      []string
		status       int
		code         wire.Code
	}{
		{http.MethodGet, "/nowhere", nil, nil, 404, wire.NotFound},
		{http.MethodPost, "/", nil, nil, 405, wire.InvalidRequest},
		{http.MethodGet, "/api/v1", nil, nil, 404, wire.NotFound},
		{http.MethodGet, "/api/v1/", nil, nil, 404, wire.NotFound},
		{http.MethodGet, pathA + "/usage/", nil, nil, 404, wire.NotFound},
		{http.MethodGet, "/api/v1//orgs", nil, nil, 404, wire.NotFound},
		{http.MethodGet, pathA + "/../" + appB + "/model-selection", nil, nil, 404, wire.NotFound},
		{http.MethodGet, pathO + "/apps/%2e%2e/model-selection", nil, nil, 400, wire.InvalidRequest},
		{http.MethodGet, pathO + "/apps/a%2F..%2Fb/model-selection", nil, nil, 400, wire.InvalidRequest},
		{http.MethodGet, pathO + "/apps/a%23b/model-selection", nil, nil, 400, wire.InvalidRequest},
		{http.MethodGet, pathO + "/apps/a%00b/model-selection", nil, nil, 400, wire.InvalidRequest},
		{http.MethodGet, pathO + "/apps/" + strings.Repeat("a", 129) + "/model-selection", nil, nil, 400, wire.InvalidRequest},
		{http.MethodGet, pathO + "/aggregates/2099-02-30", nil, nil, 400, wire.InvalidRequest},
		{http.MethodGet, pathO + "/aggregates/tomorrow", nil, nil, 400, wire.InvalidRequest},
		{http.MethodGet, pathA + "/model-selection?force_check=maybe", nil, nil, 400, wire.InvalidRequest},
		{http.MethodGet, pathA + "/model-selection?forcecheck=true", nil, nil, 400, wire.InvalidRequest},
		{http.MethodGet, pathA + "/usage", nil, nil, 405, wire.InvalidRequest},
		{http.MethodPut, pathA + "/usage", raw, nil, 405, wire.InvalidRequest},
		{http.MethodPost, pathA + "/model-selection", raw, nil, 405, wire.InvalidRequest},
		{http.MethodOptions, pathA + "/usage", nil, nil, 405, wire.InvalidRequest},
		{http.MethodDelete, "/health", nil, nil, 405, wire.InvalidRequest},
		{http.MethodPost, pathA + "/usage", nil, nil, 400, wire.InvalidRequest},
		{http.MethodPost, pathA + "/usage", raw, []string{"Content-Type", "text/plain"}, 415, wire.InvalidRequest},
		{http.MethodPost, pathA + "/usage", raw, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, wire.InvalidRequest},
		{http.MethodPost, pathA + "/usage", raw, []string{"Content-Type", "application/json; charset=utf-16"}, 415, wire.InvalidRequest},
		{http.MethodPost, pathA + "/usage", raw, []string{"Content-Type", "a+json;"}, 415, wire.InvalidRequest},
		{http.MethodPost, pathA + "/usage", raw, []string{"Content-Type", ";+"}, 415, wire.InvalidRequest},
	} {
		r := w.a.send(test.method, test.path, test.body, append([]string{"Accept", "text/html, application/problem+json"}, test.headers...)...)
		r.fails(test.status, test.code)
		assert.Equal(t, test.status == 405, r.header.Get("Allow") != "", "%s %s", test.method, test.path)
	}
	w.a.send(http.MethodPost, pathA+"/usage", raw, "Content-Type", "application/json; charset=UTF-8", "Accept", "text/html").is(http.StatusAccepted)
}

// A panic is an answer and a line in the log, not the end of the connection.
func TestPanicIsAnswered(t *testing.T) {
	w := newWorld(t)
	n := w.with(func(o *Options) {
		o.Authenticate = func(*http.Request) (Claims, error) { panic(errSecret) }
	})
	n.get(pathA+"/model-selection").fails(http.StatusInternalServerError, wire.InternalError)
	assert.Contains(t, w.log.String(), "secret-of-the-inside")
	n.get("/health").is(http.StatusOK)
}

// Whoever asks is told of every answer.
func TestServedRequestsAreTold(t *testing.T) {
	w := newWorld(t)
	var told []Served
	n := w.with(func(o *Options) {
		o.OnServed = func(_ context.Context, e Served) { told = append(told, e) }
	})
	r := n.get(pathA + "/model-selection").is(http.StatusOK)
	n.get("/nowhere").is(http.StatusNotFound)
	require.Len(t, told, 2)
	assert.Equal(t, Served{Route: "selectModel", Method: "GET", Status: 200, Bytes: int64(len(r.raw)), RequestID: r.header.Get("X-Request-Id"), Client: "org-" + orgO}, told[0])
	assert.Equal(t, 404, told[1].Status)
}

// The handler mounts at a prefix, by its option or by http.StripPrefix.
func TestHandlerMountsAnywhere(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	o.Prefix = "/money/keeper"
	s, err := New(w.a.keeper, w.a.store, o)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/money/keeper/", s)
	plain, err := New(w.a.keeper, w.a.store, w.options())
	require.NoError(t, err)
	mux.Handle("/plain/", http.StripPrefix("/plain", plain))
	n := w.serve(s, mux)
	for _, prefix := range []string{"/money/keeper", "/plain"} {
		n.get(prefix + pathA + "/model-selection").is(http.StatusOK)
		n.get(prefix + pathO + "/apps/a%2Fb/model-selection").is(http.StatusBadRequest)
		n.get(prefix + "/health").is(http.StatusOK)
		n.get(prefix + "/api/v1/health").is(http.StatusOK)
		n.get(prefix + "/nowhere").is(http.StatusNotFound)
	}
	assert.Equal(t, "/money/keeper", n.get("/money/keeper/openapi.json").is(http.StatusOK).at("servers.0.url"))
	w.serve(s, s).get(pathA + "/model-selection").is(http.StatusNotFound)
	w.serve(s, s).get("/money/keeperx/health").is(http.StatusNotFound)
}

// TestRouteIsSeenOutside: a logger around the server reads the route of a request.
func TestRouteIsSeenOutside(t *testing.T) {
	w := newWorld(t)
	for _, prefix := range []string{"", "/money/keeper"} {
		o := w.options()
		o.Prefix = prefix
		s, err := New(w.a.keeper, w.a.store, o)
		require.NoError(t, err)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, prefix+pathA+"/model-selection", nil)
		s.ServeHTTP(httptest.NewRecorder(), r)
		assert.Equal(t, "GET /api/v1/orgs/{org_id}/apps/{app_id}/model-selection", r.Pattern)
		assert.Equal(t, appA, r.PathValue("app_id"))
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	w := newWorld(t)
	_, err := New(w.a.keeper, &credentials.Store{}, w.options())
	require.ErrorContains(t, err, "invalid store: is nil or was not made")
	for field, make := range map[string]func() (*Server, error){
		"keeper":  func() (*Server, error) { return New(nil, w.a.store, w.options()) },
		"store":   func() (*Server, error) { return New(w.a.keeper, nil, w.options()) },
		"Limiter": func() (*Server, error) { return New(w.a.keeper, w.a.store, nil) },
		"options": func() (*Server, error) {
			o := w.options()
			o.RefreshTTL = 60 * 24 * time.Hour
			return New(w.a.keeper, w.a.store, o)
		},
		"Prefix": func() (*Server, error) {
			o := w.options()
			o.Prefix = "keeper/"
			return New(w.a.keeper, w.a.store, o)
		},
	} {
		_, err := make()
		var bad *fault.ValidationError
		require.ErrorAs(t, err, &bad)
		assert.Equal(t, field, bad.Field)
	}
}

// TestLogHasNoTextOfClients: a client may send any token for a method; the log has those
// that HTTP has, and is not filled with others.
func TestLogHasNoTextOfClients(t *testing.T) {
	w := newWorld(t)
	method := strings.Repeat("HUNTER2", 1000)
	r, err := http.NewRequestWithContext(t.Context(), method, w.a.url+"/health", nil)
	require.NoError(t, err)
	answer, err := w.a.client.Do(r)
	require.NoError(t, err)
	answer.Body.Close()
	log := w.finalLog()
	assert.NotContains(t, log, "HUNTER2")
	assert.Contains(t, log, "method=other")
}
