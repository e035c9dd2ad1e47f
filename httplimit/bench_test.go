package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/httplimit"
)

// BenchmarkMiddleware is what a request costs beside its acquire: both are made in turn, with
// calls admitted from memory, and own-p50-ns is the middle of the middleware's times less that
// of the acquire's.
func BenchmarkMiddleware(b *testing.B) {
	db := ddbmem.New()
	defer db.Close()
	repo, err := dynalimit.NewRepository(db.Client(), "limits", nil)
	require.NoError(b, err)
	require.NoError(b, repo.CreateTable(b.Context()))
	limiter, err := dynalimit.New(repo, &dynalimit.Options{
		Limits: []dynalimit.Limit{dynalimit.PerSecond("rpm", 100_000_000), dynalimit.PerSecond("tpm", 100_000_000_000)}, Prefetch: time.Second,
	})
	require.NoError(b, err)
	defer func() { require.NoError(b, limiter.Close(context.WithoutCancel(b.Context()))) }()

	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(http.ResponseWriter, *http.Request) {})
	key, amounts := httplimit.HashKey("secret"), dynalimit.Amounts{"rpm": 1, "tpm": 500}
	for name, o := range map[string]httplimit.Options{
		"plain": {}, "draft and refunds": {Draft: true, Refund: func(status int) bool { return status >= 500 }},
	} {
		o.Key, o.Known, o.Resource = httplimit.APIKey("Authorization"), func(k string) bool { return k == key }, httplimit.Route(mux)
		o.Amounts = func(*http.Request) dynalimit.Amounts { return amounts }
		limit, err := httplimit.New(limiter, &o)
		require.NoError(b, err)
		nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		h := limit(nothing)
		r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/items/7", nil)
		r.Header.Set("Authorization", "Bearer secret")
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			w := &quiet{header: http.Header{}}
			whole, acquire := make([]time.Duration, 0, b.N), make([]time.Duration, 0, b.N)
			for b.Loop() {
				clear(w.header)
				began := time.Now()
				h.ServeHTTP(w, r)
				served := time.Now()
				_, err := limiter.Acquire(r.Context(), key, "GET/items/_id_", amounts)
				whole, acquire = append(whole, served.Sub(began)), append(acquire, time.Since(served))
				if err != nil || w.status != 0 {
					b.Fatal(err, w.status)
				}
			}
			b.ReportMetric(float64(middle(whole)-middle(acquire)), "own-p50-ns")
			b.ReportMetric(float64(middle(acquire)), "acquire-p50-ns")
		})
	}
}

// middle is the median.
func middle(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// quiet is a writer that keeps a status.
type quiet struct {
	header http.Header
	status int
}

func (w *quiet) Header() http.Header         { return w.header }
func (w *quiet) Write(p []byte) (int, error) { return len(p), nil }
func (w *quiet) WriteHeader(status int)      { w.status = status }
