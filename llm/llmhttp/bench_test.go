package llmhttp_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/dynalimittest"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp"
)

// BenchmarkStream reads answers of 1 MiB: as they are, and through a Transport that reads their
// usage. What a Transport adds is the difference.
func BenchmarkStream(b *testing.B) {
	event := `{"id":"chatcmpl-123","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}],"usage":null}`
	answer := strings.Repeat("data: "+event+"\n\n", 1<<20/len(event)) + sse(`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}`, "[DONE]")
	base := canned{sseType, answer}
	transport := benchTransport(b, base)
	for _, c := range []struct {
		name, body string
		to         http.RoundTripper
	}{
		{"bare", streamBody, base},
		{"limited", streamBody, transport},
		{"usage taken out", `{"model":"m","max_tokens":50,"stream":true}`, transport},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(answer)))
			buf := make([]byte, 32<<10)
			for b.Loop() {
				res, err := c.to.RoundTrip(benchRequest(b, c.body))
				require.NoError(b, err)
				_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{res.Body}, buf)
				require.NoError(b, err)
				require.NoError(b, res.Body.Close())
			}
		})
	}
}

// BenchmarkFirstByte is a call with a small answer: by the guard alone, and through a Transport.
// first-µs is how long the first byte took; the rest of ns/op is its settlement.
func BenchmarkFirstByte(b *testing.B) {
	guard := benchGuard(b)
	base := canned{jsonType, `{"usage":{"prompt_tokens":30,"completion_tokens":50}}`} // what is held: nothing is given back
	transport, err := llmhttp.NewTransport(base, guard, &llmhttp.Options{Models: models})
	require.NoError(b, err)
	b.Run("guard", func(b *testing.B) {
		firstBytes(b, chatBody, func(r *http.Request) (*http.Response, func()) {
			call, err := guard.Start(r.Context(), llm.Request{Entity: "ana", Resource: "m", Estimate: llm.Estimate{InputTokens: 30, MaxOutputTokens: 50}})
			require.NoError(b, err)
			res, err := base.RoundTrip(r)
			require.NoError(b, err)
			return res, func() {
				require.NoError(b, call.SettleSoon(r.Context(), llm.Usage{Tokens: tokens{Input: 30, Output: 50}}))
			}
		})
	})
	for _, kib := range []int{0, 100} {
		body := strings.Replace(chatBody, "Tell", strings.Repeat("word ", kib<<10/5), 1)
		b.Run(fmt.Sprintf("transport, %d KiB", kib), func(b *testing.B) {
			firstBytes(b, body, func(r *http.Request) (*http.Response, func()) {
				res, err := transport.RoundTrip(r)
				require.NoError(b, err)
				return res, func() {}
			})
		})
	}
}

func firstBytes(b *testing.B, body string, send func(*http.Request) (*http.Response, func())) {
	b.Helper()
	var first time.Duration
	for b.Loop() {
		r, one, began := benchRequest(b, body), [1]byte{}, time.Now()
		res, settle := send(r)
		_, err := res.Body.Read(one[:])
		first += time.Since(began)
		require.NoError(b, err)
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(b, err)
		require.NoError(b, res.Body.Close())
		settle()
	}
	b.ReportMetric(float64(first.Nanoseconds())/1000/float64(b.N), "first-µs")
}

func benchGuard(b *testing.B) *llm.Guard {
	b.Helper()
	limiter := dynalimittest.New(b, dynalimit.PerSecond("rpm", 1_000_000_000), dynalimit.PerSecond("tpm", 1_000_000_000_000))
	guard, err := llm.New(&llm.Options{Limiter: limiter})
	require.NoError(b, err)
	return guard
}

func benchTransport(b *testing.B, base http.RoundTripper) http.RoundTripper {
	b.Helper()
	transport, err := llmhttp.NewTransport(base, benchGuard(b), &llmhttp.Options{Models: models})
	require.NoError(b, err)
	return transport
}

func benchRequest(b *testing.B, body string) *http.Request {
	b.Helper()
	ctx := llmhttp.WithCaller(b.Context(), llmhttp.Caller{Entity: "ana"})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://provider"+chatPath, bytes.NewReader([]byte(body)))
	require.NoError(b, err)
	return r
}
