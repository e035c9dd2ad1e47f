package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/httplimit"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// exampleLimiter is on ddbmem, with a clock that stands still.
func exampleLimiter(limits ...dynalimit.Limit) *dynalimit.RateLimiter {
	repo := must(dynalimit.NewRepository(ddbmem.New().Client(), "limits", &dynalimit.RepositoryOptions{
		Now: func() time.Time { return time.Date(2026, time.March, 2, 9, 0, 0, 0, time.UTC) },
	}))
	if err := repo.CreateTable(context.Background()); err != nil {
		panic(err)
	}
	return must(dynalimit.New(repo, &dynalimit.Options{Limits: limits}))
}

// customers are the hashes of the keys that were given out.
type customers map[string]bool

func (c customers) Has(key string) bool { return c[key] }

// Each customer may make two requests a minute of each route. Whoever has no key of a customer
// shares two with all others who have none.
func ExampleNew() {
	limiter := exampleLimiter(dynalimit.PerMinute("rpm", 2))
	customers := customers{httplimit.HashKey("ana's secret"): true}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "item %s\n", r.PathValue("id"))
	})
	limit := must(httplimit.New(limiter, &httplimit.Options{
		Key:      httplimit.APIKey("Authorization"),
		Known:    customers.Has,
		Resource: httplimit.Route(mux),
		Draft:    true,
	}))
	server := limit(mux)

	for _, path := range []string{"/items/1", "/items/2", "/items/3"} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Authorization", "Bearer ana's secret")
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		fmt.Printf("%d, %s of %s left: %s", w.Code, w.Header().Get("X-RateLimit-Remaining"), w.Header().Get("X-RateLimit-Limit"), w.Body)
		if w.Code == http.StatusTooManyRequests {
			for _, name := range []string{"Retry-After", "RateLimit-Policy", "RateLimit"} {
				fmt.Printf("%s: %s\n", name, w.Header().Get(name))
			}
		}
	}
	// Output:
	// 200, 1 of 2 left: item 1
	// 200, 0 of 2 left: item 2
	// 429, 0 of 2 left: {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too many requests","status":429,"detail":"rpm: 1 asked, 0 left","violated-policies":["rpm"]}
	// Retry-After: 30
	// RateLimit-Policy: "rpm";q=2;w=60
	// RateLimit: "rpm";r=0;t=30
}

// A handler charges what a request turned out to use.
func ExampleLease() {
	limiter := exampleLimiter(dynalimit.PerMinute("rpm", 60), dynalimit.PerMinute("tpm", 10_000))
	limit := must(httplimit.New(limiter, &httplimit.Options{
		Amounts: func(r *http.Request) dynalimit.Amounts {
			return dynalimit.Amounts{"rpm": 1, "tpm": 500 + r.ContentLength/4} // an estimate
		},
		Refund: func(status int) bool { return status >= 500 }, // what failed here costs nothing
	}))
	server := limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens := int64(120) // what the model says that it used
		if err := httplimit.Lease(r.Context()).Settle(r.Context(), dynalimit.Amounts{"tpm": tokens}); err != nil {
			http.Error(w, "could not be counted", http.StatusInternalServerError)
		}
	}))

	server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil))
	for _, s := range must(limiter.Check(context.Background(), "strangers", "http", nil)).Statuses {
		fmt.Println(s.Limit.Name, s.Remaining)
	}
	// Output:
	// rpm 59
	// tpm 9880
}

// Behind a load balancer, requests are told apart by the address that it saw, and errors have
// the shape that the clients know.
func ExampleOptions_onDenied() {
	limiter := exampleLimiter(dynalimit.PerMinute("rpm", 1))
	limit := must(httplimit.New(limiter, &httplimit.Options{
		Key:   httplimit.Address(netip.MustParsePrefix("10.0.0.0/16")), // where the load balancer is
		Known: func(string) bool { return true },                       // an item for each address
		OnDenied: func(w http.ResponseWriter, _ *http.Request, d *httplimit.Denial) {
			if errors.Is(d.Err, dynalimit.ErrUnavailable) {
				d.Write(w) // as it is
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(d.Status)
			fmt.Fprintf(w, `{"error":{"type":"rate_limit_error","message":%q}}`+"\n", d.Detail)
		},
	}))
	server := limit(http.NotFoundHandler())

	for range 2 {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "10.0.3.1:4711"
		r.Header.Set("X-Forwarded-For", "203.0.113.7")
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		fmt.Print(w.Code, " ", w.Body)
	}
	// Output:
	// 404 404 page not found
	// 429 {"error":{"type":"rate_limit_error","message":"rpm: 1 asked, 0 left"}}
}

// token is what a verified token says.
type token struct{ User, Team, Plan string }

// claims are of the token that an authentication left in the context.
func claims(ctx context.Context) token {
	t, _ := ctx.Value(token{}).(token)
	return t
}

// Users have no records here: their tokens name the team, whose limit they share.
func ExampleCaller() {
	repo := must(dynalimit.NewRepository(ddbmem.New().Client(), "limits", &dynalimit.RepositoryOptions{Principal: "ops@example.com"}))
	ctx := context.Background()
	if err := repo.CreateTable(ctx); err != nil {
		panic(err)
	}
	to := admin.New(repo)
	if err := errors.Join(
		to.Entities.Create(ctx, admin.Entity{ID: "team-a"}),
		to.Limits.Set(ctx, admin.Scope{Entity: "team-a"}, []dynalimit.Limit{dynalimit.PerDay("rpm", 1)}),
	); err != nil {
		panic(err)
	}
	limiter := must(dynalimit.New(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 60)}}))
	limit := must(httplimit.New(limiter, &httplimit.Options{
		Identify: func(r *http.Request) httplimit.Caller {
			token := claims(r.Context()) // of a token that was verified before
			return httplimit.Caller{Key: token.User, Parent: token.Team, Plan: token.Plan}
		},
		Known: func(string) bool { return true }, // only verified tokens name users
	}))
	server := limit(http.NotFoundHandler())
	for _, by := range []token{{User: "ana", Team: "team-a"}, {User: "ben", Team: "team-a"}, {User: "cat", Team: "invented"}} {
		w := httptest.NewRecorder()
		server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(context.WithValue(ctx, token{}, by)))
		fmt.Println(by.User, w.Code)
	}
	// Output:
	// ana 404
	// ben 429
	// cat 403
}
