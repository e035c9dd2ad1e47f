package llmhttp_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/llm/llmhttp"
)

// TestSlotEndsWithTheBody: a call holds its slot while its answer is read, and gives it back however it ends.
func TestSlotEndsWithTheBody(t *testing.T) {
	slot := dynalimit.Amounts{"inflight": 1}
	for name, test := range map[string]struct {
		silent bool // the provider does not answer
		end    func(cancel func(), res *http.Response, provider chan struct{})
	}{
		"read to its end": {end: func(_ func(), res *http.Response, provider chan struct{}) {
			close(provider)
			_, _ = io.Copy(io.Discard, res.Body)
		}},
		"closed":           {end: func(_ func(), res *http.Response, _ chan struct{}) { _ = res.Body.Close() }},
		"a client's end":   {end: func(cancel func(), _ *http.Response, _ chan struct{}) { cancel() }},
		"a time-out":       {silent: true, end: func(cancel func(), _ *http.Response, _ chan struct{}) { cancel() }},
		"no answer at all": {silent: true, end: func(_ func(), _ *http.Response, provider chan struct{}) { close(provider) }},
	} {
		t.Run(name, func(t *testing.T) {
			arrived, provider := make(chan struct{}), make(chan struct{})
			w := newWorld(t, llmhttp.Options{}, func(rw http.ResponseWriter, r *http.Request) {
				if !test.silent {
					rw.Header().Set("Content-Type", sseType)
					_ = http.NewResponseController(rw).Flush()
				}
				close(arrived)
				select {
				case <-provider:
				case <-r.Context().Done():
				}
				if test.silent {
					panic(http.ErrAbortHandler)
				}
			}, dynalimit.Concurrent("inflight", 1, time.Minute))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			answered := make(chan *http.Response, 1)
			go func() {
				res, _ := w.client.Do(w.request(ctx, chatPath, streamBody)) //nolint:bodyclose // the test closes it
				answered <- res
			}()
			<-arrived
			_, err := w.limiter.Acquire(t.Context(), "ana", "m", slot)
			require.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
			var res *http.Response
			if test.silent {
				test.end(cancel, nil, provider)
				res = <-answered
			} else {
				res = <-answered
				test.end(cancel, res, provider)
			}
			if res != nil {
				defer res.Body.Close()
			}
			assert.Len(t, w.ends(), 1) // waits for the settlement
			lease, err := w.limiter.Acquire(t.Context(), "ana", "m", slot)
			require.NoError(t, err)
			require.NoError(t, lease.Rollback(t.Context()))
		})
	}
}
