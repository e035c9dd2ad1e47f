package budgethttp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/tokens"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// bearers are who may ask.
var bearers = map[string]tokens.Claims{
	"org":     {Org: orgO, Kind: tokens.Access},
	"a":       {Org: orgO, App: appA, Kind: tokens.Access},
	"b":       {Org: orgO, App: appB, Kind: tokens.Access},
	"other":   {Org: orgOther, Kind: tokens.Access},
	"refresh": {Org: orgO, App: appA, Kind: tokens.Refresh},
	"gone":    {Org: orgNone, Kind: tokens.Access},
}

// bearer is a token, as of a login a moment ago; one that nobody knows is sent as it is.
func (w *world) bearer(name string) string {
	w.t.Helper()
	claims, ok := bearers[name]
	if !ok {
		return name
	}
	codec, err := tokens.New(tokens.Options{Keys: w.keys, Issuer: "dynalimit", Audience: "budget", Now: w.clock.Now})
	require.NoError(w.t, err)
	claims.ClientID, claims.ID, claims.Session, claims.Version = credentials.ClientID(claims.Org, claims.App), name, "session of "+name, 1
	claims.Issued, claims.Expires = w.clock.Now().Truncate(time.Second), w.clock.Now().Add(time.Hour)
	text, err := codec.Sign(claims)
	require.NoError(w.t, err)
	return text.Reveal()
}

// errSecret is what no client may read.
var errSecret = fmt.Errorf("dial tcp 10.1.2.3: secret-of-the-inside")

// as is the node with somebody else asking; an empty name is nobody.
func (n *node) as(token string) *node {
	out := *n
	out.token = token
	return &out
}

// reply is an answer, read whole.
type reply struct {
	t      testing.TB
	status int
	header http.Header
	raw    []byte
	body   map[string]any // nil when it is no object
}

// send makes a request; headers are pairs.
func (n *node) send(method, path string, body []byte, headers ...string) *reply {
	n.t.Helper()
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	r, err := http.NewRequestWithContext(n.t.Context(), method, n.url+path, reader)
	require.NoError(n.t, err)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	switch n.token {
	case "":
	case "key":
		r.Header.Set("X-Api-Key", n.world.key)
	default:
		r.Header.Set("Authorization", "Bearer "+n.world.bearer(n.token))
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := n.client.Do(r)
	require.NoError(n.t, err)
	defer res.Body.Close()
	out := &reply{t: n.t, status: res.StatusCode, header: res.Header}
	out.raw, err = io.ReadAll(res.Body)
	require.NoError(n.t, err)
	_ = json.Unmarshal(out.raw, &out.body) // a body may be no object
	return out
}

// do sends a body as JSON.
func (n *node) do(method, path string, body any) *reply {
	n.t.Helper()
	var raw []byte
	if body != nil {
		var err error
		raw, err = json.Marshal(body)
		require.NoError(n.t, err)
	}
	return n.send(method, path, raw)
}

func (n *node) get(path string) *reply {
	n.t.Helper()
	return n.do(http.MethodGet, path, nil)
}

// submit sends usage of app A.
func (n *node) submit(u example) *reply {
	n.t.Helper()
	return n.do(http.MethodPost, pathA+"/usage", u)
}

// is checks the status and returns the answer.
func (r *reply) is(status int) *reply {
	r.t.Helper()
	require.Equal(r.t, status, r.status, "%s", r.raw)
	if status >= http.StatusBadRequest {
		r.shaped()
	}
	return r
}

// fails checks the status and the code of an error.
func (r *reply) fails(status int, code wire.Code) *reply {
	r.t.Helper()
	r.is(status)
	require.Equal(r.t, string(code), r.body["error"], "%s", r.raw)
	return r
}

// shaped checks that an error has its shape, and tells nothing of the inside.
func (r *reply) shaped() {
	r.t.Helper()
	assert.Equal(r.t, "application/json", r.header.Get("Content-Type"))
	keys := make([]string, 0, len(r.body))
	for k := range r.body {
		keys = append(keys, k)
	}
	assert.ElementsMatch(r.t, []string{"error", "message", "details", "timestamp", "request_id"}, keys, "%s", r.raw)
	assert.IsType(r.t, map[string]any{}, r.body["details"])
	assert.Equal(r.t, r.header.Get("X-Request-Id"), r.body["request_id"])
	assert.NotContains(r.t, string(r.raw), "secret-of-the-inside")
	assert.Equal(r.t, "no-store", r.header.Get("Cache-Control"))
	assert.Equal(r.t, "nosniff", r.header.Get("X-Content-Type-Options"))
}

// at is a value of the body by its path, such as labels.0.label.
func (r *reply) at(path string) any {
	r.t.Helper()
	var v any = r.body
	for part := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[part]
		case []any:
			var i int
			_, err := fmt.Sscan(part, &i)
			require.NoError(r.t, err)
			require.Less(r.t, i, len(in), "%s of %s", path, r.raw)
			v = in[i]
		default:
			return nil
		}
	}
	return v
}

// number is a whole number of the body.
func (r *reply) number(path string) int64 {
	r.t.Helper()
	f, ok := r.at(path).(float64)
	require.True(r.t, ok, "%s of %s", path, r.raw)
	return int64(f)
}

// text is a text of the body.
func (r *reply) text(path string) string {
	r.t.Helper()
	s, ok := r.at(path).(string)
	require.True(r.t, ok, "%s of %s", path, r.raw)
	return s
}

// entryOf is the entry of a label in a list of the body.
func (r *reply) entryOf(list, label string) *reply {
	r.t.Helper()
	entries, _ := r.at(list).([]any)
	for _, e := range entries {
		if entry, _ := e.(map[string]any); entry["label"] == label {
			out := *r
			out.body = entry
			return &out
		}
	}
	r.t.Fatalf("no label %s in %s", label, r.raw)
	return nil
}

// sums are cost, input, output and requests of what total found.
func (r *reply) sums() []int64 {
	r.t.Helper()
	return []int64{r.number("cost_usd_micros"), r.number("tokens.input"), r.number("tokens.output"), r.number("requests")}
}

// total is what node b sums for app A's label today, or on a day.
func (w *world) total(label, day string) *reply {
	w.t.Helper()
	return w.b.get(pathA+"/aggregates/"+cmp.Or(day, "today")).is(http.StatusOK).entryOf("labels", label)
}

func wireJSON(v any) ([]byte, error) { return json.Marshal(v) }
