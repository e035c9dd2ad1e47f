package budgethttp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/keeper/budget"
)

// maker makes values of schemas, and of what is near to them.
type maker struct {
	t       testing.TB
	rng     *rand.Rand
	schemas map[string]any
}

func (m *maker) pick(values ...any) any  { return values[m.rng.IntN(len(values))] }
func (m *maker) chance(percent int) bool { return m.rng.IntN(100) < percent }

// ofSchema is a value that a schema allows.
func (m *maker) ofSchema(s map[string]any) any {
	if ref, ok := s["$ref"].(string); ok {
		return m.ofSchema(m.schemas[ref[strings.LastIndex(ref, "/")+1:]].(map[string]any))
	}
	if values, ok := s["enum"].([]any); ok {
		return m.pick(values...)
	}
	switch s["type"] {
	case "object":
		return m.object(s)
	case "array":
		low, high := number(s, "minItems", 0), number(s, "maxItems", 4)
		out := []any{}
		for range low + int64(m.rng.IntN(int(min(high-low, 4)+1))) {
			out = append(out, m.ofSchema(s["items"].(map[string]any)))
		}
		return out
	case "integer":
		low, high := number(s, "minimum", -1000), number(s, "maximum", 1_000_000)
		return m.pick(low, high, low+m.rng.Int64N(high-low+1), min(high, low+1))
	case "boolean":
		return m.chance(50)
	case "string":
		return m.text(s)
	}
	m.t.Fatalf("no values of %v", s)
	return nil
}

func (m *maker) object(s map[string]any) any {
	out := map[string]any{}
	if of, ok := s["additionalProperties"].(map[string]any); ok {
		for _, label := range []string{"premium", "standard", "economy"} {
			if m.chance(80) {
				out[label] = m.ofSchema(of)
			}
		}
		return out
	}
	required, _ := s["required"].([]any)
	properties, _ := s["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if slices.Contains(required, any(name)) || m.chance(50) {
			out[name] = m.ofSchema(properties[name].(map[string]any))
		}
	}
	return out
}

// text is a string that a schema allows; patterns are those that the document has.
func (m *maker) text(s map[string]any) any {
	pattern, _ := s["pattern"].(string)
	switch {
	case s["format"] == "date-time":
		return fixtureNow.Add(time.Duration(m.rng.IntN(28)-26) * time.Hour).Format(time.RFC3339Nano)
	case strings.HasPrefix(pattern, "^[0-9a-f]{8}-"):
		return m.pick(uuid(m.rng.IntN(50)), orgO)
	case strings.Contains(pattern, "[A-Za-z0-9._:/-]{0,127}"):
		return m.pick("premium", "premium", "premium", "standard", "economy", strings.Repeat("Z", 128), "0.-_:/")
	case strings.Contains(pattern, "[A-Za-z0-9._-]{0,63}"):
		return m.pick("premium", "premium", "premium", "standard", "economy", strings.Repeat("Z", 64), "0.-_")
	case strings.Contains(pattern, "[0-9]{4}-"):
		return m.pick("20990123", "2099-01-22", "2099-02-31", "00000000", "9999-12-31")
	case strings.Contains(pattern, "[ -~]"):
		return m.pick("", "", "", "OK", premiumModel)
	case pattern != "":
		m.t.Fatalf("no values of the pattern %s", pattern)
	}
	low, high := number(s, "minLength", 0), number(s, "maxLength", 40)
	return m.pick("America/New_York", strings.Repeat("é", int(high)), strings.Repeat("x", int(max(low, 1))), strconv.Itoa(m.rng.Int()))
}

func number(s map[string]any, name string, otherwise int64) int64 {
	if f, ok := s[name].(float64); ok {
		return int64(f)
	}
	return otherwise
}

// strange are values of any type, made anew: they are changed further.
func strange() []any {
	return []any{
		nil, true, "", "12", "x#y", "../..", strings.Repeat("a", 129), -1, 1.5, 1e18, json.RawMessage("44.0"), json.RawMessage("5e1"), json.RawMessage("9223372036854775808"), json.RawMessage("1e400"), json.RawMessage("-0"),
		[]any{},
		[]any{[]any{1}},
		map[string]any{},
		map[string]any{"a": map[string]any{}},
		"\u0000", "2099-01-23T15:30:45", orgO,
	}
}

// near is a value with something in it that is not as it was.
func (m *maker) near(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 || m.chance(25) {
			v[m.pick("unknown", "client_secret_hash", "PK", "").(string)] = m.pick(strange()...)
			return v
		}
		keys := slices.Sorted(maps.Keys(v))
		k := keys[m.rng.IntN(len(keys))]
		switch m.rng.IntN(4) {
		case 0:
			delete(v, k)
		case 1:
			v[strings.ToUpper(k)] = v[k]
		default:
			v[k] = m.near(v[k])
		}
		return v
	case []any:
		if len(v) == 0 || m.chance(30) {
			return append(v, m.pick(strange()...))
		}
		i := m.rng.IntN(len(v))
		v[i] = m.near(v[i])
		return v
	}
	return m.pick(strange()...)
}

// madeUp is a request that was made up.
type madeUp struct {
	op     *describedOperation
	schema string // of its body in the document; empty if it has none
	method string
	path   string
	url    string
	body   []byte
	token  string
}

