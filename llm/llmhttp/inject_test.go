package llmhttp_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/llm/llmhttp"
)

// TestTheUsageOfAStreamIsAskedFor and is taken out of what the caller reads.
func TestTheUsageOfAStreamIsAskedFor(t *testing.T) {
	text := []string{`{"choices":[{"delta":{"content":"Hel"}}],"usage":null}`, `{"choices":[{"delta":{"content":"lo"}}],"usage":null}`}
	usage := `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}`
	for name, c := range map[string]struct {
		body    string
		header  []string
		count   bool
		injects bool
	}{
		"no options":    {body: `{"model":"m","stream":true}`, injects: true},
		"other options": {body: `{"stream_options": { "include_obfuscation":false},"model":"m","stream":true}`, injects: true},
		"empty options": {body: `{"stream_options":{},"model":"m","stream":true}`, injects: true},
		"null options":  {body: `{"model":"m","stream":true,"stream_options":null}`, injects: true},
		"asked":         {body: `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`},
		"asked not to":  {body: `{"model":"m","stream":true,"stream_options":{"include_usage":false}}`, injects: true},
		"asked nothing": {body: `{"model":"m","stream":true,"stream_options":{"include_usage" : null }}`, injects: true},
		"signed":        {body: `{"model":"m","stream":true}`, header: []string{"Authorization", "AWS4-HMAC-SHA256 x"}},
		"counted":       {body: `{"model":"m","stream":true}`, count: true},
		"not streamed":  {body: `{"model":"m"}`},
	} {
		t.Run(name, func(t *testing.T) {
			all := sse(text[0], text[1], usage, "[DONE]")
			w := newWorld(t, llmhttp.Options{Count: c.count}, replies(sseType, all))
			_, answer := w.call(chatPath, c.body, c.header...)
			if !c.injects {
				assert.Equal(t, c.body, w.bodies[0])
				assert.Equal(t, all, answer)
				return
			}
			assert.Equal(t, sse(text[0], text[1], "[DONE]"), answer)
			var sent struct {
				Model   string          `json:"model"`
				Options map[string]bool `json:"stream_options"`
			}
			require.NoError(t, json.Unmarshal([]byte(w.bodies[0]), &sent))
			assert.Equal(t, "m", sent.Model)
			assert.True(t, sent.Options["include_usage"])
			assert.Equal(t, tokens{Input: 9, Output: 2}, w.end().Tokens)
		})
	}
}

// choice is an event of a usage with a choice.
func choice(c string) string {
	return `data: {"choices":[` + c + `],"usage":{"prompt_tokens":9}}` + "\n\n"
}

// TestWhatIsTakenOutIsTheUsageAlone reads streams in pieces of all kinds.
func TestWhatIsTakenOutIsTheUsageAlone(t *testing.T) {
	usage := `data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}`
	for in, out := range map[string]string{
		usage + "\n\n":                        "",
		usage + "\r\n\r\ndata: x\r\n\r\n":     "data: x\r\n\r\n",
		"data: a\n\n" + usage + "\n\n: c\n\n": "data: a\n\n: c\n\n",
		usage + "\n":                          usage + "\n", // never whole
		choice(`{"index":0,"delta":{}}`):      "",           // of LiteLLM
		choice(`{"index":0,"delta":{"content":null},"finish_reason":null}`): "",
		choice(`{"index":0,"delta":{"content":"x"}}`):                       choice(`{"index":0,"delta":{"content":"x"}}`),
		choice(`{"index":0,"delta":{},"finish_reason":"stop"}`):             choice(`{"index":0,"delta":{},"finish_reason":"stop"}`),
		choice(`1`): choice(`1`),
		"data: " + strings.Repeat("x", 200<<10) + "\n\n" + usage + "\n\n": "data: " + strings.Repeat("x", 200<<10) + "\n\n",
		`data: {"error":{"code":"x"},"usage":{}}` + "\n\n":                `data: {"error":{"code":"x"},"usage":{}}` + "\n\n",
		"": "",
	} {
		w := newWorld(t, llmhttp.Options{}, nil)
		transport, err := llmhttp.NewTransport(canned{sseType, in}, w.guard, &llmhttp.Options{Models: models})
		require.NoError(t, err)
		res, err := transport.RoundTrip(w.request(t.Context(), chatPath, `{"model":"m","stream":true}`))
		require.NoError(t, err)
		require.NoError(t, iotest.TestReader(res.Body, []byte(out)))
		require.NoError(t, res.Body.Close())
	}
}

func TestHeadersAreTheCallersOwn(t *testing.T) {
	w := newWorld(t, llmhttp.Options{Headers: true}, replies(jsonType, `{}`, "X-Ratelimit-Limit-Tokens", "2000000", "X-Request-Id", "r"))
	res := w.do(chatPath, chatBody)
	require.NoError(t, res.Body.Close())
	assert.Equal(t, "100", res.Header.Get("X-Ratelimit-Limit"))
	assert.Equal(t, "99", res.Header.Get("X-Ratelimit-Remaining"))
	assert.Equal(t, "r", res.Header.Get("X-Request-Id"))
	assert.Empty(t, res.Header.Get("X-Ratelimit-Limit-Tokens"))
}

// TestWhatIsTakenForARequest has the estimates of what bodies hold.
func TestWhatIsTakenForARequest(t *testing.T) {
	for _, c := range []struct {
		name, path, body string
		tpm              int64
	}{
		{"a bound and two replies", chatPath, `{"model":"m","n":2,"max_tokens":10,"max_completion_tokens":100}`, 23 + 200},
		{"two prompts, two replies to each", "/v1/completions", `{"model":"m","max_tokens":10,"n":2,"prompt":["a","b"]}`, 26 + 40},
		{"a prompt of tokens", "/v1/completions", `{"model":"m","max_tokens":10,"prompt":[1,2,3]}`, 22 + 10},
		{"no bound of two replies", chatPath, `{"model":"m","n":2}`, 8 + 2*4096},
		{"no bound", chatPath, `{"model":"m"}`, 6 + 4096},
		{"the model's bound", chatPath, `{"model":"m-1"}`, 6 + 77},
		{"a picture", chatPath, `{"model":"m","max_tokens":1,"messages":[{"content":[{"image_url":{"url":"data:image/png;base64,` + strings.Repeat("QUJD", 10_000) + `"}}]}]}`, 2000 + 1 + 21},
		{"a picture elsewhere", claudePath, `{"model":"m","max_tokens":1,"messages":[{"content":[{"source":{"type":"url","url":"https://x"}}]}]}`, 2000 + 1 + 40},
		{"one part that is no list", geminiPath, `{"contents":{"parts":{"fileData":{"fileUri":"gs://x"}}},"generationConfig":{"maxOutputTokens":1}}`, 2000 + 1 + 37},
		{"embeddings", "/v1/embeddings", `{"model":"m","input":"Hello"}`, 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			hold, held := make(chan struct{}), make(chan struct{})
			w := newWorld(t, llmhttp.Options{Models: llmhttp.Models{"m": {}, "m-1": {Resource: "m", MaxOutput: 77}}}, func(http.ResponseWriter, *http.Request) {
				close(held)
				<-hold
			})
			done := make(chan struct{})
			go func() {
				defer close(done)
				w.call(c.path, c.body)
			}()
			<-held
			taken := w.limiter.Taken("ana", "m")
			close(hold)
			<-done
			assert.InDelta(t, c.tpm, taken["tpm"], 8)
			assert.Equal(t, dynalimit.Amounts{"rpm": 1, "tpm": taken["tpm"]}, taken)
		})
	}
}
