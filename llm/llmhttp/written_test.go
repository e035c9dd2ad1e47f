package llmhttp_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp"
)

// TestARequestThatMayHaveRunIsSentOnce: the provider takes a request from a kept connection, and breaks it.
// net/http sends a POST with an idempotency key again, of one lease. Without one it does not.
func TestARequestThatMayHaveRunIsSentOnce(t *testing.T) {
	for _, key := range []string{"", "Idempotency-Key", "X-Idempotency-Key"} {
		t.Run(key, func(t *testing.T) {
			breaks := false
			w := newWorld(t, llmhttp.Options{}, func(rw http.ResponseWriter, r *http.Request) {
				if breaks {
					panic(http.ErrAbortHandler)
				}
				breaks = true
				replies(jsonType, `{"usage":{"prompt_tokens":1000,"completion_tokens":10}}`)(rw, r)
			})
			status, _ := w.call(chatPath, chatBody)
			require.Equal(t, 200, status)
			r := w.request(t.Context(), chatPath, chatBody)
			if key != "" {
				r.Header.Set(key, "k-1")
			}
			res, err := w.client.Do(r)
			if err == nil {
				require.NoError(t, res.Body.Close())
			}
			require.Error(t, err)
			assert.Equal(t, 2, w.arrived())
			assert.Equal(t, r.Header.Get(key), w.headers[1].Get(key), "the provider has the key all the same")
			ends := w.ends()
			require.Len(t, ends, 2)
			assert.Equal(t, llm.StatusError, ends[1].Status)
			assert.Equal(t, ends[1].Request.Estimate.InputTokens, ends[1].Tokens.Input, "it may be billed")
		})
	}
}
