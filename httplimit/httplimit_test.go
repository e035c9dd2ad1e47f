package httplimit_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/httplimit"
)

// TestOutcomes: what each end of an acquire is answered with.
func TestOutcomes(t *testing.T) {
	const quota = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	const reduced = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	amounts := func(n int64) func(*http.Request) dynalimit.Amounts {
		return func(*http.Request) dynalimit.Amounts { return dynalimit.Amounts{"rpm": n} }
	}
	block := func(w *world) {
		require.NoError(w.t, w.admin().Limits.SetBlocked(w.t.Context(), admin.Scope{Entity: "ana"}, true))
	}
	for name, test := range map[string]struct {
		before      func(*world)
		change      func(*httplimit.Options)
		want        httplimit.Denial // of status 200: served
		retryAfter  string
		limits      string // X-RateLimit: limit, remaining, reset
		doesNotLeak string
	}{
		"served": {want: httplimit.Denial{Status: 200}, limits: "2 1 30"},
		"exceeded": {
			before: func(w *world) {
				h := w.handler(ok, byUser)
				ask(h, "ana")
				ask(h, "ana")
				w.advance(100 * time.Millisecond) // 29.9 s are 30
			},
			want:       httplimit.Denial{Status: 429, Type: quota, Title: "Too many requests", Detail: "rpm: 1 asked, 0 left", Violated: []string{"rpm"}},
			retryAfter: "30", limits: "2 0 60",
		},
		"never fits": {
			change: func(o *httplimit.Options) { o.Amounts = amounts(3) },
			want:   httplimit.Denial{Status: 429, Type: quota, Title: "Too many requests", Detail: "rpm: 3 asked, at most 2 can ever be", Violated: []string{"rpm"}},
			limits: "2 2 0",
		},
		"blocked": {
			before: block,
			want:   httplimit.Denial{Status: 403, Type: "about:blank", Title: "Blocked", Detail: "an administrator has blocked this"},
		},
		"without a record": {
			before: func(w *world) {
				var err error
				w.limiter, err = dynalimit.New(w.repo, &dynalimit.Options{Unrecorded: dynalimit.RefuseUnrecorded})
				require.NoError(w.t, err)
			},
			want: httplimit.Denial{Status: 401, Type: "about:blank", Title: "Unauthorized", Detail: "the caller is not known"},
		},
		"a parent without a record": {
			change: func(o *httplimit.Options) {
				o.Identify = func(r *http.Request) httplimit.Caller {
					return httplimit.Caller{Key: byUser.Key(r), Parent: "secret"}
				}
				o.Key = nil
			},
			want:        httplimit.Denial{Status: 403, Type: "about:blank", Title: "Forbidden", Detail: "the caller's parent cannot be charged"},
			doesNotLeak: "secret",
		},
		"store silent, block": {
			before:     (*world).silence,
			want:       httplimit.Denial{Status: 503, Type: reduced, Title: "Try again later", Detail: "limits cannot be checked now"},
			retryAfter: "1", doesNotLeak: "Item",
		},
		"store silent, allow": {
			before: (*world).silence,
			change: func(o *httplimit.Options) {
				o.Acquire = []dynalimit.AcquireOption{dynalimit.WithOnUnavailable(dynalimit.Allow)}
			},
			want: httplimit.Denial{Status: 200},
		},
		"closed": {
			before:     func(w *world) { require.NoError(w.t, w.limiter.Close(w.t.Context())) },
			want:       httplimit.Denial{Status: 503, Type: reduced, Title: "Try again later", Detail: "limits cannot be checked now"},
			retryAfter: "1",
		},
		"paused": {
			before: func(w *world) {
				require.NoError(w.t, w.limiter.Pause(w.t.Context(), "ana", "http", 10*time.Second, "secret"))
			},
			want:       httplimit.Denial{Status: 503, Type: reduced, Title: "Try again later", Detail: "this is paused"},
			retryAfter: "11", doesNotLeak: "secret",
		},
		"a bad resource": {
			change:      func(o *httplimit.Options) { o.Resource = func(*http.Request) string { return "#secret" } },
			want:        httplimit.Denial{Status: 500, Type: "about:blank", Title: "Internal server error"},
			doesNotLeak: "secret",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if test.before != nil {
				test.before(w)
			}
			var log bytes.Buffer
			o := byUser
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			if test.change != nil {
				test.change(&o)
			}
			served := false
			h := w.handler(func(w http.ResponseWriter, r *http.Request) { served = true; ok(w, r) }, o)
			got := ask(h, "ana")
			require.Equal(t, test.want.Status, got.Code, got.Body)
			assert.Equal(t, test.want.Status == 200, served)
			header := got.Header()
			assert.Equal(t, test.retryAfter, header.Get("Retry-After"))
			limits := []string{header.Get("X-RateLimit-Limit"), header.Get("X-RateLimit-Remaining"), header.Get("X-RateLimit-Reset")}
			assert.Equal(t, test.limits, strings.TrimSpace(strings.Join(limits, " ")))
			assert.Equal(t, test.want.Status == 500, strings.Contains(log.String(), "could not be limited"), log.String())
			if !served {
				assert.Equal(t, test.want, problem(t, got))
				assert.Equal(t, "no-store", header.Get("Cache-Control"))
			}
			if test.doesNotLeak != "" {
				assert.NotContains(t, got.Body.String(), test.doesNotLeak)
			}
			w.db.SetFaults(nil)
		})
	}
}

