package budgethttp

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
	"github.com/dynalimit/dynalimit/keeper/credentials"
	"github.com/dynalimit/dynalimit/prices"
)

// secretOf is the secret that a retrieval token fetches.
func (n *node) secretOf(path, token string) string {
	n.t.Helper()
	r := n.as("key").do(http.MethodPost, path+"/credentials/secret", example{"token": token}).is(http.StatusOK)
	assert.Equal(n.t, "no-store", r.header.Get("Cache-Control"))
	return r.text("client_secret")
}

// good reports whether a secret is a client's, by both nodes.
func (w *world) good(client, secret string) bool {
	w.t.Helper()
	_, err := w.a.store.Verify(w.t.Context(), client, credentials.NewSecret(secret))
	_, other := w.b.store.Verify(w.t.Context(), client, credentials.NewSecret(secret))
	assert.Equal(w.t, err == nil, other == nil)
	return err == nil
}

func TestBadConfigurationIsRefused(t *testing.T) {
	w := newWorld(t)
	admin := w.a.as("key")
	for name, values := range map[string]example{
		"a label without a quota": {"quotas": example{"premium": 1}},
		"a negative quota":        {"quotas": example{"premium": -1, "standard": 1, "economy": 1}},
		"a quota too high":        {"quotas": example{"premium": 1_000_000_000_001, "standard": 1, "economy": 1}},
		"a label twice":           {"model_ordering": []any{"premium", "premium"}},
		"no label":                {"model_ordering": []any{}},
		"a list as a label":       {"model_ordering": []any{[]any{"premium"}}},
		"a label with a hash":     {"model_ordering": []any{"a#b"}, "quotas": example{"a#b": 1}},
		"an unknown zone":         {"timezone": "Mars/Olympus"},
		"no zone":                 {"timezone": nil},
		"an unknown scope":        {"quota_scope": "TEAM"},
		"a low threshold":         {"tight_mode_threshold_pct": 49},
		"a high threshold":        {"tight_mode_threshold_pct": 101},
		"no shards":               {"agg_shard_count": -1},
		"too many shards":         {"agg_shard_count": 257},
		"an unknown period":       {"limits": []any{example{"period": "year", "quota_usd_micros": 1}}},
	} {
		r := admin.do(http.MethodPut, pathO, exampleOrg.but(values))
		require.Equal(t, http.StatusBadRequest, r.status, "%s: %s", name, r.raw)
		assert.Equal(t, string(wire.InvalidConfig), r.at("error"), name)
	}
	for _, attribute := range []string{"client_id", "client_secret_hash", "provisioning_api_key_hash", "PK", "version", "created_at_epoch"} {
		for _, path := range []string{pathO, pathA} {
			body := exampleOrg
			if path == pathA {
				body = exampleApp
			}
			r := admin.do(http.MethodPut, path, body.but(example{attribute: "x"})).is(http.StatusBadRequest)
			assert.Contains(t, r.text("message"), attribute)
		}
	}
	admin.do(http.MethodPut, "/api/v1/orgs/"+orgNone+"/apps/"+appA, exampleApp).fails(http.StatusNotFound, wire.NotFound)
	admin.do(http.MethodPut, pathA, exampleApp.but(example{"model_ordering": []any{"gold"}})).fails(http.StatusBadRequest, wire.InvalidConfig)
	w.a.do(http.MethodPut, pathO, exampleOrg).fails(http.StatusUnauthorized, wire.Unauthorized)
	w.a.as("").do(http.MethodPut, pathO, exampleOrg).fails(http.StatusUnauthorized, wire.Unauthorized)
	w.a.as("").send(http.MethodPut, pathO, nil, "X-Api-Key", strings.Repeat("k", 129)).fails(http.StatusUnauthorized, wire.Unauthorized)
	w.a.as("").send(http.MethodPut, pathO, nil, "X-Api-Key", "wrong").fails(http.StatusUnauthorized, wire.Unauthorized)
}

