package llmtest_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/llm/llmtest"
)

var update = flag.Bool("update", false, "write the golden files of testdata")

// every is an answer in which each count is another.
var every = llmtest.Answer{
	Text: "Gute Nacht", Events: 2, Input: 100, CacheRead: 40, CacheWrite: 20, CacheWrite1h: 5, Output: 30, Reasoning: 10, Tier: "priority",
}

// requests are one of each kind.
var requests = []struct{ name, url, body string }{
	{"openai chat", "api.openai.com/v1/chat/completions", `{"model":"gpt-5"}`},
	{"openai chat, streamed", "api.openai.com/v1/chat/completions", `{"model":"gpt-5","stream":true}`},
	{"openai chat, streamed with usage", "api.openai.com/v1/chat/completions", `{"model":"gpt-5","stream":true,"stream_options":{"include_usage":true}}`},
	{"openai completions", "api.openai.com/v1/completions", `{"model":"davinci"}`},
	{"openai completions, streamed with usage", "api.openai.com/v1/completions", `{"model":"davinci","stream":true,"stream_options":{"include_usage":true}}`},
	{"openai responses", "api.openai.com/v1/responses", `{"model":"gpt-5"}`},
	{"openai responses, streamed", "api.openai.com/v1/responses", `{"model":"gpt-5","stream":true}`},
	{"openai responses, counted", "api.openai.com/v1/responses/input_tokens", `{"model":"gpt-5"}`},
	{"openai embeddings", "api.openai.com/v1/embeddings", `{"model":"small","input":["a","b"]}`},
	{"openai embeddings of tokens", "api.openai.com/v1/embeddings", `{"model":"small","input":[1,2,3]}`},
	{"azure", "x.openai.azure.com/openai/deployments/my-gpt/chat/completions?api-version=1", `{}`},
	{"openai at bedrock", "bedrock-runtime.us-east-1.amazonaws.com/openai/v1/chat/completions", `{"model":"openai.gpt-oss"}`},
	{"openai at vertex", "us-aiplatform.googleapis.com/v1/projects/p/locations/l/endpoints/openapi/chat/completions", `{"model":"google/gemini"}`},
	{"anthropic", "api.anthropic.com/v1/messages", `{"model":"claude"}`},
	{"anthropic, streamed", "api.anthropic.com/v1/messages", `{"model":"claude","stream":true}`},
	{"anthropic, counted", "api.anthropic.com/v1/messages/count_tokens", `{"model":"claude"}`},
	{"anthropic at vertex", "us-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/anthropic/models/claude@1:rawPredict", `{}`},
	{"anthropic at vertex, streamed", "us-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/anthropic/models/claude@1:streamRawPredict", `{"stream":true}`},
	{"anthropic at vertex, counted", "us-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict", `{}`},
	{"bedrock invoke", "bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-v1%3A0/invoke", `{}`},
	{"bedrock invoke, streamed", "bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-v1%3A0/invoke-with-response-stream", `{}`},
	{"bedrock converse", "bedrock-runtime.us-east-1.amazonaws.com/model/arn%3Aaws%3Ap%2Fnova/converse", `{}`},
	{"bedrock converse, streamed", "bedrock-runtime.us-east-1.amazonaws.com/model/arn%3Aaws%3Ap%2Fnova/converse-stream", `{}`},
	{"bedrock, counted", "bedrock-runtime.us-east-1.amazonaws.com/model/nova/count-tokens", `{}`},
	{"gemini", "generativelanguage.googleapis.com/v1beta/models/gemini-pro:generateContent", `{}`},
	{"gemini, streamed", "generativelanguage.googleapis.com/v1beta/models/gemini-pro:streamGenerateContent?alt=sse", `{}`},
	{"gemini, streamed as an array", "generativelanguage.googleapis.com/v1beta/models/gemini-pro:streamGenerateContent", `{}`},
	{"gemini, counted", "generativelanguage.googleapis.com/v1beta/models/gemini-pro:countTokens", `{}`},
	{"gemini embedding", "generativelanguage.googleapis.com/v1beta/models/embed:embedContent", `{}`},
	{"gemini embeddings", "generativelanguage.googleapis.com/v1beta/models/embed:batchEmbedContents", `{"requests":[{},{}]}`},
	{"vertex embeddings", "us-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/google/models/embed:predict", `{"instances":[{},{}]}`},
	{"nothing known", "example.com/v1/images", `{}`},
}

// TestAnswers compares an answer in every dialect with testdata/answers.txt.
func TestAnswers(t *testing.T) {
	var b strings.Builder
	for _, r := range requests {
		show(t, &b, r.name, every, r.url, r.body)
	}
	golden(t, "answers.txt", b.String())
}

