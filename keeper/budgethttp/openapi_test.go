package budgethttp

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// described is the document as a client reads it.
type described struct {
	raw   []byte
	Paths map[string]map[string]*describedOperation
}

type describedOperation struct {
	OperationID string
	Parameters  []struct {
		Name, In string
		Required bool
		Schema   map[string]any
	}
	RequestBody *describedBody
	Responses   map[string]*describedBody
	Security    []map[string][]string
}

type describedBody struct {
	Content map[string]struct {
		Schema  map[string]any
		Example any
	}
}

func describe(t testing.TB, n *node) *described {
	t.Helper()
	r := n.as("").get("/openapi.json").is(http.StatusOK)
	d := &described{raw: r.raw}
	require.NoError(t, json.Unmarshal(r.raw, d))
	return d
}

// each visits every operation.
func (d *described) each(f func(path, method string, op *describedOperation)) {
	for path, item := range d.Paths {
		for method, op := range item {
			f(path, strings.ToUpper(method), op)
		}
	}
}

// checker checks bodies by the schemas of the document, by another library than the one
// that wrote them.
type checker struct {
	t        testing.TB
	compiler *jsonschema.Compiler
}

func (d *described) checker(t testing.TB) *checker {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(d.raw))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	require.NoError(t, c.AddResource("openapi.json", document))
	return &checker{t, c}
}

// schemaOf is the place of a body's schema in the document.
func schemaOf(path, method string, place ...string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	parts := append([]string{"paths", path, strings.ToLower(method)}, place...)
	out := "openapi.json#"
	for _, p := range append(parts, "content", "application/json", "schema") {
		out += "/" + strings.NewReplacer("{", "%7B", "}", "%7D").Replace(escape.Replace(p))
	}
	return out
}

func (c *checker) check(schema string, body []byte) error {
	compiled, err := c.compiler.Compile(schema)
	require.NoError(c.t, err)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return compiled.Validate(value)
}

// The document changes on purpose alone: clients are generated from it.
func TestDocumentIsGolden(t *testing.T) {
	w := newWorld(t)
	d := describe(t, w.a)
	var indented bytes.Buffer
	require.NoError(t, json.Indent(&indented, d.raw, "", "  "))
	if *update {
		require.NoError(t, os.WriteFile("testdata/openapi.json", indented.Bytes(), 0o644))
	}
	golden, err := os.ReadFile("testdata/openapi.json")
	require.NoError(t, err)
	assert.Equal(t, string(golden), indented.String(), "go test -run Golden -update . writes it anew")
	assert.Contains(t, string(golden), `"openapi": "3.1.0"`)
	assert.JSONEq(t, string(golden), string(w.a.get("/api/v1/openapi.json").is(http.StatusOK).raw))
}

// Every operation says who may ask, what may go wrong, and shows an answer; every schema
// compiles.
func TestDocumentIsWhole(t *testing.T) {
	w := newWorld(t)
	d := describe(t, w.a)
	c := d.checker(t)
	ids := map[string]bool{}
	d.each(func(path, method string, op *describedOperation) {
		require.NotEmpty(t, op.OperationID, "%s %s", method, path)
		assert.False(t, ids[op.OperationID], "%s is there twice", op.OperationID)
		ids[op.OperationID] = true
		assert.Contains(t, op.Responses, "default", op.OperationID)
		for status, r := range op.Responses {
			if r.Content != nil {
				_, err := c.compiler.Compile(schemaOf(path, method, "responses", status))
				require.NoError(t, err, "%s %s", op.OperationID, status)
			}
		}
		if op.RequestBody != nil {
			_, err := c.compiler.Compile(schemaOf(path, method, "requestBody"))
			require.NoError(t, err, op.OperationID)
			assert.NotNil(t, op.RequestBody.Content["application/json"].Example, "%s shows a body", op.OperationID)
		}
	})
	for _, id := range w.a.server.router.names {
		if id != "openapi" && id != "docs" && id != "root" {
			assert.Contains(t, ids, id, "every route is described")
		}
	}
}

// The examples of the document are sent at their time, and answered as it says.
func TestExamplesRun(t *testing.T) {
	w := newWorld(t)
	d := describe(t, w.a)
	c := d.checker(t)
	then, err := time.Parse(time.RFC3339, exampleUsage["timestamp"].(string))
	require.NoError(t, err)
	d.each(func(path, method string, op *describedOperation) {
		w := newWorld(t)
		w.clock.Set(then)
		n := w.a
		token := prepared(n, path)
		raw := []byte(nil)
		if op.RequestBody != nil {
			var err error
			raw, err = wireJSON(op.RequestBody.Content["application/json"].Example)
			require.NoError(t, err)
			require.NoError(t, c.check(schemaOf(path, method, "requestBody"), raw), op.OperationID)
		}
		if bytes.Contains(raw, []byte("the retrieval_token")) {
			raw = []byte(`{"token":"` + token + `"}`)
		}
		n.token = credentialOf(op)
		raw = loggedIn(n, raw)
		r := n.send(method, filled(path)+query(op, token), raw)
		require.Less(t, r.status, 300, "%s: %s", op.OperationID, r.raw)
		status := strconv.Itoa(r.status)
		require.Contains(t, op.Responses, status, op.OperationID)
		if op.Responses[status].Content == nil {
			assert.Empty(t, r.raw, op.OperationID)
			return
		}
		require.NoError(t, c.check(schemaOf(path, method, "responses", status), r.raw), "%s: %s", op.OperationID, r.raw)
		if shown := op.Responses[status].Content["application/json"].Example; shown != nil {
			raw, err := wireJSON(shown)
			require.NoError(t, err)
			require.NoError(t, c.check(schemaOf(path, method, "responses", status), raw), "the example of %s", op.OperationID)
		}
	})
}