// A secret is fetched once; what fails consumes nothing.
func TestSecretIsFetchedOnce(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		admin := w.a.as("key")
		org := admin.do(http.MethodPut, pathO, exampleOrg).is(http.StatusCreated)
		app := admin.do(http.MethodPut, pathA, exampleApp).is(http.StatusCreated)
		token := app.text("retrieval_token")
		query := "/credentials/secret?token=" + token
		for _, path := range []string{pathO, pathB, "/api/v1/orgs/" + orgOther + "/apps/" + appA} {
			admin.do(http.MethodPost, path+"/credentials/secret", example{"token": token}).fails(http.StatusUnauthorized, wire.Unauthorized)
			admin.get(path+query).fails(http.StatusUnauthorized, wire.Unauthorized)
		}
		admin.do(http.MethodPost, pathA+"/credentials/secret", example{"token": org.text("retrieval_token")}).fails(http.StatusUnauthorized, wire.Unauthorized)
		admin.do(http.MethodPost, pathA+"/credentials/secret", example{"token": strings.Repeat("x", 129)}).fails(http.StatusBadRequest, wire.InvalidRequest)
		w.a.as("").send(http.MethodGet, pathA+query, nil, "X-Api-Key", "wrong").fails(http.StatusUnauthorized, wire.Unauthorized)
		w.a.as("").send(http.MethodGet, pathA+query, nil, "X-Api-Key", "").fails(http.StatusUnauthorized, wire.Unauthorized)
		head := admin.send(http.MethodHead, pathA+query, nil)
		assert.Equal(t, http.StatusMethodNotAllowed, head.status, "HEAD consumes no secret")

		got := admin.get(pathA + query).is(http.StatusOK)
		assert.Equal(t, "no-store", got.header.Get("Cache-Control"))
		assert.True(t, w.good(got.text("client_id"), got.text("client_secret")))
		admin.get(pathA+query).fails(http.StatusNotFound, wire.NotFound)
		w.clock.Advance(11 * time.Minute)
		w.b.as("key").get(pathA+query).fails(http.StatusNotFound, wire.NotFound)
		admin.do(http.MethodPost, pathO+"/credentials/secret", example{"token": org.text("retrieval_token")}).fails(http.StatusUnauthorized, wire.Unauthorized)
		log := w.finalLog()
		assert.NotContains(t, log, token)
		assert.NotContains(t, log, got.text("client_secret"))
		assert.NotContains(t, log, w.key)
	})
}

// Who has the token needs no key to fetch the secret. What is no token, or was used, counts as
// a failed login of the address, and a good one does not.
func TestSecretIsFetchedByTheTokenAlone(t *testing.T) {
	w := newWorld(t)
	admin, stranger := w.a.as("key"), w.a.as("")
	org := admin.do(http.MethodPut, pathO, exampleOrg).is(http.StatusCreated).text("retrieval_token")
	app := admin.do(http.MethodPut, pathA, exampleApp).is(http.StatusCreated).text("retrieval_token")
	got := stranger.do(http.MethodPost, pathA+"/credentials/secret", example{"token": app}).is(http.StatusOK)
	assert.True(t, w.good(got.text("client_id"), got.text("client_secret")))
	for i := range 100 {
		n := []*node{w.a, w.b}[i%2].as("")
		if i%3 == 0 {
			n.do(http.MethodPost, pathA+"/credentials/secret", example{"token": app}).fails(http.StatusNotFound, wire.NotFound)
		} else {
			n.get(pathO+"/credentials/secret?token=dlr_guess").fails(http.StatusUnauthorized, wire.Unauthorized)
		}
	}
	w.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		assert.NotEqual(t, w.tables.Control, r.Table, "no token is looked at")
		return ddbmem.Fault{}
	})
	for _, n := range []*node{w.a, w.b} {
		r := n.as("").do(http.MethodPost, pathO+"/credentials/secret", example{"token": org}).fails(http.StatusTooManyRequests, wire.RateLimitExceeded)
		assert.NotEmpty(t, r.header.Get("Retry-After"))
	}
	w.db.SetFaults(nil)
	admin.do(http.MethodPost, pathO+"/credentials/secret", example{"token": org}).is(http.StatusOK)
}

// With an authenticator of one's own nothing counts failures: then a key is needed.
func TestSecretNeedsAKeyWhereNothingCountsFailures(t *testing.T) {
	w := newWorld(t)
	n := w.with(func(o *Options) {
		o.Limiter, o.Authenticate = nil, func(*http.Request) (Claims, error) { return Claims{}, ErrUnauthorized }
	})
	token := n.as("key").do(http.MethodPut, pathA, exampleApp).is(http.StatusCreated).text("retrieval_token")
	n.as("").do(http.MethodPost, pathA+"/credentials/secret", example{"token": token}).fails(http.StatusUnauthorized, wire.Unauthorized)
	n.as("key").do(http.MethodPost, pathA+"/credentials/secret", example{"token": token}).is(http.StatusOK)
}

