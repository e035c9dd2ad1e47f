package budgetclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/credentials"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/prices"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A guard takes a client for a keeper.
var _ llm.Keeper = (*Client)(nil)

const (
	org    = "550e8400-e29b-41d4-a716-446655440000"
	app    = "app-batch"
	secret = "the-secret-of-the-client"
)

// fake is a keeper's API in memory.
type fake struct {
	mu     sync.Mutex
	sent   []string
	bodies []string
	logins int
	answer func(r *http.Request, body []byte) (*http.Response, error) // nil or a nil response: as a keeper would
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body.Close()
	}
	f.mu.Lock()
	f.sent, f.bodies = append(f.sent, r.Method+" "+r.URL.Path), append(f.bodies, string(body))
	answer := f.answer
	f.mu.Unlock()
	if answer != nil {
		if res, err := answer(r, body); res != nil || err != nil {
			return res, err
		}
	}
	return f.keeper(r, body)
}

func (f *fake) keeper(r *http.Request, body []byte) (*http.Response, error) {
	var in map[string]any
	_ = json.Unmarshal(body, &in)
	switch path := r.URL.Path; {
	case path == api+"/auth/token", path == api+"/auth/refresh":
		f.mu.Lock()
		f.logins++
		n := f.logins
		f.mu.Unlock()
		return reply(200, fmt.Sprintf(`{"access_token":"token-%d","expires_in":3600,"refresh_token":"refresh-%d","refresh_expires_in":604800}`, n, n)), nil
	case strings.HasSuffix(path, "/model-selection"):
		res := reply(200, fmt.Sprintf(`{"org_id":%q,"app_id":%q,"day":"20000101","recommended_model":{"label":"premium","model_id":"m","price":{"input_usd_micros_per_1m":3000000,"output_usd_micros_per_1m":15000000}},"mode":"NORMAL","reason":"WITHIN_QUOTA","quota_status":[{"label":"premium","model_id":"m"},{"label":"standard","model_id":"s"}],"reset_at":"2000-01-01T06:00:00Z"}`, org, app))
		res.Header.Set("Cache-Control", "private, max-age=300")
		return res, nil
	case strings.HasSuffix(path, "/usage"), strings.HasSuffix(path, "/settle"):
		return reply(202, fmt.Sprintf(`{"request_id":%q,"status":"accepted","model_label":"premium","cost_usd_micros":7,"recommended_label":"premium"}`, in["request_id"])), nil
	case strings.HasSuffix(path, "/holds"):
		return reply(200, fmt.Sprintf(`{"hold_id":%q,"model_label":%q,"model_id":"m","holds":"money","expires_at":"2000-01-01T00:01:00Z"}`, in["hold_id"], in["model_label"])), nil
	case strings.HasSuffix(path, "/release"):
		return reply(204, ""), nil
	}
	return refuse(404, "NOT_FOUND", "there is no such route"), nil
}

func reply(status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
	}
}

func refuse(status int, code, message string) *http.Response {
	return reply(status, fmt.Sprintf(`{"error":%q,"message":%q,"details":{},"timestamp":"2000-01-01T00:00:00Z","request_id":"r1"}`, code, message))
}

// html is what a proxy answers.
func html(status int) *http.Response {
	res := reply(status, "<html>Bad Gateway</html>")
	res.Header.Set("Content-Type", "text/html")
	return res
}

// elapse lets time pass, in a bubble.
func elapse(d time.Duration) { <-time.After(d) }

// first gives other answers to the first requests of a path's end.
func (f *fake) first(end string, answers ...func() (*http.Response, error)) *fake {
	var mu sync.Mutex
	n := 0
	f.answer = func(r *http.Request, _ []byte) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		if !strings.HasSuffix(r.URL.Path, end) || n >= len(answers) {
			return nil, nil
		}
		n++
		return answers[n-1]()
	}
	return f
}

func (f *fake) count(end string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sent {
		if strings.HasSuffix(s, end) {
			n++
		}
	}
	return n
}

func newClient(t *testing.T, f *fake, adapt ...func(*Options)) *Client {
	t.Helper()
	o := &Options{BaseURL: "https://keeper.example.com/", ClientID: "org-x", Secret: credentials.NewSecret(secret), HTTPClient: &http.Client{Transport: f}}
	for _, a := range adapt {
		a(o)
	}
	c, err := New(o)
	require.NoError(t, err)
	return c
}

