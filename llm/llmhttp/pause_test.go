package llmhttp_test

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/llm/llmhttp"
)

// elapse lets time pass in a bubble.
func elapse(d time.Duration) { <-time.After(d) }

func read(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(b)
}

// answers is a transport that gives one answer.
type answers struct {
	status int
	header http.Header
	canned
}

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := a.canned.RoundTrip(r)
	res.StatusCode = a.status
	for name, values := range a.header {
		res.Header[name] = values
	}
	return res, err
}

// TestAProviderThatSaysStop has a row for each way to say it. until is how long calls with the
// same credential and model are denied.
func TestAProviderThatSaysStop(t *testing.T) {
	for _, c := range []struct {
		name, path, request string
		answer              answers
		until               time.Duration
	}{
		{"Retry-After", chatPath, chatBody, answers{429, http.Header{"Retry-After": {"7"}}, canned{jsonType, "{}"}}, 7 * time.Second},
		{"milliseconds", chatPath, chatBody, answers{429, http.Header{"Retry-After-Ms": {"1500"}, "Retry-After": {"9"}}, canned{jsonType, "{}"}}, 1500 * time.Millisecond},
		{"a date", chatPath, chatBody, answers{429, http.Header{"Retry-After": {"Sat, 01 Jan 2000 00:00:05 GMT"}}, canned{jsonType, "{}"}}, 5 * time.Second},
		{"nothing more", chatPath, chatBody, answers{429, nil, canned{jsonType, "{}"}}, time.Second},
		{"too long", chatPath, chatBody, answers{429, http.Header{"Retry-After": {"600"}}, canned{jsonType, "{}"}}, 30 * time.Second},
		{"Gemini", geminiPath, "{}", answers{429, nil, canned{jsonType, `{"error":{"code":429,"details":[{"@type":"x","retryDelay":"11s"}]}}`}}, 11 * time.Second},
		{"overloaded", claudePath, claudeBody, answers{529, nil, canned{jsonType, "{}"}}, time.Second},
		{"overloaded in a stream", claudePath, claudeBody, answers{200, nil, canned{sseType, "event: error\n" + sse(`{"error":{"type":"overloaded_error"}}`)}}, time.Second},
		{"throttled in a stream", "/model/us.m:0/converse-stream", "{}", answers{200, nil, canned{awsType, frame("exception", "throttlingException", "{}")}}, time.Second},
		{"none left", chatPath, chatBody, answers{200, http.Header{"X-Ratelimit-Remaining-Tokens": {"0"}, "X-Ratelimit-Reset-Tokens": {"12s"}}, canned{jsonType, "{}"}}, 12 * time.Second},
		{"none left of Azure", chatPath, chatBody, answers{200, http.Header{"X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"3"}}, canned{jsonType, "{}"}}, 3 * time.Second},
		{"none left of Anthropic", claudePath, claudeBody, answers{200, http.Header{"Anthropic-Ratelimit-Input-Tokens-Remaining": {"0"}, "Anthropic-Ratelimit-Input-Tokens-Reset": {"2000-01-01T00:00:04Z"}}, canned{jsonType, "{}"}}, 4 * time.Second},
		{"an event: error", "/v1/responses", chatBody, answers{200, nil, canned{sseType, sse(`{"code":"rate_limit_exceeded","type":"error"}`)}}, time.Second},
		{"a program that the model wrote", "/v1/responses", chatBody, answers{200, nil, canned{sseType, sse(`{"type":"response.code_interpreter_call_code.done","code":"rate_limit_exceeded"}`)}}, 0},
		{"no money", chatPath, chatBody, answers{429, http.Header{"Retry-After": {"7"}}, canned{jsonType, `{"error":{"code":"insufficient_quota"}}`}}, 0},
		{"no money at Anthropic", claudePath, claudeBody, answers{429, nil, canned{jsonType, `{"error":{"type":"rate_limit_error","details":{"error_code":"enforced_spend_limit_reached"}}}`}}, 0},
		{"another failure", chatPath, chatBody, answers{500, http.Header{"Retry-After": {"7"}}, canned{jsonType, "{}"}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, llmhttp.Options{}, nil)
				transport, err := llmhttp.NewTransport(c.answer, w.guard, &llmhttp.Options{Models: models})
				require.NoError(t, err)
				call := func(header ...string) *http.Response {
					res, err := transport.RoundTrip(w.request(t.Context(), c.path, c.request, header...))
					require.NoError(t, err)
					_ = read(t, res)
					require.NoError(t, res.Body.Close())
					return res
				}
				denied := func(header ...string) bool {
					denial, ok := llmhttp.Denial(call(header...)) //nolint:bodyclose // call has
					if ok {
						require.ErrorIs(t, denial, dynalimit.ErrPaused)
					}
					return ok
				}
				require.False(t, denied())
				if c.until == 0 {
					assert.False(t, denied())
					return
				}
				elapse(c.until - time.Millisecond)
				assert.True(t, denied())
				assert.False(t, denied("Authorization", "Bearer another"), "whose credential is another's")
				elapse(2 * time.Millisecond)
				assert.False(t, denied())
			})
		})
	}
}