// TestParentsAreNotShown: a caller sees its own limit, and not how much others have left.
func TestParentsAreNotShown(t *testing.T) {
	w := newWorld(t, dynalimit.PerMinute("rpm", 60))
	ctx := t.Context()
	require.NoError(t, w.admin().Limits.Set(ctx, admin.Scope{Entity: "shop"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 3)}))
	for _, user := range []string{"ana", "ben"} {
		require.NoError(t, w.admin().Entities.Create(ctx, admin.Entity{ID: user, ParentID: "shop", Cascade: true}))
	}
	o := byUser
	o.Draft = true
	h := w.handler(ok, o)
	ask(h, "ana")
	ask(h, "ana")
	got := ask(h, "ben")
	assert.Equal(t, "59", got.Header().Get("X-RateLimit-Remaining"))
	assert.Equal(t, `"rpm";q=60;w=60`, got.Header().Get("RateLimit-Policy"))

	got = ask(h, "ben")
	d := problem(t, got)
	assert.Equal(t, "a limit that others share is used up", d.Detail)
	assert.Empty(t, d.Violated)
	assert.Equal(t, "20", got.Header().Get("Retry-After"))
	assert.Equal(t, "59", got.Header().Get("X-RateLimit-Remaining"))
	assert.NotContains(t, got.Body.String(), "shop")

	o.Amounts = func(*http.Request) dynalimit.Amounts { return dynalimit.Amounts{"rpm": 4} }
	assert.Equal(t, "this is more than a limit that others share ever allows", problem(t, ask(w.handler(ok, o), "ben")).Detail)
}

