package llmhttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp"
)

const geminiPath, conversePath = "/v1beta/models/m:generateContent", "/model/us.m:0/converse"

// shapes are how each provider tells a refusal with status 429.
var shapes = []struct {
	path, body string
	holds      string
}{
	{chatPath, chatBody, `"code":"rate_limit_exceeded"`},
	{claudePath, claudeBody, `"type":"rate_limit_error"`},
	{conversePath, `{"messages":[]}`, `{"message":"`},
	{geminiPath, `{"contents":[]}`, `"status":"RESOURCE_EXHAUSTED"`},
}

// TestDenialsHaveTheProvidersShape has a limit whose denial is left to the SDK's retry, and one whose is
// not. Clients that do not know X-Should-Retry are AWS's own SDKs.
func TestDenialsHaveTheProvidersShape(t *testing.T) {
	for again, limit := range map[bool]dynalimit.Limit{true: dynalimit.PerMinute("rpm", 12), false: dynalimit.PerMinute("rpm", 11)} { // free in 5 s, and in 5.5 s
		for _, c := range shapes {
			w := newWorld(t, llmhttp.Options{Headers: true}, replies(jsonType, "{}"), limit)
			w.limiter.Exhaust("ana", "m")
			res := w.do(c.path, c.body)
			defer res.Body.Close()
			status, name := 429, "ThrottlingException"
			if c.path == conversePath && !again {
				status, name = 400, "ServiceQuotaExceededException"
			}
			assert.Equal(t, status, res.StatusCode)
			assert.Equal(t, strconv.FormatBool(again), res.Header.Get("X-Should-Retry"))
			assert.Equal(t, "0", res.Header.Get("X-Ratelimit-Remaining"))
			assert.Equal(t, map[bool]string{true: "5", false: "6"}[again], res.Header.Get("Retry-After"), "rounded up")
			assert.NotEmpty(t, res.Header.Get("Retry-After-Ms"))
			if c.path == conversePath {
				assert.Equal(t, name, res.Header.Get("X-Amzn-Errortype"))
				assert.Equal(t, again, res.Header.Get("X-Amz-Retry-After") != "")
			}
			body := read(t, res)
			assert.Contains(t, body, c.holds)
			assert.Less(t, len(body), 500)
			denial, ok := llmhttp.Denial(res)
			require.True(t, ok)
			require.ErrorIs(t, denial, dynalimit.ErrLimitExceeded)
			for _, err := range []error{errors.New("an SDK's error: " + body), fmt.Errorf("asked: %w", silent(body))} {
				found, ok := llmhttp.DenialOf(err)
				assert.True(t, ok)
				assert.Equal(t, denial, found)
			}
			assert.Zero(t, w.arrived())
		}
	}
	_, ok := llmhttp.DenialOf(errors.New("dynalimit-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"))
	assert.False(t, ok)
}

// silent is an error that does not tell the answer it is of.
type silent string

func (silent) Error() string { return "429" }

func (s silent) RawJSON() string { return string(s) }

// TestWhoMayNotCall has a case for each status of a refusal.
func TestWhoMayNotCall(t *testing.T) {
	known := llmhttp.Caller{Entity: "ana", Models: []string{"m-*"}}
	for _, c := range []struct {
		name   string
		caller any
		body   string
		status int
	}{
		{"unknown", nil, chatBody, 401},
		{"refused by Identify", errors.New("who?"), chatBody, 401},
		{"not this model", known, chatBody, 403},
		{"no such model", known, `{"model":"invented"}`, 404},
		{"no model", known, `{}`, 404},
		{"a pattern", known, `{"model":"m-7"}`, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, llmhttp.Options{Identify: func(*http.Request) (llmhttp.Caller, error) {
				err, _ := c.caller.(error)
				caller, _ := c.caller.(llmhttp.Caller)
				return caller, err
			}}, replies(jsonType, "{}"))
			for _, shape := range shapes[:2] {
				status, _ := w.call(shape.path, c.body)
				assert.Equal(t, c.status, status)
			}
			if c.status != 200 {
				assert.Zero(t, w.arrived())
				assert.Empty(t, w.ends())
			}
		})
	}
}

