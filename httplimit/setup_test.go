package httplimit_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/httplimit"
	"github.com/dynalimit/dynalimit/internal/testworld"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a table, a limiter on it and a clock that stands still until it is advanced.
type world struct {
	t       testing.TB
	db      *ddbmem.DB
	repo    *dynalimit.Repository
	limiter *dynalimit.RateLimiter
	ns      atomic.Int64
}

// newWorld has two requests a minute, unless other limits are given.
func newWorld(t testing.TB, limits ...dynalimit.Limit) *world {
	t.Helper()
	if limits == nil {
		limits = []dynalimit.Limit{dynalimit.PerMinute("rpm", 2)}
	}
	w := &world{t: t}
	w.advance(time.Duration(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC).UnixNano()))
	now := func() time.Time { return time.Unix(0, w.ns.Load()).UTC() }
	w.db = testworld.Mem(t, ddbmem.WithClock(now))
	var err error
	w.repo, err = dynalimit.NewRepository(w.db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: "ops@example.com", Now: now})
	require.NoError(t, err)
	require.NoError(t, w.repo.CreateTable(t.Context()))
	w.limiter, err = dynalimit.New(w.repo, &dynalimit.Options{Limits: limits})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, w.limiter.Close(context.WithoutCancel(t.Context()))) })
	return w
}

func (w *world) advance(d time.Duration) { w.ns.Add(int64(d)) }

// admin changes what is configured.
func (w *world) admin() *admin.Admin { return admin.New(w.repo) }

// silence makes the store silent.
func (w *world) silence() {
	w.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} })
}

// used is what an entity has used of its two requests.
func (w *world) used(entity string) int64 {
	w.t.Helper()
	report, err := w.limiter.Check(w.t.Context(), entity, "http", nil)
	require.NoError(w.t, err)
	return report.Statuses[0].Limit.Burst - report.Statuses[0].Remaining
}

// buckets counts the items of buckets by their partition key.
func (w *world) buckets() map[string]int {
	w.t.Helper()
	out, err := w.db.Client().Scan(w.t.Context(), &dynamodb.ScanInput{TableName: aws.String("limits")})
	require.NoError(w.t, err)
	found := map[string]int{}
	for _, item := range out.Items {
		if strings.HasPrefix(text(item["SK"]), "#BUCKET#") {
			found[text(item["PK"])]++
		}
	}
	return found
}

func text(v types.AttributeValue) string {
	s, _ := v.(*types.AttributeValueMemberS)
	return s.Value
}

// handler is next behind a middleware.
func (w *world) handler(next http.HandlerFunc, o httplimit.Options) http.Handler {
	w.t.Helper()
	limit, err := httplimit.New(w.limiter, &o)
	require.NoError(w.t, err)
	return limit(next)
}

// server serves a handler over a connection.
func (w *world) server(h http.Handler) *httptest.Server {
	w.t.Helper()
	s := httptest.NewServer(h)
	w.t.Cleanup(s.Close)
	return s
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }

// byUser charges the entity that a header names, whoever it is.
var byUser = httplimit.Options{
	Key:   func(r *http.Request) string { return r.Header.Get("User") },
	Known: func(key string) bool { return !strings.HasPrefix(key, "unknown") },
}

// ask makes a request of a user.
func ask(h http.Handler, user string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/items/7", nil)
	r.Header.Set("User", user)
	return do(h, r)
}

func do(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// problem is the body of a request that was not served.
func problem(t testing.TB, w *httptest.ResponseRecorder) (d httplimit.Denial) {
	t.Helper()
	require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &d))
	assert.Equal(t, w.Code, d.Status)
	return d
}
