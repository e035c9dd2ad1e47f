package llmhttp_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/llm/llmhttp"
	"github.com/dynalimit/dynalimit/prices"
)

// paidRoutes are routes of the providers' SDKs that cost something and are not metered.
var paidRoutes = []string{
	"/v1/images/generations", "/v1/threads/runs", "/v1/threads/thread_1/runs", "/v1/audio/transcriptions", "/v1/audio/speech", "/v1/batches", "/v1/videos", "/v1/realtime/sessions",
	"/v1/messages/batches", "/v1beta/interactions", "/v1beta/models/m:predict", "/v1beta/models/m:predictLongRunning", "/v1beta/models/m:batchGenerateContent", "/v1beta/cachedContents",
	"/v1/projects/p/locations/l/publishers/mistralai/models/m:rawPredict", "/model/m/invoke-with-bidirectional-stream", "/async-invoke", "/guardrail/g/version/1/apply",
}

// TestUnmeteredRoutesAreRefusedBesideMoney, and pass without it; reads and what is free pass, and a
// compaction is metered.
func TestUnmeteredRoutesAreRefusedBesideMoney(t *testing.T) {
	b := newBank(t, searchFor(0), llmhttp.Options{}, canned{jsonType, `{"usage":{"input_tokens":9,"output_tokens":1}}`})
	w := newWorld(t, llmhttp.Options{}, replies(jsonType, "{}"))
	for _, path := range append(paidRoutes, "/v1/invented") {
		status, answer := b.call(path, `{"model":"m"}`)
		assert.Equal(t, 404, status, path)
		assert.Contains(t, answer, "AllowUnmetered", path)
		status, _ = w.call(path, `{"model":"m"}`)
		assert.Equal(t, 200, status, path)
	}
	assert.Zero(t, b.passed)
	status, _ := b.call("/v1/messages/count_tokens", `{"model":"x"}`)
	assert.Equal(t, 200, status, "counting is free")
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		for header, want := range map[string]int{"": 200, "Upgrade": 404, "X-Http-Method-Override": 404} {
			r := b.request(t.Context(), "/v1/models", "")
			r.Method = method
			if header != "" {
				r.Header.Set(header, "x")
			}
			res, err := b.client.Do(r)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			assert.Equal(t, want, res.StatusCode, "%s %s", method, header)
		}
	}
	assert.Empty(t, b.settled.Status, "nothing of this is charged")
	b = newBank(t, searchFor(0), llmhttp.Options{Models: llmhttp.Models{"m": {MaxOutput: 50}}}, canned{jsonType, `{"object":"response.compaction","usage":{"input_tokens":9,"output_tokens":1}}`})
	status, micros := b.pay("/v1/responses/compact", `{"model":"m","input":"a long text"}`)
	assert.Equal(t, 200, status)
	assert.Equal(t, int64(10), micros)
}

// TestRefusalsOfRoutesHaveTheProvidersShape, as far as the request shows who the provider is.
func TestRefusalsOfRoutesHaveTheProvidersShape(t *testing.T) {
	for _, c := range []struct {
		path   string
		header []string
		holds  string
	}{
		{"/v1/images/generations", nil, `"code":"unknown_url"`},
		{"/openai/deployments/m/images/generations", nil, `"code":"unknown_url"`},
		{"/v1/complete", []string{"Anthropic-Version", "2023-06-01"}, `"type":"not_found_error"`},
		{"/v1/messages/batches", nil, `"type":"not_found_error"`},
		{"/v1beta/interactions", nil, `"status":"NOT_FOUND"`},
		{"/v1/projects/p/locations/l/publishers/mistralai/models/m:rawPredict", nil, `"status":"NOT_FOUND"`},
		{"/async-invoke", []string{"Authorization", "AWS4-HMAC-SHA256 Credential=x"}, `{"message":"`},
		{"/model/m/invoke-with-bidirectional-stream", nil, `{"message":"`},
		{"/invented", nil, `"title":"Not Found"`},
	} {
		b := newBank(t, searchFor(0), llmhttp.Options{}, canned{jsonType, "{}"})
		res := b.do(c.path, "{}", c.header...)
		assert.Equal(t, 404, res.StatusCode)
		assert.Contains(t, read(t, res), c.holds)
		assert.Equal(t, strings.HasPrefix(c.holds, `{"message"`), res.Header.Get("X-Amzn-Errortype") == "ResourceNotFoundException")
		require.NoError(t, res.Body.Close())
	}
}