// TestAResetCountsFromTheHeaders has a stream that goes on while the provider's limit refills.
func TestAResetCountsFromTheHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, llmhttp.Options{}, nil)
		transport, err := llmhttp.NewTransport(answers{200, http.Header{"X-Ratelimit-Remaining-Tokens": {"0"}, "X-Ratelimit-Reset-Tokens": {"12s"}}, canned{sseType, sse("[DONE]")}},
			w.guard, &llmhttp.Options{Models: models})
		require.NoError(t, err)
		call := func(lasts time.Duration) (denied bool) {
			res, err := transport.RoundTrip(w.request(t.Context(), chatPath, chatBody))
			require.NoError(t, err)
			elapse(lasts)
			_ = read(t, res)
			require.NoError(t, res.Body.Close())
			_, denied = llmhttp.Denial(res)
			return denied
		}
		require.False(t, call(10*time.Second))
		assert.True(t, call(2*time.Second+time.Millisecond))
		assert.False(t, call(0))
	})
}

func TestAPoolIsPausedForAll(t *testing.T) {
	w := newWorld(t, llmhttp.Options{Pool: func(*http.Request) llmhttp.Pool { return llmhttp.Pool{Entity: "ana", Resource: "m"} }},
		fails(429, jsonType, "{}", "Retry-After", "7"))
	status, _ := w.call(chatPath, chatBody)
	require.Equal(t, 429, status)
	w.ends()
	_, err := w.limiter.Acquire(t.Context(), "ana", "m", dynalimit.Amounts{"rpm": 1})
	require.ErrorIs(t, err, dynalimit.ErrPaused)
	res := w.do(chatPath, chatBody)
	denial, ok := llmhttp.Denial(res)
	require.NoError(t, res.Body.Close())
	require.True(t, ok)
	require.ErrorIs(t, denial, dynalimit.ErrPaused)
	assert.Equal(t, 1, w.arrived())
}

// TestATransportIsClosedWhilePausesAreWritten is for the race detector.
func TestATransportIsClosedWhilePausesAreWritten(t *testing.T) {
	w := newWorld(t, llmhttp.Options{}, nil)
	transport, err := llmhttp.NewTransport(answers{429, nil, canned{jsonType, "{}"}}, w.guard, &llmhttp.Options{
		Models: models, Pool: func(*http.Request) llmhttp.Pool { return llmhttp.Pool{Entity: "pool", Resource: "m"} },
	})
	require.NoError(t, err)
	var closing sync.WaitGroup
	for range 20 {
		res, err := transport.RoundTrip(w.request(t.Context(), claudePath, claudeBody))
		require.NoError(t, err)
		_ = read(t, res)
		require.NoError(t, res.Body.Close())
		closing.Go(func() { assert.NoError(t, transport.Close(t.Context())) })
	}
	closing.Wait()
	require.NoError(t, transport.Close(t.Context()))
}

// leaves is a transport whose callers go away before they have the answer.
type leaves struct{ canned }

type leave struct{}

func (l leaves) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Context().Value(leave{}).(context.CancelFunc)()
	return l.canned.RoundTrip(r)
}

// TestATransportIsClosedWhileCallersLeave has both settle an answer that is being made.
func TestATransportIsClosedWhileCallersLeave(t *testing.T) {
	w := newWorld(t, llmhttp.Options{}, nil)
	require.NoError(t, admin.New(w.limiter.Repo).Limits.SetUnlimited(t.Context(), admin.Scope{Entity: "ana"})) // which is fast
	transport, err := llmhttp.NewTransport(leaves{canned{jsonType, ""}}, w.guard, &llmhttp.Options{Models: models})
	require.NoError(t, err)
	var closing sync.WaitGroup
	defer closing.Wait()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	for range 6 {
		closing.Go(func() {
			for ctx.Err() == nil {
				_ = transport.Close(ctx)
			}
		})
	}
	for range 20_000 {
		ctx, cancel := context.WithCancel(ctx)
		res, err := transport.RoundTrip(w.request(context.WithValue(ctx, leave{}, cancel), chatPath, chatBody))
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
	}
}
