package main

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/hashicorp/golang-lru/v2/expirable"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"golang.org/x/sync/singleflight"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/console"
	"github.com/dynalimit/dynalimit/httplimit"
	"github.com/dynalimit/dynalimit/leanddb"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp"
	"github.com/dynalimit/dynalimit/otel"
	"github.com/dynalimit/dynalimit/prices"
)

// models are the gateway's models, with the longest replies of requests without a bound.
var models = llmhttp.Models{
	"gpt-4.1": {MaxOutput: 32_768}, "gpt-4.1-2025-04-14": {Resource: "gpt-4.1", MaxOutput: 32_768},
	"gpt-4.1-mini": {MaxOutput: 32_768}, "gpt-4.1-mini-2025-04-14": {Resource: "gpt-4.1-mini", MaxOutput: 32_768},
}

// forwarded are the client's headers that go to the provider, beside those of its SDK: neither another
// key of the client's nor a project of its choice.
var forwarded = []string{"Accept", "Accept-Encoding", "Content-Encoding", "Content-Type", "User-Agent", "Openai-Beta"}

// gateway relays calls to a provider, by a secret that clients do not know.
type gateway struct {
	http.ServeMux
	repo      *dynalimit.Repository
	limiter   *dynalimit.RateLimiter
	transport *llmhttp.Transport
	callers   *expirable.LRU[string, llmhttp.Caller] // by key, for a minute
	reads     singleflight.Group
}

// newGateway returns the gateway in front of provider, with limits from client's table; secret is the
// provider's key. It relays POST below /v1/ and the reads of models, serves /metrics, and answers 404 to all
// else. It exits the process after an error.
func newGateway(client *dynamodb.Client, provider *url.URL, secret string) *gateway {
	meters := metric.NewMeterProvider(metric.WithReader(must(prometheus.New())), metric.WithExemplarFilter(exemplar.AlwaysOffFilter)) // without traces
	g := &gateway{callers: expirable.NewLRU[string, llmhttp.Caller](10_000, nil, time.Minute)}
	g.repo = must(dynalimit.NewRepository(leanddb.New(client), "limits", &dynalimit.RepositoryOptions{ConfigTTL: 5 * time.Second}))
	g.limiter = must(dynalimit.New(g.repo, &dynalimit.Options{OnUnavailable: dynalimit.Allow, Observer: must(otel.New(meters, nil, nil))}))
	must(otel.Watch(meters, g.limiter, g.repo))
	guard := must(llm.New(&llm.Options{Limiter: g.limiter, Limits: map[string]llm.Measure{"rpm": llm.Requests, "inflight": llm.InFlight, "tpm": llm.TotalTokens, "usd": llm.Cost(prices.CatalogList())}}))
	base := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is one
	base.ReadBufferSize, base.WriteBufferSize, base.MaxIdleConnsPerHost = 1<<10, 1<<10, 256
	g.transport = must(llmhttp.NewTransport(base, guard, &llmhttp.Options{Models: models, Headers: true, Logger: slog.Default()}))
	proxy := &httputil.ReverseProxy{Transport: g.transport, BufferPool: pieces{}, ModifyResponse: hideAccount, Rewrite: func(r *httputil.ProxyRequest) {
		ctx := llmhttp.WithCaller(r.Out.Context(), g.callerOf(r.In))
		if r.In.Header.Get("X-Batch") != "" { // people come first
			ctx = llmhttp.WithBatch(ctx)
		}
		r.Out = r.Out.WithContext(ctx)
		r.SetURL(provider)
		maps.DeleteFunc(r.Out.Header, func(name string, _ []string) bool {
			return !slices.Contains(forwarded, name) && !strings.HasPrefix(name, "X-Stainless-")
		})
		r.Out.Header.Set("Authorization", "Bearer "+secret)
	}}
	g.Handle("POST /v1/", proxy)
	g.Handle("GET /v1/models", proxy)
	g.Handle("GET /v1/models/{model}", proxy)
	g.HandleFunc("/", notServed) // the provider's other items belong to no single caller
	g.Handle("/metrics", promhttp.Handler())
	return g
}

// serveConsole serves limits and spend in a browser to visitors with the password, each under a name of his choice for
// the audit trail. A gateway with another name in the address bar than loopback sets Options.Hosts.
func (g *gateway) serveConsole(client *dynamodb.Client, password string) {
	usage := must(aggregator.NewReader(client, "limits", nil))
	pages := must(console.New(g.repo, usage, &console.Options{Prefix: "/console/", Prices: prices.CatalogList(), Authorize: func(r *http.Request) (console.Access, error) {
		name, given, _ := r.BasicAuth()
		if subtle.ConstantTimeCompare([]byte(given), []byte(password)) == 0 {
			return console.Access{}, console.ErrLogin
		}
		return console.Access{Principal: name, Change: name != ""}, nil
	}}))
	g.HandleFunc("/console/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="console"`)
		pages.ServeHTTP(w, r)
	})
}

// hideAccount removes headers that identify the gateway's account with the provider, and cookies, from a
// response. It returns nil.
func hideAccount(res *http.Response) error {
	for _, name := range []string{"Set-Cookie", "Openai-Organization", "Openai-Project"} {
		res.Header.Del(name)
	}
	return nil
}

// notServed answers 404 for paths outside the gateway, in the format of OpenAI's errors.
func notServed(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{
		"message": r.Method + " of this path is not served here", "type": "invalid_request_error", "param": nil, "code": "unknown_url",
	}})
}

// pieces make the buffers that streams are copied with: the proxy's own have 32 KiB each.
type pieces struct{}

// Get returns a new buffer of 2 KiB.
func (pieces) Get() []byte { return make([]byte, 2<<10) }

// Put drops a buffer.
func (pieces) Put([]byte) {}

// callerOf returns the entity of a request's API key, with its permitted models, from a cache of a minute or
// from the table. It returns an empty Caller for an unknown key, for one without a parent, and after a failed
// read; none of these is cached.
func (g *gateway) callerOf(r *http.Request) (c llmhttp.Caller) {
	key := httplimit.APIKey("Authorization")(r)
	if known, ok := g.callers.Get(key); ok || key == "" {
		return known
	}
	found, err, _ := g.reads.Do(key, func() (any, error) { return admin.New(g.repo).Entities.Get(context.WithoutCancel(r.Context()), key) })
	entity, _ := found.(admin.Entity)
	if err != nil || entity.ParentID == "" || len(entity.Metadata) > 0 && json.Unmarshal(entity.Metadata, &c) != nil {
		return llmhttp.Caller{} // {"models": […]} bounds the models of the key
	}
	c.Entity = key
	g.callers.Add(key, c)
	return c
}

// Close settles open calls and closes the limiter, after the last request was served.
func (g *gateway) Close(ctx context.Context) error {
	return errors.Join(g.transport.Close(ctx), g.limiter.Close(ctx))
}
