package budgethttp

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
)

// hostile are bodies of usage that are to be refused, made of a good one.
func hostile(t testing.TB) map[string]string {
	t.Helper()
	raw, err := wireJSON(call(1))
	require.NoError(t, err)
	good := string(raw)
	swap := func(old, replacement string) string {
		require.Contains(t, good, old)
		return strings.Replace(good, old, replacement, 1)
	}
	out := map[string]string{
		"nothing":                  "",
		"a space":                  " ",
		"null":                     "null",
		"a list":                   "[" + good + "]",
		"a string":                 `"usage"`,
		"cut off":                  good[:len(good)-1],
		"data after it":            good + good,
		"a bracket after it":       good + "}",
		"a byte order mark":        "\xef\xbb\xbf" + good,
		"no UTF-8":                 swap(`"OK"`, "\"\xff\""),
		"UTF-16":                   "\x00{\x00}",
		"a name twice":             swap(`"status":"OK"`, `"status":"OK","status":"FAILED"`),
		"a name twice, escaped":    swap(`"status":"OK"`, `"status":"OK","st\u0061tus":"FAILED"`),
		"a name in another case":   swap(`"status"`, `"Status"`),
		"a name in two cases":      swap(`"status":"OK"`, `"status":"OK","STATUS":"FAILED"`),
		"an inner name twice":      swap(`"input":1500`, `"input":1500,"input":1`),
		"an inner name's case":     swap(`"input"`, `"Input"`),
		"an unknown field":         swap(`"status":"OK"`, `"status":"OK","cost_usd_micros":0`),
		"a credential's attribute": swap(`"status":"OK"`, `"status":"OK","client_secret_hash":"x"`),
		"an unknown class":         swap(`"input":1500`, `"input":1500,"thinking":1`),
		"deep nesting":             swap(`"OK"`, strings.Repeat("[", 5000)+strings.Repeat("]", 5000)),
		"very deep nesting":        strings.Repeat(`{"tokens":`, 5000) + "1" + strings.Repeat("}", 5000),
		"tokens that are null":     swap(`{"input":1500,"output":800}`, "null"),
		"tokens that are a list":   swap(`{"input":1500,"output":800}`, "[1,2]"),
		"tags that are a list":     swap(`"status":"OK"`, `"tags":["a"]`),
		"a tag with a hash":        swap(`"status":"OK"`, `"tags":{"a":"b#c"}`),
		"a tag's number":           swap(`"status":"OK"`, `"tags":{"a":1}`),
		"five tags":                swap(`"status":"OK"`, `"tags":{"a":"1","b":"1","c":"1","d":"1","e":"1"}`),
		"a long status":            swap(`"OK"`, `"`+strings.Repeat("x", 33)+`"`),
		"a status's control":       swap(`"OK"`, `"a\u0000b"`),
		"a long model":             swap(premiumModel, strings.Repeat("x", 257)),
	}
	for _, number := range []string{"1.5", `"12"`, "1e18", "9223372036854775808", "9223372036854775807", "-1", "NaN", "Infinity", "-0.5", "100000001", "true", "[]", "{}", "null", "1e400", "0x10", "01", "1e-1", "+1", "1e1000000000"} {
		out["tokens of "+number] = swap("1500", number)
	}
	for _, id := range []string{
		"", "a", orgO[:35], orgO + "0", strings.ToUpper(orgO), "{" + orgO + "}", "urn:uuid:" + orgO, strings.ReplaceAll(orgO, "-", ""),
		"550e8400-e29b-41d4-a716-44665544000g", orgO + "\\n", "../" + orgO, "550e8400#e29b-41d4-a716-446655440000", strings.Repeat("a", 129),
	} {
		out["the id "+id] = swap(uuid(1), id)
	}
	for _, label := range []string{"", "#", "a#b", "../a", "a b", "a/b", ".a", strings.Repeat("a", 65), "premium\\n", "prémium", "gold"} {
		out["the label "+label] = swap(`"premium"`, `"`+label+`"`)
	}
	return out
}

// Hostile bodies are refused in the shape of errors, and nothing is written.
func TestHostileBodiesAreRefused(t *testing.T) {
	w := newWorld(t)
	w.a.submit(call(2)).is(http.StatusAccepted) // the app is known
	for name, body := range hostile(t) {
		before := w.db.Meter()
		r := w.a.send(http.MethodPost, pathA+"/usage", []byte(body))
		require.Equal(t, http.StatusBadRequest, r.status, "%s: %s", name, r.raw)
		r.shaped()
		assert.Less(t, len(r.raw), 8000, "%s: what is sent back is bounded", name)
		assert.Zero(t, w.db.Meter().Sub(before).WriteUnits(), "%s: nothing is written", name)
	}
	assert.Equal(t, int64(1), w.total("premium", "").number("requests"))
}

