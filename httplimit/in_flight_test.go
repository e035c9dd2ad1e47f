package httplimit_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
)

// A slot ends with the handler, also with one that panics. Nobody knows when a call ends, so no field shows a
// reset.
func TestSlotEndsWithTheHandler(t *testing.T) {
	w := newWorld(t, dynalimit.Concurrent("inflight", 1, time.Minute))
	o := byUser
	o.Draft, o.Amounts = true, func(*http.Request) dynalimit.Amounts { return dynalimit.Amounts{"inflight": 1} }
	second := w.handler(ok, o)
	first := w.handler(func(rw http.ResponseWriter, r *http.Request) {
		denied := ask(second, "ana")
		assert.Equal(t, 429, denied.Code)
		assert.Equal(t, "1", denied.Header().Get("Retry-After"))
		assert.Equal(t, `"inflight";q=1`, denied.Header().Get("RateLimit-Policy"))
		assert.Equal(t, `"inflight";r=0`, denied.Header().Get("RateLimit"))
		assert.Equal(t, "0", denied.Header().Get("X-RateLimit-Remaining"))
		assert.Empty(t, denied.Header().Get("X-RateLimit-Reset"))
		if r.Header.Get("User") == "ana" {
			panic(http.ErrAbortHandler)
		}
	}, o)
	require.Panics(t, func() { ask(first, "ana") })
	for range 2 {
		assert.Equal(t, 200, ask(second, "ana").Code)
	}
}