// A key of one organisation is good for all that is its own, and refused alike for all else,
// whether it exists or not, before anything is read or written.
func TestKeyOfOneOrganisation(t *testing.T) {
	w := newWorld(t)
	d := describe(t, w.a)
	key, err := w.store().CreateOrgKey(t.Context(), orgO, "theirs")
	require.NoError(t, err)
	send := func(method, path string, body []byte) *reply {
		return w.a.as("").send(method, path, body, "X-Api-Key", key.Secret.Reveal())
	}
	send(http.MethodGet, pathO, nil).is(http.StatusOK)
	routes := 0
	d.each(func(path, method string, op *describedOperation) {
		if len(op.Security) == 0 || op.Security[len(op.Security)-1]["key"] == nil {
			return
		}
		routes++
		var body []byte
		if op.RequestBody != nil {
			body, err = wireJSON(op.RequestBody.Content["application/json"].Example)
			require.NoError(t, err)
		}
		for _, org := range []string{orgOther, orgNone} {
			at := strings.ReplaceAll(path, "{org_id}", org)
			before := w.db.Meter()
			r := send(method, filled(at)+query(op, "x"), body).fails(http.StatusForbidden, wire.Forbidden)
			assert.Equal(t, "the key is of another organisation", r.at("message"))
			assert.Zero(t, w.db.Meter().Sub(before).Requests(), op.OperationID)
		}
	})
	assert.Greater(t, routes, 12)

	put := send(http.MethodPut, pathA, []byte(`{}`)).is(http.StatusCreated)
	send(http.MethodPost, pathA+"/credentials/secret", []byte(`{"token":"`+put.text("retrieval_token")+`"}`)).is(http.StatusOK)
	send(http.MethodDelete, pathO, nil).is(http.StatusNoContent)
	send(http.MethodGet, pathO, nil).fails(http.StatusNotFound, wire.NotFound)
	w.a.as("key").get("/api/v1/orgs/" + orgOther).is(http.StatusOK)
	assert.Contains(t, w.finalLog(), "client=key:theirs")
}

// However it writes the path, and with whatever token of another's, a key of one organisation
// reads, changes and fetches nothing of another.
func TestKeyOfOneOrganisationReachesNoOther(t *testing.T) {
	w := newWorld(t)
	key, err := w.store().CreateOrgKey(t.Context(), orgO, "theirs")
	require.NoError(t, err)
	admin, n := w.a.as("key"), w.a.as("")
	const orgs, other = "/api/v1/orgs/", "/api/v1/orgs/" + orgOther
	send := func(method, path string, body []byte) *reply {
		return n.send(method, path, body, "X-Api-Key", key.Secret.Reveal())
	}
	issued := admin.do(http.MethodPut, other, exampleOrg).is(http.StatusCreated).text("retrieval_token")
	version := admin.get(other).is(http.StatusOK).number("version")
	put, err := wireJSON(exampleOrg)
	require.NoError(t, err)
	hex := func(id string) (out string) {
		for _, c := range []byte(id) {
			out += fmt.Sprintf("%%%02x", c)
		}
		return out
	}
	for _, path := range []string{
		other + "?org_id=" + orgO, orgs + hex(orgOther), orgs + strings.ToUpper(orgOther), orgs + strings.ToUpper(orgO), orgs + orgO + "/../" + orgOther,
		orgs + orgO + "/%2e%2e/" + orgOther, orgs + orgO + "%2f..%2f" + orgOther, orgs + orgO + "/" + orgOther, orgs + "/" + orgOther, other + "/",
		orgs + orgOther + ";" + orgO, orgs + orgO + "%00" + orgOther, orgs + orgO + "/apps/..%2f..%2f" + orgOther, orgs + orgO + "/apps/../../" + orgOther,
	} {
		for method, body := range map[string][]byte{http.MethodGet: nil, http.MethodPut: put, http.MethodDelete: nil} {
			r := send(method, path, body)
			assert.GreaterOrEqual(t, r.status, 400, "%s %s: %s", method, path, r.raw)
			assert.Less(t, r.status, 500, "%s %s: %s", method, path, r.raw)
		}
	}
	send(http.MethodPut, pathO, []byte(`{"org_id":"`+orgOther+`"}`)).is(http.StatusBadRequest)
	assert.Equal(t, version, admin.get(other).is(http.StatusOK).number("version"))

	token := []byte(`{"token":"` + issued + `"}`)
	for _, path := range []string{pathO, pathA} {
		send(http.MethodPost, path+"/credentials/secret", token).fails(http.StatusUnauthorized, wire.Unauthorized)
	}
	send(http.MethodPost, other+"/credentials/secret", token).fails(http.StatusForbidden, wire.Forbidden)
	admin.do(http.MethodPost, other+"/credentials/secret", example{"token": issued}).is(http.StatusOK)

	id := uuid(7)
	adjust := func(n func(string, string, []byte) *reply, path string, micros int) *reply {
		body, err := wireJSON(exampleAdjustment.but(example{"id": id, "delta_usd_micros": micros, "day": nil}))
		require.NoError(t, err)
		return n(http.MethodPost, path+"/adjustments", body)
	}
	assert.Equal(t, "accepted", adjust(send, pathA, 5).is(http.StatusOK).at("status"))
	all := func(method, path string, body []byte) *reply { return admin.send(method, path, body) }
	assert.Equal(t, "accepted", adjust(all, other+"/apps/"+appA, 7).is(http.StatusOK).at("status"), "an id is that of one organisation")
}