// TestRoutesThatMayPass: by the path that each server reads, whatever is sent.
func TestRoutesThatMayPass(t *testing.T) {
	for _, c := range []struct {
		allowed, path string
		passes        bool
	}{
		{"*", "/v1/images/generations", true},
		{"/v1/files", "/v1/files", true},
		{"/v1/files", "/v1/files?purpose=x", true},
		{"/v1/files", "/v1/files/", true},
		{"/v1/files", "/v1/%66iles", true},
		{"/v1/files", "/v1/./files", true},
		{"/v1/files", "/v1/files/f", false},
		{"/v1/files", "/v1/Files", false},
		{"/v1/files", "/proxy/v1/files", false},
		{"/v1/files/*", "/v1/files/f/content", true},
		{"/v1/files/*", "/v1/files", false},
		{"/v1/files*", "/v1/files", true},
		{"/v1/files*", "/v1/files/../images/generations", false},
		{"/v1/files*", "/v1/files/%2e%2e/images/generations", false},
		{"/v1/files*", "/v1/files/..%2Fimages/generations", false},
		{"/v1/files*", "/v1/files/..%5Cimages/generations", false},
		{"/v1/images/*", "/v1/files/..%2Fimages/generations", false},
	} {
		b := newBank(t, searchFor(0), llmhttp.Options{AllowUnmetered: []string{"/other", c.allowed}}, canned{jsonType, "{}"})
		status, _ := b.call(c.path, "{}")
		assert.Equal(t, c.passes, status == 200, "%s by %s", c.path, c.allowed)
		assert.Equal(t, c.passes, b.passed == 1, "%s by %s", c.path, c.allowed)
	}
	for _, bad := range []string{"", "v1/files", "/v1/files/", "/v1//files", "/v1/../files", "/v1/*/files", "/v1/files?x", "/v1/fi%6ces", "/v1/files**", "/v1/chat/completions", "/v1/messages/count_tokens"} {
		_, err := llmhttp.NewTransport(nil, newWorld(t, llmhttp.Options{}, nil).guard, &llmhttp.Options{Models: models, AllowUnmetered: []string{bad}})
		wrong := new(dynalimit.ValidationError)
		require.ErrorAs(t, err, &wrong, bad)
		assert.Equal(t, "options.AllowUnmetered", wrong.Field)
	}
}

// TestACallIsMeteredHoweverItsPathIsSpelled, also where all other routes may pass.
func TestACallIsMeteredHoweverItsPathIsSpelled(t *testing.T) {
	for _, path := range []string{
		"/v1/chat%2Fcompletions", "/v1%2fresponses", "/v1/chat%5Ccompletions", "/v1/files/..%2Fchat/completions", "/v1//chat/./completions/", "/V1/Chat/Completions?x=1",
		"/v1%2Fmessages", "/v1beta/models%2Fm:generateContent", "/v1beta%2Fmodels%2fm%3AgenerateContent", "/model%2Fus.m:0/converse", "/model/us.m:0%2Fconverse", "/model/us.m:0%2Finvoke",
	} {
		b := newBank(t, searchFor(0), llmhttp.Options{AllowUnmetered: []string{"*"}}, canned{jsonType, "{}"})
		status, micros := b.pay(path, `{"model":"m","max_tokens":1,"max_output_tokens":1,"generationConfig":{"maxOutputTokens":1},"inferenceConfig":{"maxTokens":1}}`)
		assert.Equal(t, 200, status, path)
		assert.Positive(t, micros, path)
	}
}

