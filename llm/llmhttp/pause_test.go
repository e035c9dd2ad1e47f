package llmhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/llm"
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
		{"none left", chatPath, chatBody, answers{200, http.Header{"X-Ratelimit-Limit-Requests": {"5"}, "X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"1m0s"}}, canned{jsonType, "{}"}}, 12 * time.Second},
		{"none left of Azure", chatPath, chatBody, answers{200, http.Header{"X-Ratelimit-Limit-Requests": {"1"}, "X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"3"}}, canned{jsonType, "{}"}}, 3 * time.Second},
		{"none left of Anthropic", claudePath, claudeBody, answers{200, http.Header{"Anthropic-Ratelimit-Requests-Limit": {"10"}, "Anthropic-Ratelimit-Requests-Remaining": {"0"}, "Anthropic-Ratelimit-Requests-Reset": {"2000-01-01T00:00:40Z"}}, canned{jsonType, "{}"}}, 4 * time.Second},
		{"none left of an unknown limit", chatPath, chatBody, answers{200, http.Header{"X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"3s"}}, canned{jsonType, "{}"}}, 0},
		{"none left of a limit, and refused", chatPath, chatBody, answers{429, http.Header{"X-Ratelimit-Limit-Requests": {"3"}, "X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"60s"}}, canned{jsonType, "{}"}}, 20 * time.Second},
		{"too large", chatPath, chatBody, answers{429, http.Header{"Retry-After": {"7"}}, canned{jsonType, `{"error":{"message":"Request too large for m on tokens per min (TPM): Limit 30000, Requested 40000.","type":"tokens","code":"rate_limit_exceeded"}}`}}, 0},
		{"too long for Anthropic", claudePath, claudeBody, answers{429, nil, canned{jsonType, `{"error":{"type":"rate_limit_error","message":"Extra usage is required for long context requests."}}`}}, 0},
		{"too large in a stream", "/v1/responses", chatBody, answers{200, nil, canned{sseType, sse(`{"type":"error","code":"rate_limit_exceeded","message":"Request too large for m"}`)}}, 0},
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
		transport, err := llmhttp.NewTransport(answers{200, http.Header{"X-Ratelimit-Limit-Requests": {"5"}, "X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"60s"}}, canned{sseType, sse("[DONE]")}},
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

// TestWhoWaitsForAPause has two entities that a provider refuses in turn, of one credential and model. all
// says whether a third one waits.
func TestWhoWaitsForAPause(t *testing.T) {
	told := http.Header{"Retry-After": {"1"}}
	empty := http.Header{"X-Ratelimit-Remaining-Tokens": {"0"}}
	for _, c := range []struct {
		name    string
		path    string
		answer  answers
		refused []string
		all     bool
	}{
		{"one entity, nobody says how long", chatPath, answers{429, nil, canned{jsonType, "{}"}}, []string{"ana"}, false},
		{"one entity twice", chatPath, answers{429, nil, canned{jsonType, "{}"}}, []string{"ana", "ana"}, false},
		{"two entities", chatPath, answers{429, nil, canned{jsonType, "{}"}}, []string{"ana", "bob"}, true},
		{"one entity, Retry-After", chatPath, answers{429, told, canned{jsonType, "{}"}}, []string{"ana"}, true},
		{"one entity, an empty limit", chatPath, answers{429, empty, canned{jsonType, "{}"}}, []string{"ana"}, true},
		{"one entity, overloaded", claudePath, answers{529, nil, canned{jsonType, "{}"}}, []string{"ana"}, true},
	} {
		for _, pool := range []bool{false, true} {
			t.Run(c.name+map[bool]string{true: ", a pool"}[pool], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, llmhttp.Options{}, nil)
					options := &llmhttp.Options{Models: models}
					if pool {
						options.Pool = func(*http.Request) llmhttp.Pool { return llmhttp.Pool{Entity: "pool", Resource: "m"} }
					}
					transport, err := llmhttp.NewTransport(c.answer, w.guard, options)
					require.NoError(t, err)
					paused := func(entity string) bool {
						body := map[string]string{chatPath: chatBody, claudePath: claudeBody}[c.path]
						ctx := llmhttp.WithCaller(t.Context(), llmhttp.Caller{Entity: entity})
						res, err := transport.RoundTrip(w.request(t.Context(), c.path, body).WithContext(ctx))
						require.NoError(t, err)
						_ = read(t, res)
						require.NoError(t, res.Body.Close())
						_, denied := llmhttp.Denial(res)
						return denied
					}
					for _, entity := range c.refused {
						paused(entity)
					}
					require.NoError(t, transport.Close(t.Context()))
					_, err = w.limiter.Acquire(t.Context(), "pool", "m", dynalimit.Amounts{"rpm": 1})
					assert.Equal(t, pool && c.all, errors.Is(err, dynalimit.ErrPaused))
					if !pool {
						assert.Equal(t, c.all, paused("eve"))
						assert.True(t, paused("ana"))
					}
					elapse(time.Second + time.Millisecond)
					assert.False(t, paused("ana"))
				})
			})
		}
	}
}

// TestAnSDKTriesAgainBehindAPause: a provider fails once and says no time. SDKs try again after half a
// second, which is within the pause, and go by X-Should-Retry and Retry-After-Ms.
func TestAnSDKTriesAgainBehindAPause(t *testing.T) {
	for path, status := range map[string]int{chatPath: 429, claudePath: 529} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, llmhttp.Options{}, nil)
			provider := &once{answers{status, nil, canned{jsonType, "{}"}}, 1}
			transport, err := llmhttp.NewTransport(provider, w.guard, &llmhttp.Options{Models: models})
			require.NoError(t, err)
			for try := range 3 {
				res, err := transport.RoundTrip(w.request(t.Context(), path, map[string]string{chatPath: chatBody, claudePath: claudeBody}[path]))
				require.NoError(t, err)
				_ = read(t, res)
				require.NoError(t, res.Body.Close())
				if try == 2 {
					assert.Equal(t, 200, res.StatusCode)
					return
				}
				wait := 500 * time.Millisecond
				if ms, err := strconv.Atoi(res.Header.Get("Retry-After-Ms")); err == nil {
					wait = time.Duration(ms) * time.Millisecond
				}
				assert.NotEqual(t, "false", res.Header.Get("X-Should-Retry"))
				elapse(wait)
			}
		})
	}
}

// once gives an answer so many times, and then a good one.
type once struct {
	answers
	left int
}

func (o *once) RoundTrip(r *http.Request) (*http.Response, error) {
	if o.left--; o.left >= 0 {
		return o.answers.RoundTrip(r)
	}
	return canned{jsonType, `{"usage":{"input_tokens":1,"output_tokens":1,"prompt_tokens":1,"completion_tokens":1}}`}.RoundTrip(r)
}

// refilling is a provider with 120 requests a minute that refill all the time. Its headers say when all
// are free again, as those of OpenAI do.
type refilling struct {
	level float64
	at    time.Time
}

func (p *refilling) RoundTrip(r *http.Request) (*http.Response, error) {
	now := time.Now()
	p.level = min(120, p.level+2*now.Sub(p.at).Seconds())
	p.at = now
	answer := answers{429, http.Header{"Retry-After-Ms": {"500"}}, canned{jsonType, `{}`}}
	if p.level >= 1 {
		p.level--
		answer = answers{200, http.Header{}, canned{jsonType, `{"usage":{"prompt_tokens":1,"completion_tokens":1}}`}}
	}
	answer.header.Set("X-Ratelimit-Limit-Requests", "120")
	answer.header.Set("X-Ratelimit-Remaining-Requests", strconv.Itoa(int(p.level)))
	answer.header.Set("X-Ratelimit-Reset-Requests", time.Duration((120-p.level)/2*float64(time.Second)).String())
	return answer.RoundTrip(r)
}

// TestAnEmptyLimitOfTheProviderRefillsAllTheTime: three calls a second for four minutes, where the
// provider has 120 and two a second.
func TestAnEmptyLimitOfTheProviderRefillsAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, llmhttp.Options{}, nil, dynalimit.PerMinute("rpm", 10_000), dynalimit.PerMinute("tpm", 10_000_000))
		transport, err := llmhttp.NewTransport(&refilling{120, time.Now()}, w.guard, &llmhttp.Options{Models: models})
		require.NoError(t, err)
		answered, last, gap := 0, time.Now(), time.Duration(0)
		for range 3 * 240 {
			res, err := transport.RoundTrip(w.request(t.Context(), chatPath, chatBody))
			require.NoError(t, err)
			_ = read(t, res)
			require.NoError(t, res.Body.Close())
			if res.StatusCode == http.StatusOK {
				gap, last = max(gap, time.Since(last)), time.Now()
				answered++
			}
			elapse(time.Second / 3)
		}
		assert.Less(t, gap, 2*time.Second)
		assert.GreaterOrEqual(t, answered, 9*600/10)
	})
}

// endsPauses is a limiter that does not return from a pause.
type endsPauses struct {
	llm.Limiter
	end func()
}

func (e endsPauses) Pause(context.Context, string, string, time.Duration, string) error {
	e.end()
	return nil
}

// A pool or a limiter that does not return, behind a caller who has left, ends neither the
// process nor the settlement of the call, nor hangs Close.
func TestPauseThatDoesNotReturnEndsNothingElse(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("boom") }, "Goexit": runtime.Goexit} {
		for place, poolEnds := range map[string]bool{"pool": true, "limiter": false} {
			t.Run(place+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, llmhttp.Options{}, nil)
					guard, err := llm.New(&llm.Options{Limiter: endsPauses{w.limiter, end}})
					require.NoError(t, err)
					var asked atomic.Int32
					transport, err := llmhttp.NewTransport(answers{429, http.Header{"Retry-After": {"7"}}, canned{jsonType, "{}"}}, guard, &llmhttp.Options{
						Models: models, Pool: func(*http.Request) llmhttp.Pool {
							if asked.Add(1); poolEnds {
								end()
							}
							return llmhttp.Pool{Entity: "pool", Resource: "m"}
						},
					})
					require.NoError(t, err)
					ctx, leave := context.WithCancel(t.Context())
					res, err := transport.RoundTrip(w.request(ctx, claudePath, claudeBody))
					require.NoError(t, err)
					leave()
					synctest.Wait()
					require.NoError(t, res.Body.Close())
					require.NoError(t, transport.Close(t.Context()))
					assert.EqualValues(t, 1, asked.Load())
					w.limiter.AssertTaken("ana", "m", nil)
				})
			})
		}
	}
}