func usage() prices.Usage {
	return prices.Usage{RequestID: "00000000-0000-4000-8000-000000000001", Label: "premium", Tokens: prices.Tokens{Input: 1}}
}

func TestOptionsThatCannotBe(t *testing.T) {
	for field, adapt := range map[string]func(*Options){
		"options.ClientID":             func(o *Options) { o.ClientID = "" },
		"options.Secret":               func(o *Options) { o.Secret = credentials.Secret{} },
		"options.Timeout":              func(o *Options) { o.Timeout = -1 },
		"options.Retries":              func(o *Options) { o.Retries = 11 },
		"options.OnUnavailable.Submit": func(o *Options) { o.OnUnavailable.Submit = budget.Allow },
	} {
		o := &Options{BaseURL: "https://keeper.example.com", ClientID: "org-x", Secret: credentials.NewSecret(secret)}
		adapt(o)
		_, err := New(o)
		var bad *fault.ValidationError
		require.ErrorAs(t, err, &bad, field)
		assert.Equal(t, field, bad.Field)
	}
	for url, good := range map[string]bool{
		"https://keeper.example.com/budget": true, "http://localhost:8080": true, "http://127.0.0.1:1": true, "http://[::1]:1/x": true,
		"": false, "keeper": false, "http://keeper.example.com": false, "http://127.0.0.1.example.com": false, "ftp://localhost": false,
		"https://u:" + secret + "@keeper.example.com": false, "https://keeper.example.com?x=1": false, "https://k\x00/" + secret: false,
	} {
		_, err := New(&Options{BaseURL: url, ClientID: "org-x", Secret: credentials.NewSecret(secret)})
		assert.Equal(t, good, err == nil, url)
		if err != nil {
			assert.NotContains(t, err.Error(), secret)
		}
	}
	_, err := New(nil)
	require.Error(t, err)
	_, err = new(Client).Recommend(t.Context(), org, app)
	require.Error(t, err)
}

// What would lead to another path is not sent.
func TestIDsThatAreNoPathAreNotSent(t *testing.T) {
	f := &fake{}
	c := newClient(t, f)
	ctx := t.Context()
	for _, ids := range [][2]string{{"..", app}, {org, ".."}, {org, "a/b"}, {org, ""}, {org, "a?b"}, {strings.ToUpper(org), app}} {
		var bad *fault.ValidationError
		_, err := c.Recommend(ctx, ids[0], ids[1])
		require.ErrorAs(t, err, &bad)
		_, err = c.Submit(ctx, ids[0], ids[1], usage())
		require.ErrorAs(t, err, &bad)
	}
	_, err := c.Totals(ctx, org, "", "../today")
	require.Error(t, err)
	assert.Empty(t, f.sent)
}

// Whatever lies between, the same request is sent until it is answered.
func TestRecordsAreSentAgain(t *testing.T) {
	cut := func() (*http.Response, error) {
		res := reply(202, "")
		res.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"request_id":"0000`), iotestError{}))
		return res, nil
	}
	for name, answer := range map[string]func() (*http.Response, error){
		"lost":                      func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
		"cut":                       cut,
		"half":                      func() (*http.Response, error) { return reply(202, `{"request_id":"0000`), nil },
		"html":                      func() (*http.Response, error) { return html(200), nil },
		"html 502":                  func() (*http.Response, error) { return html(502), nil },
		"html 429":                  func() (*http.Response, error) { return html(429), nil },
		"redirect":                  func() (*http.Response, error) { return html(302), nil },
		"503":                       func() (*http.Response, error) { return refuse(503, "SERVICE_UNAVAILABLE", "x"), nil },
		"500":                       func() (*http.Response, error) { return refuse(500, "INTERNAL_ERROR", "x"), nil },
		"429":                       func() (*http.Response, error) { return refuse(429, "RATE_LIMIT_EXCEEDED", "x"), nil },
		"another's":                 func() (*http.Response, error) { return reply(202, `{"request_id":"x","status":"accepted"}`), nil },
		"an empty object":           func() (*http.Response, error) { return reply(202, `{}`), nil },
		"JSON that says it is text": func() (*http.Response, error) { res := html(202); return res, nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := (&fake{}).first("/usage", answer, answer)
				c := newClient(t, f)
				receipt, err := c.Submit(t.Context(), org, app, usage())
				require.NoError(t, err)
				assert.Equal(t, int64(7), receipt.CostMicros)
				assert.Equal(t, 3, f.count("/usage"))
				assert.Equal(t, 1, f.count("/auth/token"))
				assert.Equal(t, f.bodies[1], f.bodies[2])
				assert.Equal(t, f.bodies[1], f.bodies[3])

				f = &fake{answer: func(r *http.Request, _ []byte) (*http.Response, error) {
					if strings.HasSuffix(r.URL.Path, "/usage") {
						return answer()
					}
					return nil, nil
				}}
				_, err = newClient(t, f).Submit(t.Context(), org, app, usage())
				var down *fault.UnavailableError
				require.ErrorAs(t, err, &down)
				assert.Equal(t, 4, f.count("/usage"))
				assert.Equal(t, name != "429", down.Unconfirmed)
			})
		})
	}
}

