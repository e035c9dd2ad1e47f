// Package sdks tests llmhttp with the SDKs of the providers, and shows how each takes it. It is a
// module of its own, so that nobody else needs them.
package sdks

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/dynalimittest"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp"
	"github.com/dynalimit/dynalimit/llm/llmtest"
	"github.com/dynalimit/dynalimit/prices"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start")) // which Google's SDK starts
}

// world is a provider, and a client whose calls to it are limited: those of "ana" on "m".
type world struct {
	*testing.T
	provider  *llmtest.Provider
	limiter   *dynalimittest.Limiter
	transport *llmhttp.Transport
	client    *http.Client

	mu       sync.Mutex
	attempts int
	settled  []llm.Settled
}

// newWorld has a provider behind a transport; nil: in memory.
func newWorld(t *testing.T, o llmhttp.Options, base http.RoundTripper, limits ...dynalimit.Limit) *world {
	t.Helper()
	if limits == nil {
		limits = []dynalimit.Limit{dynalimit.PerMinute("rpm", 1_000), dynalimit.PerMinute("tpm", 1_000_000)}
	}
	w := &world{T: t, provider: llmtest.New(t), limiter: dynalimittest.New(t, limits...)}
	guard, err := llm.New(&llm.Options{Limiter: w.limiter, OnSettled: func(s llm.Settled) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.settled = append(w.settled, s)
	}})
	require.NoError(t, err)
	if base == nil {
		base = w.provider.Transport()
	}
	o.Models = llmhttp.Models{model: {}, profile: {Resource: model}, claudeOnBedrock: {Resource: model}}
	w.transport, err = llmhttp.NewTransport(base, guard, &o)
	require.NoError(t, err)
	w.client = &http.Client{Transport: w}
	t.Cleanup(func() {
		require.NoError(t, w.transport.Close(context.WithoutCancel(t.Context())))
		w.client.CloseIdleConnections()
	})
	return w
}

// RoundTrip counts the attempts of an SDK.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.attempts++
	w.mu.Unlock()
	return w.transport.RoundTrip(r)
}

// CloseIdleConnections closes those of the transport below.
func (w *world) CloseIdleConnections() { w.transport.CloseIdleConnections() }

// call makes one call of an SDK.
func (w *world) call(ctx context.Context, s sdk) (reply string, err error) {
	return s.call(caller(ctx), w.client, "http://provider")
}

func caller(ctx context.Context) context.Context {
	return llmhttp.WithCaller(ctx, llmhttp.Caller{Entity: "ana"})
}

// ends waits for all settlements, and returns them.
func (w *world) ends() []llm.Settled {
	w.Helper()
	require.NoError(w, w.transport.Close(w.Context()))
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.settled
}

// end is the settlement of the one call.
func (w *world) end() llm.Settled {
	w.Helper()
	all := w.ends()
	require.Len(w, all, 1)
	return all[0]
}

// assertTaken says that the counters have so many requests and what was settled.
func (w *world) assertTaken(requests int64) {
	w.Helper()
	var tokens int64
	for _, s := range w.ends() {
		require.NoError(w, s.Err)
		tokens += sum(s.Tokens)
	}
	w.limiter.AssertTaken("ana", model, dynalimit.Amounts{"rpm": requests, "tpm": tokens})
}

func sum(t prices.Tokens) int64 {
	return t.Input + t.CacheRead + t.CacheWrite5m + t.CacheWrite1h + t.Output
}

// billed is a usage of the provider as it is settled.
func billed(u llmtest.Usage) prices.Tokens {
	return prices.Tokens{Input: u.Input, CacheRead: u.CacheRead, CacheWrite5m: u.CacheWrite, CacheWrite1h: u.CacheWrite1h, Output: u.Output}
}

// eachSDK runs a test with each form of call of which that is true, in a bubble.
func eachSDK(t *testing.T, o llmhttp.Options, which func(sdk) bool, test func(w *world, s sdk), limits ...dynalimit.Limit) {
	t.Helper()
	for _, s := range sdks {
		if !which(s) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(newWorld(t, o, nil, limits...), s) })
		})
	}
}

func every(sdk) bool { return true }
