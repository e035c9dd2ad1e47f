package budgethttp

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
	"github.com/dynalimit/dynalimit/keeper/credentials"
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

// Ten logins of a client may fail in a minute at an address; the next there is not looked at,
// and the same client logs in elsewhere.
func TestFailedLoginsAreLimited(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		good := w.login(pathA)
		wrong := example{"client_id": good["client_id"], "client_secret": "x"}
		for range 10 {
			w.a.as("").do(http.MethodPost, "/auth/token", wrong).fails(http.StatusUnauthorized, wire.Unauthorized)
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