// TestCallersWithoutARecord: the parent and the plan of a caller are charged, a parent without a record
// is refused, and so is a caller without one where it has to have one.
func TestCallersWithoutARecord(t *testing.T) {
	var caller llmhttp.Caller
	o := llmhttp.Options{Identify: func(*http.Request) (llmhttp.Caller, error) { return caller, nil }}
	w := newWorld(t, o, replies(jsonType, "{}"))
	a := admin.New(w.limiter.Repo)
	require.NoError(t, a.Entities.Create(t.Context(), admin.Entity{ID: "shop"}))
	require.NoError(t, a.Limits.Set(t.Context(), admin.Scope{Entity: "shop"}, []dynalimit.Limit{dynalimit.PerDay("rpm", 2)}))
	require.NoError(t, a.Limits.Set(t.Context(), admin.Scope{Plan: "free"}, []dynalimit.Limit{dynalimit.PerDay("rpm", 1), dynalimit.PerDay("tpm", 1_000_000)}))
	for _, c := range []struct {
		caller llmhttp.Caller
		status int
	}{
		{llmhttp.Caller{Entity: "ana", Parent: "shop", Plan: "free"}, 200},
		{llmhttp.Caller{Entity: "ana", Parent: "shop", Plan: "free"}, 429},
		{llmhttp.Caller{Entity: "ben", Parent: "shop"}, 200},
		{llmhttp.Caller{Entity: "cat", Parent: "shop"}, 429},
		{llmhttp.Caller{Entity: "cat", Parent: "invented"}, 403},
		{llmhttp.Caller{Entity: "cat"}, 200},
	} {
		caller = c.caller
		status, _ := w.call(chatPath, chatBody)
		assert.Equal(t, c.status, status, "%+v", c.caller)
	}
	refusing, err := dynalimit.New(w.limiter.Repo, &dynalimit.Options{Unrecorded: dynalimit.RefuseUnrecorded})
	require.NoError(t, err)
	defer refusing.Close(t.Context())
	guard, err := llm.New(&llm.Options{Limiter: refusing})
	require.NoError(t, err)
	o.Models = models
	transport, err := llmhttp.NewTransport(nil, guard, &o)
	require.NoError(t, err)
	caller = llmhttp.Caller{Entity: "dan"}
	res, err := transport.RoundTrip(w.request(t.Context(), chatPath, chatBody))
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	assert.Equal(t, http.StatusUnauthorized, res.StatusCode)
}

func TestABlockedCallerIsForbidden(t *testing.T) {
	w := newWorld(t, llmhttp.Options{}, replies(jsonType, "{}"))
	require.NoError(t, admin.New(w.limiter.Repo).Limits.SetBlocked(t.Context(), admin.Scope{Entity: "ana"}, true))
	status, _ := w.call(chatPath, chatBody)
	assert.Equal(t, 403, status)
}

// TestAStoreThatDoesNotAnswer: an SDK's retry would wait for a probe of the table, and fail.
func TestAStoreThatDoesNotAnswer(t *testing.T) {
	w := newWorld(t, llmhttp.Options{}, replies(jsonType, "{}"))
	defer w.limiter.FailStore()()
	for range 3 { // until the breaker is open, and knows when it asks again
		status, _ := w.call(chatPath, chatBody)
		require.Equal(t, 503, status)
	}
	for _, c := range shapes {
		res := w.do(c.path, c.body)
		assert.Equal(t, map[bool]int{false: 503, true: 400}[c.path == conversePath], res.StatusCode)
		assert.Equal(t, "false", res.Header.Get("X-Should-Retry"))
		assert.NotEmpty(t, res.Header.Get("Retry-After"))
		_, ok := llmhttp.Denial(res)
		assert.False(t, ok)
		away, ok := llmhttp.Unavailable(res)
		require.True(t, ok)
		again, ok := llmhttp.UnavailableOf(errors.New(read(t, res)))
		require.True(t, ok)
		assert.Equal(t, away, again)
		require.ErrorIs(t, away, dynalimit.ErrUnavailable)
		wait, ok := dynalimit.RetryAfter(away)
		assert.True(t, ok)
		assert.Positive(t, wait)
		require.NoError(t, res.Body.Close())
	}
	w = newWorld(t, llmhttp.Options{}, fails(503, jsonType, "{}"))
	res := w.do(chatPath, chatBody)
	_, ok := llmhttp.Unavailable(res)
	assert.False(t, ok, "it is the provider's")
	require.NoError(t, res.Body.Close())
}

