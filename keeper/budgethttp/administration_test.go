package budgethttp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
	"github.com/dynalimit/dynalimit/keeper/credentials"
	"github.com/dynalimit/dynalimit/keeper/internal/fixture"
)

// A PUT with If-Match, or with a version in its body, replaces that version or nothing. With
// If-None-Match it replaces nothing.
func TestAPutOfAVersion(t *testing.T) {
	w := newWorld(t)
	w.a.token = "key"
	for _, target := range []string{"/api/v1/orgs/" + orgO, "/api/v1/orgs/" + orgO + "/apps/versioned"} {
		body := map[string]any{"timezone": "America/New_York", "model_ordering": []string{"premium"}, "quotas": map[string]int{"premium": 5}}
		if strings.Contains(target, "/apps/") {
			body = map[string]any{}
			w.a.send(http.MethodPut, target, mustJSON(t, body), "If-None-Match", "*").is(http.StatusCreated)
		}
		first := w.a.do(http.MethodPut, target, body)
		require.Less(t, first.status, 300, "%s", first.raw)
		version, etag := first.number("version"), first.header.Get("ETag")
		assert.Equal(t, strconv.Quote(strconv.FormatInt(version, 10)), etag)
		assert.Equal(t, etag, w.a.get(target).is(http.StatusOK).header.Get("ETag"))

		raw := mustJSON(t, body)
		w.a.send(http.MethodPut, target, raw, "If-None-Match", "*").fails(http.StatusConflict, wire.ConcurrentModification)
		for _, other := range []string{etag, "**"} {
			w.a.send(http.MethodPut, target, raw, "If-None-Match", other).fails(http.StatusBadRequest, wire.InvalidConfig)
		}
		w.a.send(http.MethodPut, target, raw, "If-None-Match", "*", "If-Match", etag).fails(http.StatusBadRequest, wire.InvalidRequest)
		w.a.send(http.MethodPut, target, raw, "If-Match", etag).is(http.StatusOK)
		refused := w.a.send(http.MethodPut, target, raw, "If-Match", etag).fails(http.StatusConflict, wire.ConcurrentModification)
		assert.Contains(t, refused.text("message"), "get it again")
		body["version"] = version
		w.a.do(http.MethodPut, target, body).fails(http.StatusConflict, wire.ConcurrentModification)
		body["version"] = version + 1
		assert.Equal(t, version+2, w.a.do(http.MethodPut, target, body).is(http.StatusOK).number("version"))
		for _, bad := range []string{"*", "W/\"1\"", "x", `"0"`, etag} { // the body has another
			w.a.send(http.MethodPut, target, mustJSON(t, body), "If-Match", bad).fails(http.StatusBadRequest, wire.InvalidRequest)
		}
	}
}

// A PUT of what is being deleted says how to go on.
func TestAPutOfWhatIsBeingDeleted(t *testing.T) {
	w := newWorld(t)
	w.a.token = "key"
	stopped := errors.New("stopped")
	err := w.a.keeper.Setup().DeleteOrg(t.Context(), orgO, func(context.Context, string, string) error { return stopped })
	require.ErrorIs(t, err, stopped)
	body := map[string]any{"timezone": "America/New_York", "model_ordering": []string{"premium"}, "quotas": map[string]int{"premium": 5}}
	target := "/api/v1/orgs/" + orgO
	refused := w.a.do(http.MethodPut, target, body).fails(http.StatusConflict, wire.ConcurrentModification)
	assert.Contains(t, refused.text("message"), "complete that with DELETE")
	w.a.do(http.MethodDelete, target, nil).is(http.StatusNoContent)
	w.a.do(http.MethodPut, target, body).is(http.StatusCreated)
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return raw
}

// Credentials of what was deleted meanwhile end, also when their caller has hung up.
func TestCredentialsOfWhatIsGoneEndThoughTheCallerLeaves(t *testing.T) {
	w := newWorld(t)
	for app, leave := range map[string]struct{ before, created, seen bool }{
		"a": {before: true}, "b": {created: true}, "c": {seen: true}, "d": {},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if leave.before {
			cancel()
		}
		_, err := administration{w.a.keeper, w.a.store}.issueCredentials(ctx, &exchange{principal: fixture.Principal}, orgO, app, func(ctx context.Context) error {
			if leave.created {
				cancel()
			}
			_, err := w.b.keeper.Setup().GetApp(ctx, orgO, app) // deleted, or never there
			if leave.seen {
				cancel()
			}
			return err
		})
		require.ErrorIs(t, err, budget.ErrNotFound)
		cancel()
		_, err = w.b.store.Lookup(t.Context(), credentials.ClientID(orgO, app))
		require.ErrorIs(t, err, credentials.ErrNotFound, app)
	}
}