type iotestError struct{}

func (iotestError) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// A refusal is an answer.
func TestRefusalsAreNotSentAgain(t *testing.T) {
	for _, test := range []struct {
		status int
		code   string
		want   error
	}{
		{409, "IDEMPOTENCY_CONFLICT", budget.ErrConflict},
		{404, "NOT_FOUND", budget.ErrNotFound},
		{429, "QUOTA_EXCEEDED", prices.ErrQuotaExceeded},
		{403, "FORBIDDEN", ErrForbidden},
		{413, "PAYLOAD_TOO_LARGE", nil},
		{400, "INVALID_MODEL_LABEL", nil},
	} {
		f := &fake{answer: func(r *http.Request, _ []byte) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/usage") {
				return refuse(test.status, test.code, "why"), nil
			}
			return nil, nil
		}}
		_, err := newClient(t, f).Submit(t.Context(), org, app, usage())
		require.Error(t, err)
		if test.want != nil {
			require.ErrorIs(t, err, test.want)
		}
		require.NotErrorIs(t, err, fault.ErrUnavailable)
		assert.Equal(t, 1, f.count("/usage"), test.code)
	}
}

// The keeper says when to come back; a caller that cannot wait so long is told at once.
func TestRetryAfterIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		later := func() (*http.Response, error) {
			res := refuse(503, "SERVICE_UNAVAILABLE", "x")
			res.Header.Set("Retry-After", "8")
			return res, nil
		}
		c := newClient(t, (&fake{}).first("/usage", later))
		began := time.Now()
		_, err := c.Submit(t.Context(), org, app, usage())
		require.NoError(t, err)
		assert.GreaterOrEqual(t, time.Since(began), 8*time.Second)

		c = newClient(t, (&fake{}).first("/usage", later))
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		began = time.Now()
		_, err = c.Submit(ctx, org, app, usage())
		require.ErrorIs(t, err, fault.ErrUnavailable)
		wait, ok := dynalimit.RetryAfter(err)
		assert.True(t, ok)
		assert.Equal(t, 8*time.Second, wait)
		assert.Zero(t, time.Since(began))
	})
}

// slow answers nothing until the request ends.
func (f *fake) slow(end string) *fake {
	f.answer = func(r *http.Request, _ []byte) (*http.Response, error) {
		if !strings.HasSuffix(r.URL.Path, end) {
			return nil, nil
		}
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return f
}

func TestSlowAnswersAreNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := (&fake{}).slow("/usage")
		c := newClient(t, f, func(o *Options) { o.Timeout = time.Second })
		_, err := c.Submit(t.Context(), org, app, usage())
		require.ErrorIs(t, err, fault.ErrUnavailable)
		assert.Equal(t, 4, f.count("/usage"))

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(500*time.Millisecond, cancel)
		began := time.Now()
		_, err = c.Submit(ctx, org, app, usage())
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, fault.ErrUnavailable)
		assert.Equal(t, 500*time.Millisecond, time.Since(began))
		sent := f.count("/usage")
		_, err = c.Submit(ctx, org, app, usage())
		var down *fault.UnavailableError
		require.ErrorAs(t, err, &down)
		assert.False(t, down.Unconfirmed, "it was not sent")
		assert.Equal(t, sent, f.count("/usage"))
	})
}