// An adjustment is applied once under its id, in the name of the key.
func TestAdjustmentIsAppliedOnce(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		adjust := func(n *node, values example) *reply {
			return n.as("key").do(http.MethodPost, pathA+"/adjustments", exampleAdjustment.but(example{"delta_usd_micros": 1_000_000, "day": "20990123"}).but(values))
		}
		first := adjust(w.a, nil).is(http.StatusOK)
		assert.Equal(t, []any{"accepted", "20990123"}, []any{first.at("status"), first.at("day")})
		again := adjust(w.b, nil).is(http.StatusOK)
		assert.Equal(t, "true", again.header.Get("Idempotent-Replay"))
		assert.Equal(t, "duplicate", again.at("status"))
		adjust(w.b, example{"delta_usd_micros": 2}).fails(http.StatusConflict, wire.IdempotencyConflict)
		assert.Equal(t, int64(1_000_000), w.total("premium", "").number("cost_usd_micros"))
		for _, bad := range []example{{"id": nil}, {"id": "1"}, {"delta_usd_micros": 0}, {"delta_usd_micros": 1.5}, {"delta_usd_micros": 1e18}, {"reason": ""}, {"reason": nil}, {"day": "2099-02-30"}, {"model_label": "gold"}} {
			values := example{"id": uuid(9)}
			maps.Copy(values, bad)
			r := adjust(w.a, values)
			assert.Equal(t, http.StatusBadRequest, r.status, "%v: %s", bad, r.raw)
			r.shaped()
		}
		var by []string
		for e, err := range w.a.keeper.Setup().Audit(t.Context(), orgO, time.Time{}, time.Time{}) {
			require.NoError(t, err)
			if e.Action == "adjusted" {
				by = append(by, e.Principal)
			}
		}
		assert.Equal(t, []string{"key:tests"}, by)
	})
}

func TestPricesAreListed(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		from := time.Date(2099, 9, 1, 0, 0, 0, 0, time.UTC)
		require.NoError(t, w.a.keeper.Prices().Put(t.Context(), microModel, prices.Price{Model: microModel, EffectiveFrom: from, Rates: prices.Rates{Input: 35, Output: 140, CacheRead: prices.FreeRate}}))
		require.NoError(t, w.a.keeper.Prices().PutInfo(t.Context(), microModel, budget.ModelInfo{Tier: "micro", Family: "nova"}))
		r := w.b.as("key").get("/api/v1/prices").is(http.StatusOK)
		require.Len(t, r.at("stored"), 1)
		assert.Equal(t, []any{strings.TrimSuffix(microModel, ":0"), "micro", "2099-09-01T00:00:00Z"}, []any{r.at("stored.0.model_id"), r.at("stored.0.tier"), r.at("stored.0.prices.0.effective_from")})
		assert.Equal(t, []int64{35, 140, -1}, []int64{
			r.number("stored.0.prices.0.input_usd_micros_per_1m"), r.number("stored.0.prices.0.output_usd_micros_per_1m"), r.number("stored.0.prices.0.cache_read_usd_micros_per_1m"),
		})
		assert.Len(t, r.at("catalog"), len(prices.Catalog()))
		assert.NotEmpty(t, r.text("catalog.0.source"))
		w.b.get("/api/v1/prices").fails(http.StatusUnauthorized, wire.Unauthorized)
	})
}