// TestErrors compares what is wrong in every dialect with testdata/errors.txt.
func TestErrors(t *testing.T) {
	const chat, aws = "api.openai.com/v1/chat/completions", "bedrock-runtime.us-east-1.amazonaws.com/model/m/"
	const gemini = "generativelanguage.googleapis.com/v1beta/models/g:"
	short := func(a llmtest.Answer) llmtest.Answer {
		a.Events = 1
		return a
	}
	var b strings.Builder
	for _, r := range []struct {
		name      string
		a         llmtest.Answer
		url, body string
	}{
		{"openai, come back", llmtest.Answer{Status: 429, RetryAfter: 1500e6}, chat, `{}`},
		{"openai, no money", llmtest.Answer{Status: 429, Code: "insufficient_quota"}, chat, `{"stream":true}`},
		{"openai, no key", llmtest.Answer{Status: 401}, "api.openai.com/v1/responses", `{}`},
		{"openai, overloaded", llmtest.Answer{Status: 503}, "api.openai.com/v1/embeddings", `{}`},
		{"openai, in the stream", llmtest.Answer{Error: "server_error", ErrorAfter: 1}, chat, `{"stream":true}`},
		{"responses, failed", short(llmtest.Answer{Error: "server_error"}), "api.openai.com/v1/responses", `{"stream":true}`},
		{"responses, error", short(llmtest.Answer{Error: "server_error", NoUsage: true}), "api.openai.com/v1/responses", `{"stream":true}`},
		{"anthropic, come back", llmtest.Answer{Status: 429, RetryAfter: 1500e6}, "api.anthropic.com/v1/messages", `{}`},
		{"anthropic, no money", llmtest.Answer{Status: 429, Code: "enforced_spend_limit_reached"}, "api.anthropic.com/v1/messages", `{}`},
		{"anthropic, odd", llmtest.Answer{Status: 500}, "api.anthropic.com/v1/messages/count_tokens", `{}`},
		{"anthropic, in the stream", llmtest.Answer{Error: "overloaded_error"}, "api.anthropic.com/v1/messages", `{"stream":true}`},
		{"bedrock, come back", llmtest.Answer{Status: 429, RetryAfter: 1500e6}, aws + "invoke", `{}`},
		{"bedrock, by name", llmtest.Answer{Status: 400, Code: "ServiceQuotaExceededException"}, aws + "converse-stream", `{}`},
		{"bedrock, in a stream", llmtest.Answer{Error: "throttlingException", ErrorAfter: 1}, aws + "converse-stream", `{}`},
		{"bedrock, in an invoked stream", llmtest.Answer{Error: "modelStreamErrorException"}, aws + "invoke-with-response-stream", `{}`},
		{"gemini, come back", llmtest.Answer{Status: 429, RetryAfter: 1500e6}, gemini + "generateContent", `{}`},
		{"gemini, in the stream", llmtest.Answer{Error: "UNAVAILABLE"}, gemini + "streamGenerateContent?alt=sse", `{}`},
		{"as it is", llmtest.Answer{Status: 302, Header: http.Header{"location": {"/"}}}, chat, `{}`},
		{"a body as it is", llmtest.Answer{Body: "{}", Header: http.Header{"Content-Type": {"text/html"}}}, chat, `{"stream":true}`},
	} {
		show(t, &b, r.name, r.a, r.url, r.body)
	}
	golden(t, "errors.txt", b.String())
}

// show writes an answer, and what it is billed.
func show(t *testing.T, to io.Writer, name string, a llmtest.Answer, url, body string) {
	t.Helper()
	p := llmtest.New(t)
	p.Next(a)
	r := post(t, p.Transport(), "https://"+url, body)
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.NoError(t, r.Body.Close())
	fmt.Fprintf(to, "=== %s\n%s\n", name, r.Status)
	for _, field := range slices.Sorted(maps.Keys(r.Header)) {
		fmt.Fprintf(to, "%s: %s\n", field, r.Header.Get(field))
	}
	if r.Header.Get("Content-Type") == "application/vnd.amazon.eventstream" {
		b = opened(t, b)
	}
	call := p.Calls()[0]
	require.False(t, call.Left)
	require.Equal(t, body, string(call.Body))
	fmt.Fprintf(to, "\n%s\nbilled %+v\n\n", bytes.TrimSpace(b), call.Billed)
}

func post(t *testing.T, transport http.RoundTripper, url, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	answer, err := transport.RoundTrip(r)
	require.NoError(t, err)
	return answer
}

// opened shows the frames of an AWS stream: their headers, and payloads with what is inside.
func opened(t *testing.T, b []byte) []byte {
	t.Helper()
	var lines bytes.Buffer
	for len(b) > 0 {
		total, headers := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
		require.Equal(t, crc32.ChecksumIEEE(b[:8]), binary.BigEndian.Uint32(b[8:]))
		require.Equal(t, crc32.ChecksumIEEE(b[:total-4]), binary.BigEndian.Uint32(b[total-4:]))
		for h := b[12 : 12+headers]; len(h) > 0; {
			name := h[1 : 1+h[0]]
			require.EqualValues(t, 7, h[1+h[0]], "a string")
			h = h[2+h[0]:]
			size := binary.BigEndian.Uint16(h)
			fmt.Fprintf(&lines, "%s %s, ", name, h[2:2+size])
			h = h[2+size:]
		}
		payload := b[12+headers : total-4]
		lines.Write(payload)
		var chunk struct{ Bytes []byte }
		require.NoError(t, json.Unmarshal(payload, &chunk))
		if chunk.Bytes != nil {
			fmt.Fprintf(&lines, "\n  %s", chunk.Bytes)
		}
		lines.WriteByte('\n')
		b = b[total:]
	}
	return lines.Bytes()
}

// golden compares a text with a file.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text, "go test ./llm/llmtest -update writes it anew")
}
