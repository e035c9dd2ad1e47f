package llmhttp_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/dynalimittest"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp"
)

// bank is a transport whose calls are limited in money, a million dollars a day of "ana" on "m".
type bank struct {
	*world
	limiter *dynalimittest.Limiter
	settled llm.Settled // the last call
	passed  int         // how many requests the provider has seen
	answer  http.RoundTripper
}

func newBank(t *testing.T, prices llm.Prices, o llmhttp.Options, answer http.RoundTripper) *bank {
	t.Helper()
	usd := dynalimit.DailyMoney("usd", 1_000_000_000_000, "UTC")
	usd.PerModel = true
	b := &bank{limiter: dynalimittest.New(t, usd), answer: answer}
	guard, err := llm.New(&llm.Options{
		Limiter: b.limiter, Limits: map[string]llm.Measure{"usd": llm.Cost(prices)}, OnSettled: func(s llm.Settled) { b.settled = s },
	})
	require.NoError(t, err)
	if o.Models == nil {
		o.Models = models
	}
	transport, err := llmhttp.NewTransport(b, guard, &o)
	require.NoError(t, err)
	b.world = &world{T: t, url: "http://provider", guard: guard, transport: transport, client: &http.Client{Transport: transport}}
	return b
}

// RoundTrip is the provider's.
func (b *bank) RoundTrip(r *http.Request) (*http.Response, error) {
	b.passed++
	return b.answer.RoundTrip(r)
}

// pay makes a call, and returns what was charged, in micro-dollars.
func (b *bank) pay(path, body string, header ...string) (status int, micros int64) {
	b.Helper()
	b.settled = llm.Settled{}
	status, _ = b.call(path, body, header...)
	require.NoError(b, b.transport.Close(b.Context()))
	return status, b.settled.CostMicros
}

// holding answers with an empty value once it has looked at what is held.
type holding struct {
	*bank
	held int64
}

func (h *holding) RoundTrip(r *http.Request) (*http.Response, error) {
	h.held = h.limiter.Taken("ana", "m")["usd"]
	return canned{jsonType, "{}"}.RoundTrip(r)
}

// heldFor is how much money is held for a request, in micro-dollars.
func heldFor(t *testing.T, prices llm.Prices, o llmhttp.Options, path, body string) int64 {
	t.Helper()
	h := &holding{}
	h.bank = newBank(t, prices, o, h)
	status, answer := h.call(path, body)
	require.Equal(t, 200, status, answer)
	return h.held
}