// request makes one up, mostly as the document allows it.
func (m *maker) request(path, method string, op *describedOperation) madeUp {
	r := madeUp{op: op, method: method, path: path, token: credentialOf(op)}
	if m.chance(10) {
		r.token = m.pick("", "a", "b", "other", "refresh", "gone", "key", "org", "unknown").(string)
	}
	query := url.Values{}
	r.url = path
	for _, p := range op.Parameters {
		value := fmt.Sprint(m.ofSchema(p.Schema))
		if m.chance(8) {
			value = fmt.Sprint(m.pick(strange()...))
		}
		switch p.In {
		case "path":
			if p.Name != "date" && m.chance(90) {
				org := orgO
				if method == http.MethodDelete && op.OperationID != "clearOverride" {
					org = orgOther // which nobody else needs
				}
				value = map[string]string{"org_id": org, "app_id": appA}[p.Name]
			}
			r.url = strings.ReplaceAll(r.url, "{"+p.Name+"}", url.PathEscape(value))
		case "query":
			if p.Required && m.chance(95) || m.chance(30) {
				query.Set(p.Name, value)
			}
		}
	}
	if m.chance(3) {
		query.Set("unknown", "x")
	}
	if len(query) > 0 {
		r.url += "?" + query.Encode()
	}
	if op.RequestBody != nil {
		r.schema = schemaOf(path, method, "requestBody")
		value := m.ofSchema(op.RequestBody.Content["application/json"].Schema)
		for m.chance(35) {
			value = m.near(value)
		}
		var err error
		r.body, err = wireJSON(value)
		require.NoError(m.t, err)
		if m.chance(3) {
			r.body = r.body[:m.rng.IntN(len(r.body)+1)]
		}
	}
	return r
}

// requests is how many are made up: DYNALIMIT_HTTP_REQUESTS.
func requests(t testing.TB) int {
	text := os.Getenv("DYNALIMIT_HTTP_REQUESTS")
	if text == "" {
		return 600
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// Whatever is sent, no answer is the server's fault or outside of its schema, and no body
// outside of its schema is taken.
func TestNoRequestIsAnsweredOutsideOfTheDocument(t *testing.T) {
	w := newWorld(t)
	d := describe(t, w.a)
	c := d.checker(t)
	var whole struct {
		Components struct{ Schemas map[string]any }
	}
	require.NoError(t, json.Unmarshal(d.raw, &whole))
	m := &maker{t, rand.New(rand.NewPCG(1, 2)), whole.Components.Schemas}
	type place struct{ path, method string }
	var places []place
	d.each(func(path, method string, _ *describedOperation) { places = append(places, place{path, method}) })
	slices.SortFunc(places, func(a, b place) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	statuses := map[int]int{}
	for i := range requests(t) {
		if i%20 == 0 { // what was put may leave little to ask for
			w.revive()
		}
		p := places[m.rng.IntN(len(places))]
		r := m.request(p.path, p.method, d.Paths[p.path][strings.ToLower(p.method)])
		w.checkReply(c, r, statuses)
	}
	t.Log(statuses)
	for _, status := range []int{200, 202, 207, 400, 401, 403} {
		require.Positive(t, statuses[status], "some are answered with %d: %v", status, statuses)
	}
}

// revive puts the organisation, which may have been deleted: then that is completed first.
func (w *world) revive() {
	w.t.Helper()
	_, err := w.a.keeper.Setup().PutOrg(w.t.Context(), fixtureOrg())
	if errors.Is(err, budget.ErrConflict) {
		require.NoError(w.t, w.a.keeper.Setup().DeleteOrg(w.t.Context(), orgO, nil))
		_, err = w.a.keeper.Setup().PutOrg(w.t.Context(), fixtureOrg())
	}
	require.NoError(w.t, err)
}

func (w *world) checkReply(c *checker, r madeUp, statuses map[int]int) {
	n := w.a.as(r.token)
	reply := n.send(r.method, r.url, r.body)
	statuses[reply.status]++
	shown := fmt.Sprintf("%s %s %s\n%.2000s\n%d %.2000s", r.op.OperationID, r.method, r.url, r.body, reply.status, reply.raw)
	require.Less(w.t, reply.status, http.StatusInternalServerError, shown)
	if reply.status >= http.StatusBadRequest {
		reply.shaped()
	}
	described := r.op.Responses[strconv.Itoa(reply.status)]
	// A path of other segments may be none of the operation's.
	if reply.status == http.StatusMethodNotAllowed || reply.status == http.StatusNotFound && described == nil {
		return
	}
	require.NotNil(w.t, described, "no such answer is described: %s", shown)
	if described.Content == nil {
		require.Empty(w.t, reply.raw, shown)
		return
	}
	require.NoError(w.t, c.check(schemaOf(r.path, r.method, "responses", strconv.Itoa(reply.status)), reply.raw), shown)
	if r.schema == "" {
		return
	}
	allowed := c.check(r.schema, r.body)
	if r.op.OperationID != "submitUsageBatch" && reply.status < 300 {
		require.NoError(w.t, allowed, "it is taken, and was not to be: %s", shown)
	}
	if allowed == nil && reply.status == http.StatusBadRequest { // for a rule that no schema has, which names its field
		require.NotContains(w.t, string(reply.raw), `"field":"body"`, shown)
		require.NotContains(w.t, string(reply.raw), `"field":""`, shown)
	}
}