// What is wrong within one record of a batch, so that it can still be told from the others,
// is no matter of those.
func TestHostileRecordsLeaveOthersAlone(t *testing.T) {
	w := newWorld(t)
	good := func(n int) string {
		raw, err := wireJSON(call(n))
		require.NoError(t, err)
		return string(raw)
	}
	for i, bad := range []string{
		"null", "1", `"usage"`, "[]", "[null]", "{}", `{"tokens":null}`, strings.Replace(good(1), `"input":1500`, `"input":null`, 1),
		strings.Replace(good(1), `"status":"OK"`, `"status":"OK","status":"FAILED"`, 1), strings.Replace(good(1), `"tokens"`, `"Tokens"`, 1),
	} {
		r := w.a.send(http.MethodPost, pathA+"/usage/batch", []byte(`{"records":[`+good(10+2*i)+`,`+bad+`,`+good(11+2*i)+`]}`)).is(http.StatusMultiStatus)
		assert.Equal(t, []int64{2, 1}, []int64{r.number("accepted"), r.number("failed")}, "%s: %s", bad, r.raw)
		assert.Equal(t, "failed", r.at("results.1.status"), bad)
		assert.Equal(t, "INVALID_REQUEST", r.at("results.1.error.error"), bad)
	}
	for _, body := range []string{`{"records":null}`, `{"records":[],"records":[` + good(1) + `]}`, `null`, `[null]`, `{"records":[` + good(1) + `,{]}`} {
		w.a.send(http.MethodPost, pathA+"/usage/batch", []byte(body)).fails(http.StatusBadRequest, wire.InvalidRequest)
	}
	assert.Equal(t, int64(20), w.total("premium", "").number("requests"))
}

// A whole number is what its schema says, however it is written.
func TestWholeNumbersAreTakenAsTheDocumentSays(t *testing.T) {
	w := newWorld(t)
	w.a.submit(call(1)).is(http.StatusAccepted)
	raw, err := wireJSON(call(1))
	require.NoError(t, err)
	other := strings.NewReplacer(`:1500`, `:1500.0`, `:800`, `:8E+2`).Replace(string(raw))
	require.NotEqual(t, string(raw), other)
	w.a.send(http.MethodPost, pathA+"/costs", []byte(other)).is(http.StatusAccepted)
	r := w.a.send(http.MethodPost, pathA+"/usage/batch", []byte(`{"records":[`+other+`]}`)).is(http.StatusMultiStatus)
	assert.Equal(t, int64(1), r.number("duplicate"), "%s", r.raw)
	assert.Equal(t, int64(1), w.total("premium", "").number("requests"))
	w.a.as("key").send(http.MethodPut, pathA, []byte(`{"tight_mode_threshold_pct":9e1}`)).is(http.StatusCreated)
}

// Hostile ids are refused before anything is read.
func TestHostilePathsAreRefused(t *testing.T) {
	w := newWorld(t)
	n := w.with(func(o *Options) {
		o.Authenticate = func(r *http.Request) (Claims, error) { // everything is theirs
			return Claims{Kind: Access, Org: r.PathValue("org_id"), App: r.PathValue("app_id")}, nil
		}
	})
	for _, id := range []string{
		"%23", "a%23b", "..%2F", "%2e%2e", ".", "..", "a%20b", "a%2Fb", "%00", "%0a", "%ff", strings.Repeat("a", 129), strings.Repeat("a", 65), "a%3Fb", "%25", "é", "ORG%23x", "$", "a;b",
	} {
		for _, path := range []string{"/api/v1/orgs/" + orgO + "/apps/" + id + "/usage", "/api/v1/orgs/" + id + "/apps/" + appA + "/usage"} {
			before := w.db.Meter()
			r := n.do(http.MethodPost, path, call(1))
			assert.Contains(t, []int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed}, r.status, "%s: %s", path, r.raw)
			r.shaped()
			assert.Equal(t, before, w.db.Meter(), "%s: nothing is asked of the store", path)
		}
	}
	n.do(http.MethodPost, strings.Replace(pathA, orgO, strings.ToUpper(orgO), 1)+"/usage", call(1)).fails(http.StatusBadRequest, wire.InvalidRequest)
}
