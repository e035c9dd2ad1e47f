// Package routers tests httplimit with routers that it does not know, and its fields with a
// parser of structured fields. It is a module of its own, so that nobody else needs them.
package routers

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/dunglas/httpsfv"
	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/dynalimittest"
	"github.com/dynalimit/dynalimit/httplimit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limit is a middleware that gives failures back, and shows the draft's fields.
func limit(t *testing.T, resource func(*http.Request) string) func(http.Handler) http.Handler {
	t.Helper()
	m, err := httplimit.New(dynalimittest.New(t, dynalimit.PerMinute("rpm", 2)).RateLimiter, &httplimit.Options{
		Key:      func(r *http.Request) string { return r.Header.Get("User") },
		Known:    func(string) bool { return true },
		Resource: resource,
		Refund:   func(status int) bool { return status >= 500 },
		Draft:    true,
	})
	require.NoError(t, err)
	return m
}

// routers make a handler with two routes, both limited: /items/{id} answers, /fail fails.
var routers = map[string]func(*testing.T) http.Handler{
	"net/http": func(t *testing.T) http.Handler {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
		mux.HandleFunc("GET /fail", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
		return limit(t, nil)(mux)
	},
	"chi": func(t *testing.T) http.Handler {
		r := chi.NewRouter()
		r.Use(limit(t, nil))
		r.Get("/items/{id}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
		r.Get("/fail", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
		return r
	},
	"gin": func(t *testing.T) http.Handler {
		gin.SetMode(gin.TestMode)
		e := gin.New()
		e.GET("/items/:id", func(c *gin.Context) { c.String(http.StatusOK, "ok") })
		e.GET("/fail", func(c *gin.Context) { c.Status(http.StatusInternalServerError) })
		return limit(t, nil)(e)
	},
	"echo": func(t *testing.T) http.Handler {
		e := echo.New()
		e.Use(echo.WrapMiddleware(limit(t, nil)), answerErrors)
		e.GET("/items/:id", func(c echo.Context) error { return c.String(http.StatusOK, "ok") })
		e.GET("/fail", func(echo.Context) error { return echo.NewHTTPError(http.StatusInternalServerError) })
		return e
	},
}

// answerErrors has echo answer the errors that handlers return inside of the limit, which hears the
// status then.
func answerErrors(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := next(c); err != nil {
			c.Error(err)
		}
		return nil
	}
}

// TestRouters: with each of them two requests of a user are served and the third is denied, and
// what failed costs nothing.
func TestRouters(t *testing.T) {
	for name, router := range routers {
		t.Run(name, func(t *testing.T) {
			h := router(t)
			ask := func(path string) *httptest.ResponseRecorder {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
				r.Header.Set("User", "ana")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				return w
			}
			for range 3 {
				assert.Equal(t, http.StatusInternalServerError, ask("/fail").Code)
			}
			for left := range 2 {
				got := ask("/items/7")
				assert.Equal(t, http.StatusOK, got.Code)
				assert.Equal(t, "ok", got.Body.String())
				assertFields(t, got.Header(), int64(1-left))
			}
			got := ask("/items/7")
			assert.Equal(t, http.StatusTooManyRequests, got.Code)
			assert.Equal(t, "30", got.Header().Get("Retry-After"))
			assert.Equal(t, "application/problem+json", got.Header().Get("Content-Type"))
			assert.True(t, json.Valid(got.Body.Bytes()), "the problem and nothing behind it: %s", got.Body)
			assertFields(t, got.Header(), 0)
		})
	}
}

// TestChiRoute: chi's pattern as the resource, in a middleware of a group, where chi knows it.
func TestChiRoute(t *testing.T) {
	var seen []string
	r := chi.NewRouter()
	r.With(limit(t, func(r *http.Request) string {
		seen = append(seen, chi.RouteContext(r.Context()).RoutePattern())
		return "items"
	})).Get("/items/{id}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/items/7", nil))
	assert.Equal(t, http.StatusNoContent, w.Code)
	assert.Equal(t, []string{"/items/{id}"}, seen)
}

// assertFields reads the draft's fields as RFC 9651 says.
func assertFields(t *testing.T, h http.Header, left int64) {
	t.Helper()
	quota, limits := only(t, h, "RateLimit-Policy"), only(t, h, "RateLimit")
	assert.Equal(t, "rpm", quota.Value)
	assert.Equal(t, "rpm", limits.Value)
	for name, want := range map[string]int64{"q": 2, "w": 60} {
		got, _ := quota.Params.Get(name)
		assert.Equal(t, want, got, name)
	}
	got, _ := limits.Params.Get("r")
	assert.Equal(t, left, got)
	wait, _ := limits.Params.Get("t")
	assert.IsType(t, int64(0), wait)
}

// only is the one item of a list.
func only(t *testing.T, h http.Header, field string) httpsfv.Item {
	t.Helper()
	list, err := httpsfv.UnmarshalList(h.Values(field))
	require.NoError(t, err)
	require.Len(t, list, 1)
	item, ok := list[0].(httpsfv.Item)
	require.True(t, ok)
	return item
}