// TestTheTightestLimitIsShown: of several, the one of which the fewest such requests are left;
// of a group's, too. The draft's fields have those alone that count requests.
func TestTheTightestLimitIsShown(t *testing.T) {
	w := newWorld(t, dynalimit.PerMinute("rpm", 60), dynalimit.PerMinute("tpm", 1_000), dynalimit.PerMinute("seen", 1).AsShadow())
	ctx := t.Context()
	_, err := w.admin().Limits.SetConfig(ctx, admin.Scope{Everyone: true, Resource: "http"}, admin.LimitConfig{Groups: []string{"all"}, Limits: []dynalimit.Limit{
		dynalimit.PerMinute("rpm", 60), dynalimit.PerMinute("tpm", 1_000), dynalimit.PerMinute("seen", 1).AsShadow(),
	}})
	require.NoError(t, err)
	require.NoError(t, w.admin().Limits.Set(ctx, admin.Scope{Everyone: true, Resource: "all"}, []dynalimit.Limit{dynalimit.DailyQuota("rpm", 5, "")}))
	asked := dynalimit.Amounts{"rpm": 1, "tpm": 100, "seen": 1}
	o := byUser
	o.Draft, o.Amounts = true, func(*http.Request) dynalimit.Amounts { return asked }
	h := w.handler(ok, o)
	header := ask(h, "ana").Header()
	assert.Equal(t, "5", header.Get("X-RateLimit-Limit"), "5 a day are fewer than 10 times 100 tokens")
	assert.Equal(t, `"rpm";q=60;w=60, "all/rpm";q=5;w=86400`, header.Get("RateLimit-Policy"))
	assert.Equal(t, `"rpm";r=59;t=1, "all/rpm";r=4;t=54000`, header.Get("RateLimit"))
	asked = dynalimit.Amounts{"tpm": 450}
	header = ask(h, "ana").Header()
	assert.Equal(t, "1000", header.Get("X-RateLimit-Limit"))
	assert.Equal(t, "450", header.Get("X-RateLimit-Remaining"))
	assert.Empty(t, header.Get("RateLimit"), "the draft has no unit of tokens")
}

// TestStrangersShareOneBucket: whoever is not known, or has no key that an entity can have.
func TestStrangersShareOneBucket(t *testing.T) {
	w := newWorld(t, dynalimit.PerMinute("rpm", 100))
	o := byUser
	o.Strangers = "guests"
	h := w.handler(ok, o)
	for _, user := range []string{"unknown-1", "unknown-2", "", "a#b", strings.Repeat("x", 257), "ana"} {
		assert.Equal(t, 200, ask(h, user).Code)
	}
	assert.Equal(t, map[string]int{"ENTITY#guests": 1, "ENTITY#ana": 1}, w.buckets())
	assert.EqualValues(t, 5, w.used("guests"))

	limit, err := httplimit.New(w.limiter, nil) // everybody is a stranger
	require.NoError(t, err)
	ask(limit(http.HandlerFunc(ok)), "ana")
	assert.EqualValues(t, 1, w.used("strangers"))
}

// TestSkip: what is skipped is neither charged nor told of limits.
func TestSkip(t *testing.T) {
	w := newWorld(t)
	o := byUser
	o.Skip = func(r *http.Request) bool { return r.URL.Path == "/items/7" }
	h := w.handler(func(w http.ResponseWriter, r *http.Request) {
		assert.Nil(t, httplimit.Lease(r.Context()))
		ok(w, r)
	}, o)
	assert.Empty(t, ask(h, "ana").Header().Get("X-RateLimit-Limit"))
	assert.Empty(t, w.buckets())
}

// TestOnDenied answers in the application's own way, with the fields set.
func TestOnDenied(t *testing.T) {
	w := newWorld(t)
	o := byUser
	o.OnDenied = func(w http.ResponseWriter, r *http.Request, d *httplimit.Denial) {
		assert.Equal(t, "ana", r.Header.Get("User"))
		assert.ErrorIs(t, d.Err, dynalimit.ErrLimitExceeded)
		assert.Equal(t, 30*time.Second, d.RetryAfter)
		http.Error(w, "slow down", d.Status)
	}
	h := w.handler(ok, o)
	ask(h, "ana")
	ask(h, "ana")
	got := ask(h, "ana")
	assert.Equal(t, "slow down\n", got.Body.String())
	assert.Equal(t, "30", got.Header().Get("Retry-After"))
}

