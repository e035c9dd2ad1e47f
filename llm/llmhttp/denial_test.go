package llmhttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
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

func TestDenialsHaveTheProvidersShape(t *testing.T) {
	for _, c := range shapes {
		w := newWorld(t, llmhttp.Options{Headers: true}, replies(jsonType, "{}"))
		w.limiter.Exhaust("ana", "m")
		res := w.do(c.path, c.body)
		defer res.Body.Close()
		assert.Equal(t, 429, res.StatusCode)
		assert.Equal(t, "false", res.Header.Get("X-Should-Retry"))
		assert.Equal(t, "0", res.Header.Get("X-Ratelimit-Remaining"))
		assert.Equal(t, "1", res.Header.Get("Retry-After"), "rounded up")
		assert.NotEmpty(t, res.Header.Get("Retry-After-Ms"))
		if strings.HasPrefix(c.path, "/model") {
			assert.Equal(t, "ServiceQuotaExceededException", res.Header.Get("X-Amzn-Errortype"))
		}
		body := read(t, res)
		assert.Contains(t, body, c.holds)
		assert.NotContains(t, body, "ana", "entities are not told")
		denial, ok := llmhttp.Denial(res)
		require.True(t, ok)
		require.ErrorIs(t, denial, dynalimit.ErrLimitExceeded)
		again, ok := llmhttp.DenialOf(errors.New("an SDK's error: " + body))
		assert.True(t, ok)
		assert.Same(t, denial, again)
		again, ok = llmhttp.DenialOf(fmt.Errorf("asked: %w", silent(body)))
		assert.True(t, ok)
		assert.Same(t, denial, again)
		assert.Zero(t, w.arrived())
	}
	_, ok := llmhttp.DenialOf(errors.New("denial-AAAAAAAAAAAAAAAAAAAAAAAAAA"))
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

func TestABlockedCallerIsForbidden(t *testing.T) {
	w := newWorld(t, llmhttp.Options{}, replies(jsonType, "{}"))
	require.NoError(t, admin.New(w.limiter.Repo).Limits.SetBlocked(t.Context(), admin.Scope{Entity: "ana"}, true))
	status, _ := w.call(chatPath, chatBody)
	assert.Equal(t, 403, status)
}

func TestAStoreThatDoesNotAnswer(t *testing.T) {
	w := newWorld(t, llmhttp.Options{}, replies(jsonType, "{}"))
	defer w.limiter.FailStore()()
	for _, c := range shapes {
		res := w.do(c.path, c.body)
		assert.Equal(t, 503, res.StatusCode)
		assert.Equal(t, "true", res.Header.Get("X-Should-Retry"))
		assert.NotEmpty(t, res.Header.Get("Retry-After"))
		require.NoError(t, res.Body.Close())
	}
}

// TestOtherWaysToWriteAPath have no way around the limits.
func TestOtherWaysToWriteAPath(t *testing.T) {
	w := newWorld(t, llmhttp.Options{}, replies(jsonType, "{}"))
	for i, path := range []string{chatPath + "/", "/v1/chat/completion%73", "//v1/chat//../chat/completions?x", "/v1/chat/./completions", "/v1beta/models/m%3AgenerateContent"} {
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