// A token that is refused leads to one login, and a login that is refused to none for a while.
func TestRefusedTokensAndLoginsAreNoLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: func(r *http.Request, _ []byte) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/usage") {
				return refuse(401, "UNAUTHORIZED", "no"), nil
			}
			return nil, nil
		}}
		_, err := newClient(t, f).Submit(t.Context(), org, app, usage())
		require.ErrorIs(t, err, ErrUnauthorized)
		assert.Equal(t, []int{2, 2}, []int{f.count("/auth/token"), f.count("/usage")})

		f = &fake{answer: func(*http.Request, []byte) (*http.Response, error) {
			return refuse(401, "UNAUTHORIZED", "the secret "+secret+" is wrong"), nil
		}}
		c := newClient(t, f)
		for range 5 {
			_, err = c.Submit(t.Context(), org, app, usage())
			require.ErrorIs(t, err, ErrUnauthorized)
			assert.NotContains(t, err.Error(), secret)
		}
		assert.Equal(t, 1, f.count("/auth/token"))
		elapse(pauseAfterRefusal)
		_, err = c.Submit(t.Context(), org, app, usage())
		require.ErrorIs(t, err, ErrUnauthorized)
		assert.Equal(t, 2, f.count("/auth/token"))
	})
}

// One of many renews a token, before it expires; while that fails the old one is used.
func TestTokensAreRenewedBeforeTheyExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := newClient(t, f)
		submit := func() {
			t.Helper()
			var group sync.WaitGroup
			for range 20 {
				group.Go(func() {
					_, err := c.Submit(t.Context(), org, app, usage())
					assert.NoError(t, err)
				})
			}
			group.Wait()
		}
		submit()
		assert.Equal(t, 1, f.logins)
		elapse(55 * time.Minute)
		f.first("/auth/refresh", func() (*http.Response, error) { return html(502), nil })
		began := time.Now()
		submit()
		assert.Zero(t, time.Since(began), "nobody waits: the old one is good")
		assert.Equal(t, []int{1, 1}, []int{f.logins, f.count("/auth/refresh")})
		elapse(6 * time.Second)
		submit()
		assert.Equal(t, []int{2, 2}, []int{f.logins, f.count("/auth/refresh")})
		f.first("/auth/refresh", func() (*http.Response, error) { return refuse(401, "UNAUTHORIZED", ""), nil })
		elapse(2 * time.Hour)
		submit()
		assert.Equal(t, []int{3, 3}, []int{f.logins, f.count("/auth/refresh")})
		assert.Equal(t, 2, f.count("/auth/token"), "a refresh that is refused leads to a login")
	})
}

// A proxy in the place of the keeper may ask for any wait: logins are tried again after a
// minute.
func TestLoginsArePausedForAMinuteAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := (&fake{}).first("/auth/token", func() (*http.Response, error) {
			res := html(503)
			res.Header.Set("Retry-After", "86400")
			return res, nil
		})
		c := newClient(t, f)
		_, err := c.Submit(t.Context(), org, app, usage())
		require.ErrorIs(t, err, fault.ErrUnavailable)
		elapse(59 * time.Second)
		_, err = c.Submit(t.Context(), org, app, usage())
		require.ErrorIs(t, err, fault.ErrUnavailable)
		assert.Equal(t, 1, f.count("/auth/token"), "it is asked to wait")
		elapse(time.Second)
		_, err = c.Submit(t.Context(), org, app, usage())
		require.NoError(t, err)
	})
}

// The secret and tokens are in nothing that is printed, logged or returned.
func TestSecretsAreNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f := &fake{answer: func(r *http.Request, body []byte) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/auth/token") {
				return reply(200, `{"access_token":`+string(body)), nil // a proxy that echoes
			}
			return nil, nil
		}}
		c := newClient(t, f, func(o *Options) {
			o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		_, err := c.Submit(t.Context(), org, app, usage())
		var lost *fault.UnavailableError
		require.ErrorAs(t, err, &lost)
		assert.False(t, lost.Unconfirmed, "the record was not sent")
		f.answer = nil
		_, again := c.Submit(t.Context(), org, app, usage())
		require.NoError(t, again)
		shown := fmt.Sprintf("%v %+v %#v %s %v %+v %s", c, c, c, c, err, c.opts.Secret, log.String())
		assert.NotContains(t, shown, secret)
		assert.NotContains(t, shown, "token-1")
		assert.Contains(t, log.String(), "login")
	})
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: func(*http.Request, []byte) (*http.Response, error) {
			res := html(307)
			res.Header.Set("Location", "https://elsewhere.example.com/")
			return res, nil
		}}
		_, err := newClient(t, f, func(o *Options) { o.Retries = -1 }).Submit(t.Context(), org, app, usage())
		require.ErrorIs(t, err, fault.ErrUnavailable)
		assert.Equal(t, []string{"POST " + api + "/auth/token"}, f.sent)
	})
}