// credentialOf is what the tests send for an operation.
func credentialOf(op *describedOperation) string {
	if len(op.Security) == 0 || len(op.Security[0]) == 0 {
		return ""
	}
	if _, ok := op.Security[0]["key"]; ok {
		return "key"
	}
	if op.OperationID == "revoke" {
		return "a"
	}
	return "org"
}

// prepared makes what the examples are about: an organisation and an app with credentials.
// It returns the retrieval token of whose path it is.
func prepared(n *node, path string) string {
	n = n.as("key")
	org := n.do(http.MethodPut, pathO, exampleOrg).is(http.StatusCreated)
	app := n.do(http.MethodPut, pathA, exampleApp).is(http.StatusCreated)
	if strings.Contains(path, "{app_id}") {
		return app.at("retrieval_token").(string)
	}
	return org.at("retrieval_token").(string)
}

// loggedIn is a body with what a login of app A answers.
func loggedIn(n *node, body []byte) []byte {
	if !bytes.Contains(body, []byte("that was fetched")) && !bytes.Contains(body, []byte("of a login")) {
		return body
	}
	rotated := n.as("key").do(http.MethodPost, pathA+"/credentials/rotate", exampleRotate).is(http.StatusOK)
	secret := n.secretOf(pathA, rotated.text("retrieval_token"))
	grant := n.as("").do(http.MethodPost, "/auth/token", exampleLogin.but(example{"client_secret": secret})).is(http.StatusOK)
	for text, value := range map[string]string{
		"the client_secret that was fetched": secret, "the refresh_token of a login": grant.text("refresh_token"),
	} {
		body = bytes.ReplaceAll(body, []byte(text), []byte(value))
	}
	return body
}

// query is the parameters that an operation needs in its query.
func query(op *describedOperation, token string) string {
	out := url.Values{}
	for _, p := range op.Parameters {
		if p.In == "query" && p.Required {
			out.Set(p.Name, map[string]string{"from": "2026-01-01", "to": "2026-01-23", "token": token, "model_label": "premium"}[p.Name])
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "?" + out.Encode()
}

// filled is a path with the fixture's ids.
func filled(path string) string {
	return strings.NewReplacer("{org_id}", orgO, "{app_id}", appA, "{date}", "2026-01-23").Replace(path)
}

// Who asks for nothing gets the page, wherever the handler is mounted.
func TestRootLeadsToThePage(t *testing.T) {
	w := newWorld(t)
	for _, n := range []*node{w.a, w.with(func(o *Options) { o.Prefix = "/budget" })} {
		answer, err := n.client.Get(n.url + n.server.opts.Prefix + "/") //nolint:noctx // this machine
		require.NoError(t, err)
		answer.Body.Close()
		assert.Equal(t, http.StatusSeeOther, answer.StatusCode)
		at, err := answer.Location()
		require.NoError(t, err)
		assert.Equal(t, n.server.opts.Prefix+"/docs", at.Path)
	}
}

// The page goes through the tags in the order of the document, which a client meets them in.
func TestPageHasTheOrderOfTheDocument(t *testing.T) {
	page := string(newWorld(t).a.as("").get("/docs").is(http.StatusOK).raw)
	at, found := 0, 0
	for _, tag := range tags {
		if next := strings.Index(page, `<h2 id="about-`+tag.Name+`">`); next >= 0 {
			require.Greater(t, next, at, tag.Name)
			at, found = next, found+1
		}
	}
	assert.Equal(t, found, strings.Count(page, `<h2 id="about-`), "no other")
	assert.Greater(t, found, 6)
}

// The page names every operation, and takes nothing from elsewhere.
func TestPageIsReadableAlone(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/docs", "/api/v1/docs"} {
		r := w.a.as("").get(path).is(http.StatusOK)
		page := string(r.raw)
		assert.Equal(t, "text/html; charset=utf-8", r.header.Get("Content-Type"))
		assert.Contains(t, r.header.Get("Content-Security-Policy"), "default-src 'none'")
		describe(t, w.a).each(func(path, _ string, op *describedOperation) {
			assert.Contains(t, page, `id="`+op.OperationID+`"`)
			assert.Contains(t, page, path)
		})
		assert.Contains(t, page, "request_id")
		for _, elsewhere := range []string{"http://", "https://", "<script", "src=", "@import"} {
			assert.NotContains(t, page, elsewhere)
		}
	}
}
