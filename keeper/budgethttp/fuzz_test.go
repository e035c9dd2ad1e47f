package budgethttp

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// fuzzBody sends bodies to one route: whatever they are, the answer is one, and errors have
// their shape.
func fuzzBody(f *testing.F, method, path, token string, seeds ...any) {
	f.Helper()
	w := newWorld(f)
	bearer := w.bearer(token)
	for _, seed := range seeds {
		raw, err := wireJSON(seed)
		require.NoError(f, err)
		f.Add(raw)
	}
	for _, body := range hostile(f) {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequestWithContext(t.Context(), method, path, bytes.NewReader(body))
		if token == "key" {
			r.Header.Set("X-Api-Key", w.key)
		} else {
			r.Header.Set("Authorization", "Bearer "+bearer)
		}
		rec := httptest.NewRecorder()
		w.a.server.ServeHTTP(rec, r)
		if rec.Code == http.StatusNoContent {
			return
		}
		out := &reply{t: t, status: rec.Code, header: rec.Header(), raw: rec.Body.Bytes()}
		require.NoError(t, json.Unmarshal(out.raw, &out.body), "%s", out.raw)
		require.Less(t, out.status, http.StatusInternalServerError, "%s", out.raw)
		if out.status >= http.StatusBadRequest {
			out.shaped()
		}
	})
}

func FuzzUsage(f *testing.F) {
	fuzzBody(f, http.MethodPost, pathA+"/usage", "a", call(1), exampleUsage)
}

func FuzzUsageBatch(f *testing.F) {
	fuzzBody(f, http.MethodPost, pathA+"/usage/batch", "a", exampleBatch, example{"records": []any{call(1), 1, "x", nil}})
}

func FuzzOrg(f *testing.F) { fuzzBody(f, http.MethodPut, pathO, "key", exampleOrg) }

func FuzzApp(f *testing.F) { fuzzBody(f, http.MethodPut, pathA, "key", exampleApp) }

func FuzzRotate(f *testing.F) {
	fuzzBody(f, http.MethodPost, pathA+"/credentials/rotate", "key", exampleRotate)
}

func FuzzRetrieve(f *testing.F) {
	fuzzBody(f, http.MethodPost, pathA+"/credentials/secret", "key", exampleRetrieve)
}

func FuzzAdjustment(f *testing.F) {
	fuzzBody(f, http.MethodPost, pathA+"/adjustments", "key", exampleAdjustment)
}

func FuzzOverride(f *testing.F) {
	fuzzBody(f, http.MethodPut, pathA+"/override", "key", exampleOverride)
}

func FuzzLogin(f *testing.F) { fuzzBody(f, http.MethodPost, "/auth/token", "a", exampleLogin) }

func FuzzRefresh(f *testing.F) { fuzzBody(f, http.MethodPost, "/auth/refresh", "a", exampleRefresh) }

func FuzzRevoke(f *testing.F) { fuzzBody(f, http.MethodPost, "/auth/revoke", "a", exampleRevoke) }
