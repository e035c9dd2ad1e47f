package llmhttp_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/llm/llmhttp"
)

// TestAnOpenStreamHoldsNoPrompt: a gateway has thousands of streams open, and long prompts.
func TestAnOpenStreamHoldsNoPrompt(t *testing.T) {
	w := newWorld(t, llmhttp.Options{}, nil, dynalimit.PerMinute("tpm", 1_000_000_000))
	transport, err := llmhttp.NewTransport(canned{sseType, sse("[DONE]")}, w.guard, &llmhttp.Options{Models: models})
	require.NoError(t, err)
	live := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) //nolint:gosec // fits
	}
	body := strings.Replace(chatBody, "{", `{"stream":true,"user":"`+strings.Repeat("x", 1<<20)+`",`, 1)
	var open [8]*http.Response
	before := live()
	for i := range open {
		r := w.request(t.Context(), chatPath, body)
		r.GetBody = nil                       // as a server's
		open[i], err = transport.RoundTrip(r) //nolint:bodyclose // below
		require.NoError(t, err)
		require.Equal(t, 200, open[i].StatusCode)
	}
	assert.Less(t, live()-before, int64(1<<20))
	for _, res := range open {
		require.NoError(t, res.Body.Close())
	}
}