// TestHandlerSettles: the handler says what was used, or that nothing was.
func TestHandlerSettles(t *testing.T) {
	w := newWorld(t)
	for user, end := range map[string]func(*dynalimit.Lease, context.Context) error{
		"ana": func(l *dynalimit.Lease, ctx context.Context) error { return l.Settle(ctx, dynalimit.Amounts{"rpm": 2}) },
		"ben": (*dynalimit.Lease).Rollback,
	} {
		h := w.handler(func(_ http.ResponseWriter, r *http.Request) {
			assert.NoError(t, end(httplimit.Lease(r.Context()), r.Context()))
		}, byUser)
		assert.Equal(t, 200, ask(h, user).Code)
	}
	assert.EqualValues(t, 2, w.used("ana"))
	assert.EqualValues(t, 0, w.used("ben"))
}

// TestRefund: what the server failed at costs nothing, where that is wished.
func TestRefund(t *testing.T) {
	w := newWorld(t, dynalimit.PerMinute("rpm", 100))
	o := byUser
	o.Refund = func(status int) bool { return status >= 500 }
	for user, test := range map[string]struct {
		handler http.HandlerFunc
		used    int64
	}{
		"failed":  {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadGateway) }, 0},
		"served":  {ok, 1},
		"silent":  {func(http.ResponseWriter, *http.Request) {}, 1},
		"flushed": {func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); w.WriteHeader(500) }, 1},
		"copied": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader("ok"))
		}, 1},
		"hinted": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(503) }, 0},
	} {
		ask(w.handler(test.handler, o), user)
		assert.Equal(t, test.used, w.used(user), user)
	}
}

// TestRefundOfATimeout: what net/http answers for a slow handler is given back if the middleware is
// outside, because it hears the status then.
func TestRefundOfATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := byUser
		o.Refund = func(status int) bool { return status >= 500 }
		slow := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
		inTime := func(h http.Handler) http.Handler { return http.TimeoutHandler(h, time.Second, "late") }
		assert.Equal(t, 503, ask(w.handler(inTime(http.HandlerFunc(slow)).ServeHTTP, o), "inside").Code)
		assert.Equal(t, 503, ask(inTime(w.handler(slow, o)), "outside").Code)
		synctest.Wait()
		assert.EqualValues(t, 0, w.used("inside"))
		assert.EqualValues(t, 1, w.used("outside"))
	})
}

// TestPreflight: a browser's preflight is not charged, and a denial has the fields of CORS, where
// CORS is outside; where it is inside, Skip lets preflights through.
func TestPreflight(t *testing.T) {
	preflight := func(r *http.Request) bool {
		return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
	}
	cors := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Access-Control-Allow-Origin", "*")
			if !preflight(r) {
				next.ServeHTTP(w, r)
			}
		})
	}
	skipping := byUser
	skipping.Skip = preflight
	for name, h := range map[string]http.Handler{
		"outside": cors(newWorld(t).handler(ok, byUser)),
		"inside":  newWorld(t).handler(cors(http.HandlerFunc(ok)).ServeHTTP, skipping),
	} {
		for range 5 {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodOptions, "/", nil)
			r.Header.Set("Access-Control-Request-Method", "POST")
			got := do(h, r)
			assert.Equal(t, 200, got.Code, name)
			assert.Equal(t, "*", got.Header().Get("Access-Control-Allow-Origin"), name)
		}
		ask(h, "")
		ask(h, "")
		denied := ask(h, "")
		assert.Equal(t, 429, denied.Code, name)
		assert.Equal(t, name == "outside", denied.Header().Get("Access-Control-Allow-Origin") == "*", name)
	}
}

// TestRefundFails: what could not be given back is logged, and stays charged.
func TestRefundFails(t *testing.T) {
	w := newWorld(t)
	var log bytes.Buffer
	o := byUser
	o.Refund, o.Logger = func(int) bool { return true }, slog.New(slog.NewTextHandler(&log, nil))
	got := ask(w.handler(func(rw http.ResponseWriter, r *http.Request) { w.silence(); ok(rw, r) }, o), "ana")
	assert.Equal(t, 200, got.Code)
	assert.Contains(t, log.String(), "could not be ended")
	w.db.SetFaults(nil)
}