// TestEachUnmeteredRouteIsLoggedOnce, and no more of them than a process remembers.
func TestEachUnmeteredRouteIsLoggedOnce(t *testing.T) {
	var logged bytes.Buffer
	w := newWorld(t, llmhttp.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))}, replies(jsonType, "{}"))
	for _, path := range []string{"/v1/images/generations", "/v1/images/generations/", "/v1/threads/thread_1/runs", "/v1/threads/thread_2/runs", "/v1/messages/count_tokens", chatPath} {
		w.call(path, chatBody)
	}
	lines := strings.Split(strings.TrimSpace(logged.String()), "\n")
	require.Len(t, lines, 2, logged.String())
	assert.Contains(t, lines[0], `route="POST /v1/images/generations"`)
	assert.Contains(t, lines[1], `route="POST /v1/threads/{id}/runs"`)
	for i := range 400 {
		w.call(fmt.Sprintf("/v1/%c%c", 'a'+i/26, 'a'+i%26), "{}")
	}
	assert.Equal(t, 256, strings.Count(logged.String(), "\n"))
}

// TestWhoIsNobodyIsRefused whatever he asks for; who was not asked may read.
func TestWhoIsNobodyIsRefused(t *testing.T) {
	for _, money := range []bool{false, true} {
		for name, o := range map[string]llmhttp.Options{
			"Identify": {Identify: func(*http.Request) (llmhttp.Caller, error) { return llmhttp.Caller{}, fmt.Errorf("who?") }},
			"a Caller": {Identify: func(*http.Request) (llmhttp.Caller, error) { return llmhttp.Caller{}, nil }},
			"nothing":  {},
		} {
			transport := newBank(t, searchFor(0), o, canned{jsonType, "{}"}).transport
			if !money {
				guard := newWorld(t, llmhttp.Options{}, nil).guard
				o.Models = models
				var err error
				transport, err = llmhttp.NewTransport(canned{jsonType, "{}"}, guard, &o)
				require.NoError(t, err)
			}
			for _, c := range []struct {
				method, path string
				asked, not   int
			}{
				{http.MethodPost, chatPath, 401, 401},
				{http.MethodPost, "/v1/messages/count_tokens", 401, 200},
				{http.MethodGet, "/v1/models", 401, 200},
				{http.MethodPost, "/v1/files", 401, map[bool]int{false: 200, true: 404}[money]},
			} {
				r, err := http.NewRequestWithContext(t.Context(), c.method, "http://provider"+c.path, strings.NewReader("{}"))
				require.NoError(t, err)
				res, err := transport.RoundTrip(r)
				require.NoError(t, err)
				require.NoError(t, res.Body.Close())
				want := c.asked
				if name == "nothing" {
					want = c.not
				}
				assert.Equal(t, want, res.StatusCode, "%s %s %s", name, c.method, c.path)
			}
		}
	}
}

// TestAModelWithoutAPriceIsNotServed beside a limit on money, also where it embeds: nothing is sent.
func TestAModelWithoutAPriceIsNotServed(t *testing.T) {
	var logged bytes.Buffer
	for path, holds := range map[string]string{
		chatPath: `"code":"model_not_found"`, claudePath: `"type":"not_found_error"`, geminiPath: `"status":"NOT_FOUND"`, conversePath: `{"message":"`, "/v1/embeddings": `"code":"model_not_found"`,
	} {
		b := newBank(t, prices.CatalogList(), llmhttp.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))}, canned{jsonType, "{}"})
		status, answer := b.call(path, `{"model":"m","max_tokens":5}`)
		assert.Equal(t, 404, status, path)
		assert.Contains(t, answer, holds, path)
		assert.Contains(t, answer, "has no price here", path)
		assert.Zero(t, b.passed)
		b.limiter.AssertTaken("ana", "m", nil)
	}
	assert.Equal(t, 5, strings.Count(logged.String(), "has no price, and money is limited"))
}
