package budgethttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/budgetclient"
	"github.com/dynalimit/dynalimit/keeper/budgethttp"
	"github.com/dynalimit/dynalimit/keeper/credentials"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/prices"
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
	if err := keeper.Setup().CreateTables(ctx); err != nil {
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

// A service without access to DynamoDB guards its calls over HTTP.
func Example_client() {
	ctx := context.Background()
	url, id, secret, stop := serveKeeper(ctx) // a server with an organisation and an app, and the app's credentials
	defer stop()

	client := must(budgetclient.New(&budgetclient.Options{BaseURL: url, ClientID: id, Secret: credentials.NewSecret(secret)}))
	defer client.Close()
	guard := must(llm.New(&llm.Options{Keeper: client}))

	err := guard.Do(ctx, llm.Request{
		Org: "550e8400-e29b-41d4-a716-446655440000", App: "app-batch",
		Estimate: llm.Estimate{InputTokens: 1500, MaxOutputTokens: 1000},
	}, func(ctx context.Context, call *llm.Call) (llm.Usage, error) {
		fmt.Println("calling", call.Model) // with the provider's own client
		return llm.Usage{Tokens: prices.Tokens{Input: 1500, Output: 800}}, nil
	})
	must(0, errors.Join(err, guard.Close(ctx)))
	day := must(client.Totals(ctx, "550e8400-e29b-41d4-a716-446655440000", "app-batch", ""))
	fmt.Println(day.CostMicros, "µ$")
	// Output:
	// calling anthropic.claude-3-5-sonnet-20241022-v2:0
	// 16500 µ$
}

// serveKeeper is a keeper on a table in memory, with an organisation and an app.
func serveKeeper(ctx context.Context) (url, id, secret string, stop func()) {
	db := ddbmem.New()
	client := db.Client()
	keeper := must(budget.New(client, budget.Tables{}, &budget.Options{Principal: "keeper"}))
	repo := must(dynalimit.NewRepository(client, "limits", &dynalimit.RepositoryOptions{Principal: "keeper"}))
	limiter := must(dynalimit.New(repo, nil))
	keys := must(credentials.NewKeySet(nil, time.Now()))
	store := must(credentials.New(client, "control", &credentials.Options{Keys: keys, Principal: "keeper"}))
	must(0, errors.Join(keeper.Setup().CreateTables(ctx), repo.CreateTable(ctx)))
	const org, app = "550e8400-e29b-41d4-a716-446655440000", "app-batch"
	must(keeper.Setup().PutOrg(ctx, budget.Org{
		ID: org, Name: "sample", Timezone: "UTC", Ordering: []string{"premium"}, Quotas: map[string]int64{"premium": 10_000_000},
		Models: map[string]string{"premium": "anthropic.claude-3-5-sonnet-20241022-v2:0"},
	}))
	must(keeper.Setup().PutApp(ctx, org, budget.App{ID: app}))
	made := must(store.Create(ctx, org, app))
	fetched := must(store.Retrieve(ctx, org, app, made.Token))
	server := httptest.NewServer(must(budgethttp.New(keeper, store, &budgethttp.Options{Limiter: limiter})))
	return server.URL, fetched.ClientID, fetched.Secret.Reveal(), func() {
		server.Close()
		must(0, errors.Join(limiter.Close(ctx), keeper.Close(ctx)))
		db.Close()
	}
}