// TestPanicSettles: a panic leaves the request charged, and goes on.
func TestPanicSettles(t *testing.T) {
	w := newWorld(t)
	o := byUser
	o.Refund = func(int) bool { return true }
	boom := errors.New("boom")
	var lease *dynalimit.Lease
	h := w.handler(func(_ http.ResponseWriter, r *http.Request) { lease = httplimit.Lease(r.Context()); panic(boom) }, o)
	assert.PanicsWithError(t, "boom", func() { ask(h, "ana") })
	assert.EqualValues(t, 1, w.used("ana"))
	assert.ErrorIs(t, lease.Adjust(t.Context(), dynalimit.Amounts{"rpm": 1}), dynalimit.ErrLeaseEnded)
}

// TestMoneyIsNotServedBlind: a limit on money blocks while DynamoDB does not answer, although
// the limiter allows the rest; unless the call is allowed by name.
func TestMoneyIsNotServedBlind(t *testing.T) {
	w := newWorld(t)
	usd := dynalimit.DailyMoneyQuota("usd", 1_000_000, "")
	usd.PerModel = true
	require.NoError(t, w.admin().Limits.Set(t.Context(), admin.Scope{Everyone: true, Resource: "http"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100), usd}))
	limiter, err := dynalimit.New(w.repo, &dynalimit.Options{OnUnavailable: dynalimit.Allow})
	require.NoError(t, err)
	defer func() { require.NoError(t, limiter.Close(context.WithoutCancel(t.Context()))) }()
	serve := func(o httplimit.Options) int {
		limit, err := httplimit.New(limiter, &o)
		require.NoError(t, err)
		return ask(limit(http.HandlerFunc(ok)), "ana").Code
	}
	money := byUser
	money.Amounts = func(*http.Request) dynalimit.Amounts { return dynalimit.Amounts{"rpm": 1, "usd": 100} }
	assert.Equal(t, 200, serve(money))
	w.silence()
	assert.Equal(t, 503, serve(money))
	assert.Equal(t, 200, serve(byUser))
	money.Acquire = []dynalimit.AcquireOption{dynalimit.WithOnUnavailable(dynalimit.Allow)}
	assert.Equal(t, 200, serve(money))
	w.db.SetFaults(nil)
}

// TestMisuse: wrong options are refused at once, by name.
func TestMisuse(t *testing.T) {
	w := newWorld(t)
	for field, o := range map[string]httplimit.Options{
		"options.Known":     {Key: byUser.Key},
		"options.Key":       {Known: byUser.Known},
		"options.Strangers": {Strangers: "a#b"},
		"options.Identify":  {Key: byUser.Key, Known: byUser.Known, Identify: func(*http.Request) httplimit.Caller { return httplimit.Caller{} }},
	} {
		_, err := httplimit.New(w.limiter, &o)
		var bad *dynalimit.ValidationError
		require.ErrorAs(t, err, &bad)
		assert.Equal(t, field, bad.Field)
		assert.Contains(t, err.Error(), "httplimit: invalid")
	}
	_, err := httplimit.New(nil, nil)
	assert.ErrorContains(t, err, "invalid limiter")
}

// A batch request leaves the reserve of a limit to the others.
func TestBatchRequestsLeaveTheReserve(t *testing.T) {
	w := newWorld(t, dynalimit.PerMinute("rpm", 5))
	o, batch := byUser, true
	o.Batch = func(*http.Request) bool { return batch }
	h := w.handler(ok, o)
	for range 4 {
		assert.Equal(t, 200, ask(h, "ana").Code)
	}
	assert.Equal(t, 429, ask(h, "ana").Code)
	batch = false
	assert.Equal(t, 200, ask(h, "ana").Code)
}