func TestLargeAnswersAreCutOff(t *testing.T) {
	f := &fake{answer: func(r *http.Request, _ []byte) (*http.Response, error) {
		if !strings.HasSuffix(r.URL.Path, "/usage") {
			return nil, nil
		}
		res := reply(202, "")
		res.Body = io.NopCloser(endless{})
		return res, nil
	}}
	_, err := newClient(t, f).Submit(t.Context(), org, app, usage())
	require.ErrorIs(t, err, fault.ErrUnavailable)
	assert.Equal(t, 1, f.count("/usage"))
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

// A recommendation is used as long as the keeper allows, and never after the day ends.
func TestRecommendationsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := newClient(t, f)
		ask := func() budget.Recommendation {
			t.Helper()
			rec, err := c.Recommend(t.Context(), org, app)
			require.NoError(t, err)
			return rec
		}
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() { ask() })
		}
		group.Wait()
		assert.Equal(t, 1, f.count("/model-selection"))
		elapse(299 * time.Second)
		rec := ask()
		assert.Equal(t, time.Second, rec.CacheFor)
		rec.Labels[0].Label = "changed"
		assert.Equal(t, "premium", ask().Labels[0].Label, "the answer is the caller's own")
		micros, err := c.Estimate(t.Context(), org, app, "premium", 1, 1)
		require.NoError(t, err)
		assert.Equal(t, int64(18), micros)
		assert.Zero(t, f.count("/estimate"))
		elapse(time.Second)
		ask()
		assert.Equal(t, 2, f.count("/model-selection"))

		elapse(time.Until(time.Date(2000, 1, 1, 5, 59, 0, 0, time.UTC)))
		rec = ask()
		assert.Equal(t, time.Minute, rec.CacheFor, "the day ends then")
		elapse(time.Minute)
		ask()
		assert.Equal(t, 4, f.count("/model-selection"))
	})
}

// A receipt that recommends another label ends a recommendation.
func TestReceiptsOutdateRecommendations(t *testing.T) {
	f := &fake{}
	c := newClient(t, f, func(o *Options) { o.Now = func() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) } })
	_, err := c.Recommend(t.Context(), org, app)
	require.NoError(t, err)
	_, err = c.Submit(t.Context(), org, app, usage())
	require.NoError(t, err)
	_, err = c.Recommend(t.Context(), org, app)
	require.NoError(t, err)
	assert.Equal(t, 1, f.count("/model-selection"))
	f.answer = func(r *http.Request, _ []byte) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/usage") {
			return reply(202, `{"request_id":"00000000-0000-4000-8000-000000000001","status":"accepted","recommended_label":"standard"}`), nil
		}
		return nil, nil
	}
	_, err = c.Submit(t.Context(), org, app, usage())
	require.NoError(t, err)
	_, err = c.Recommend(t.Context(), org, app)
	require.NoError(t, err)
	assert.Equal(t, 2, f.count("/model-selection"))
}

// While the keeper does not answer, what was known last is given, marked.
func TestStaleAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := func(*http.Request, []byte) (*http.Response, error) { return html(503), nil }
		f := &fake{answer: down}
		c := newClient(t, f, func(*Options) {})
		_, err := c.Recommend(t.Context(), org, app)
		require.ErrorIs(t, err, fault.ErrUnavailable, "nothing is known yet")
		f.answer = func(r *http.Request, _ []byte) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/model-selection") {
				return html(503), nil
			}
			return nil, nil
		}
		_, err = c.Recommend(t.Context(), org, app)
		var lost *fault.UnavailableError
		require.ErrorAs(t, err, &lost)
		assert.False(t, lost.Unconfirmed, "it reads")
		f.answer = nil
		_, err = c.Recommend(t.Context(), org, app)
		require.NoError(t, err)
		elapse(6 * time.Minute)
		f.answer = down
		rec, err := c.Recommend(t.Context(), org, app)
		require.NoError(t, err)
		assert.True(t, rec.Stale)
		assert.Zero(t, rec.CacheFor)
		micros, err := c.Estimate(t.Context(), org, app, "premium", 1, 1)
		require.NoError(t, err)
		assert.Equal(t, int64(18), micros)
		f.answer = nil
		c = newClient(t, f, func(o *Options) { o.OnUnavailable.Recommend = budget.Refuse })
		_, err = c.Recommend(t.Context(), org, app)
		require.NoError(t, err)
		elapse(6 * time.Minute)
		f.answer = down
		_, err = c.Recommend(t.Context(), org, app)
		require.ErrorIs(t, err, fault.ErrUnavailable)
	})
}