// TestOtherWaysToWriteAPath have no way around the limits.
func TestOtherWaysToWriteAPath(t *testing.T) {
	w := newWorld(t, llmhttp.Options{}, replies(jsonType, "{}"))
	for i, path := range []string{
		chatPath + "/", "/v1/chat/completion%73", "//v1/chat//../chat/completions?x", "/v1/chat/./completions", "/v1beta/models/m%3AgenerateContent",
		"/OpenAI/Deployments/m/Chat/Completions", strings.Repeat("/%C8%BA", 17) + "/openai/deployments/m/chat/completions", // a letter that has more bytes in lower case
	} {
		status, _ := w.call(path, chatBody)
		assert.Equal(t, 200, status)
		assert.Len(t, w.ends(), i+1, path)
	}
}

// TestBodiesThatCannotBeRead are answered with 400 in the provider's shape, and take nothing.
func TestBodiesThatCannotBeRead(t *testing.T) {
	for name, body := range map[string]string{
		"truncated":       `{"model":"m","max_tokens":`,
		"nested":          `{"model":"m","x":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + "}",
		"twice":           `{"model":"m","max_tokens":1,"max_tokens":100000}`,
		"twice, escaped":  `{"model":"m","max_tokens":1,"max_t\u006fkens":100000}`,
		"two values":      `{"model":"m"}{}`,
		"invalid UTF-8":   "{\"model\":\"m\xff\"}",
		"a long model":    `{"model":"` + strings.Repeat("m", 10<<10) + `"}`,
		"a model of 1":    `{"model":1}`,
		"no model at all": ``,
		"negative":        `{"model":"m","max_tokens":-1}`,
		"a fraction":      `{"model":"m","max_tokens":1.5}`,
		"huge":            `{"model":"m","max_tokens":1e400}`,
		"above 2^53":      `{"model":"m","max_tokens":9007199254740993}`,
		"above all":       `{"model":"m","max_tokens":9007199254740991}`,
		"text":            `{"model":"m","max_tokens":"100"}`,
		"many replies":    `{"model":"m","n":1001}`,
		"stream of 1":     `{"model":"m","stream":1}`,
		"a list":          `[{"model":"m"}]`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, llmhttp.Options{}, replies(jsonType, "{}"))
			status, answer := w.call(chatPath, body)
			if name == "a list" {
				assert.Equal(t, 404, status)
			} else {
				assert.Equal(t, 400, status, answer)
			}
			assert.Contains(t, answer, `{"error":{`)
			assert.Zero(t, w.arrived())
			w.limiter.AssertTaken("ana", "m", nil)
		})
	}
}

func TestALongBodyIsRefused(t *testing.T) {
	w := newWorld(t, llmhttp.Options{MaxBody: 100}, replies(jsonType, "{}"))
	status, _ := w.call(chatPath, `{"model":"m","x":"`+strings.Repeat("x", 100)+`"}`)
	assert.Equal(t, 413, status)
	status, _ = w.call(chatPath, chatBody[:len(chatBody)-1]+strings.Repeat(" ", 100-len(chatBody))+"}")
	assert.Equal(t, 200, status)
	status, _ = w.call(chatPath, chatBody, "Content-Encoding", "gzip")
	assert.Equal(t, 415, status)
}

// TestWaitEndsBeforeTheDeadline has a call that waits until there is room, and one whose
// deadline comes before.
func TestWaitEndsBeforeTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, llmhttp.Options{Wait: time.Hour}, nil, dynalimit.PerMinute("rpm", 60))
		transport, err := llmhttp.NewTransport(canned{jsonType, `{"usage":{"prompt_tokens":1,"completion_tokens":1}}`}, w.guard, &llmhttp.Options{Models: models, Wait: time.Hour})
		require.NoError(t, err)
		w.limiter.Exhaust("ana", "m")
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
		defer cancel()
		res, err := transport.RoundTrip(w.request(ctx, chatPath, chatBody))
		require.NoError(t, err)
		assert.Equal(t, 429, res.StatusCode, "never a late error of the context")
		require.NoError(t, res.Body.Close())
		assert.Zero(t, time.Since(began), "at once, for its turn is too late")
		res, err = transport.RoundTrip(w.request(t.Context(), chatPath, chatBody))
		require.NoError(t, err)
		assert.Equal(t, 200, res.StatusCode)
		require.NoError(t, res.Body.Close())
		assert.Equal(t, time.Second, time.Since(began).Round(100*time.Millisecond))
	})
}

// TestARetryEndsBeforeTheDeadline: an SDK that waits until its context's deadline hides the denial.
func TestARetryEndsBeforeTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, llmhttp.Options{}, nil, dynalimit.PerMinute("rpm", 60)) // free in a second
		w.limiter.Exhaust("ana", "m")
		for deadline, again := range map[time.Duration]string{2 * time.Second: "true", time.Second: "false"} {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			res, err := w.transport.RoundTrip(w.request(ctx, chatPath, chatBody))
			require.NoError(t, err)
			assert.Equal(t, again, res.Header.Get("X-Should-Retry"))
			require.NoError(t, res.Body.Close())
			cancel()
		}
	})
}

// TestAnthropicsSDKOnBedrock knows a denial by its status, and an outage.
func TestAnthropicsSDKOnBedrock(t *testing.T) {
	for status, fails := range map[int]bool{429: false, 503: true} {
		w := newWorld(t, llmhttp.Options{}, nil, dynalimit.PerHour("rpm", 60))
		if fails {
			defer w.limiter.FailStore()()
		} else {
			w.limiter.Exhaust("ana", "m")
		}
		res, err := w.transport.RoundTrip(w.request(t.Context(), conversePath, "{}", "X-Stainless-Lang", "python"))
		require.NoError(t, err)
		assert.Equal(t, status, res.StatusCode)
		assert.Equal(t, "false", res.Header.Get("X-Should-Retry"))
		require.NoError(t, res.Body.Close())
	}
}

func TestOptionsAreChecked(t *testing.T) {
	w := newWorld(t, llmhttp.Options{}, nil)
	for field, o := range map[string]*llmhttp.Options{
		"options.Models":                 nil,
		`options.Models["m 0"].Resource`: {Models: llmhttp.Models{"m 0": {}}},
		`options.Models["m*"].Resource`:  {Models: llmhttp.Models{"m*": {}}},
		`options.Models["m"].MaxOutput`:  {Models: llmhttp.Models{"m": {MaxOutput: -1}}},
		"options.Unmetered":              {Models: models, Unmetered: -1},
		"options.MaxBody":                {Models: models, MaxBody: -1},
		"options.Wait":                   {Models: models, Wait: -1},
	} {
		_, err := llmhttp.NewTransport(nil, w.guard, o)
		wrong, ok := errors.AsType[*dynalimit.ValidationError](err)
		require.True(t, ok, field)
		assert.Equal(t, field, wrong.Field)
	}
	_, err := llmhttp.NewTransport(nil, nil, nil)
	require.ErrorContains(t, err, "guard")
}

// The requests of a batch leave the reserve of a limit to the others.
func TestBatchesLeaveTheReserve(t *testing.T) {
	w := newWorld(t, llmhttp.Options{}, replies(jsonType, "{}"), dynalimit.PerMinute("rpm", 5))
	answer := func(ctx context.Context) int {
		res, err := w.client.Do(w.request(ctx, chatPath, chatBody))
		require.NoError(t, err)
		defer res.Body.Close()
		_ = read(t, res)
		return res.StatusCode
	}
	for range 4 {
		assert.Equal(t, 200, answer(llmhttp.WithBatch(t.Context())))
	}
	assert.Equal(t, 429, answer(llmhttp.WithBatch(t.Context())))
	assert.Equal(t, 200, answer(t.Context()))
}
