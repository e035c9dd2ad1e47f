package budgethttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/budget/budgethttp"
	"github.com/dynalimit/dynalimit/budget/credentials"
	"github.com/dynalimit/dynalimit/ddbmem"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A handler with all that it needs, mounted at a path of a server's own.
func Example() {
	ctx := context.Background()
	db := ddbmem.New() // dynamodb.NewFromConfig(cfg) for the real one
	defer db.Close()
	client := db.Client()

	keeper := must(budget.New(client, budget.Tables{}, &budget.Options{Principal: "keeper"}))
	defer keeper.Close(ctx)
	repo := must(dynalimit.NewRepository(client, "limits", &dynalimit.RepositoryOptions{Principal: "keeper"}))
	limiter := must(dynalimit.New(repo, nil)) // counts failed logins
	defer limiter.Close(ctx)
	keys := must(credentials.NewKeySet(nil, must(http.ParseTime("Fri, 23 Jan 2026 15:30:45 GMT")))) // WatchKeys reads them from a file
	store := must(credentials.New(client, "control", &credentials.Options{Keys: keys, Principal: "keeper"}))
	if err := keeper.CreateTables(ctx); err != nil {
		panic(err)
	}
	if err := repo.CreateTable(ctx); err != nil {
		panic(err)
	}
	key := must(store.CreateKey(ctx, "operations")) // shown once: what an administrator sends

	server := must(budgethttp.New(keeper, store, &budgethttp.Options{Limiter: limiter, Prefix: "/budget"}))
	mux := http.NewServeMux()
	mux.Handle("/budget/", server)

	r := httptest.NewRequest(http.MethodGet, "/budget/api/v1/prices", nil)
	r.Header.Set("X-API-Key", key.Secret.Reveal())
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, r)
	fmt.Println(answer.Code, answer.Header().Get("Content-Type"))
	// Output: 200 application/json
}
