// Command clients serves a gateway with llmhttp before a scripted provider, for scripts/clients.sh. It prints
// its URL, and ends with its standard input.
//
//	POST /_next   the provider's answers to the next calls: llmtest.Answers
//	GET  /_check  the result of the calls since the last check: report
//
// The header X-Who names the entity of a call: "rich", or "broke", which may spend nothing.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp"
	"github.com/dynalimit/dynalimit/llm/llmtest"
	"github.com/dynalimit/dynalimit/prices"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// rates are the rates of every model here. All differ, so that a token of the wrong class shows.
var rates = prices.Rates{Input: 3_000_000, CacheRead: 300_000, CacheWrite5m: 3_750_000, CacheWrite1h: 6_000_000, Output: 15_000_000}

// models are the models that the clients call, by their dialect.
var models = []string{"gpt", "claude", "gemini", "anthropic.bedrock"}

const resource = "chat"

// main serves until standard input ends. It exits with 1 after an error.
func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		os.Exit(1)
	}
}

// serve runs a gateway between the tested client and a fake provider, and prints its URL. It
// returns when standard input ends.
func serve() error {
	limiter, err := newLimiter(context.Background())
	if err != nil {
		return err
	}
	g := &gateway{provider: new(llmtest.Provider)}
	list := prices.List{Calls: map[string]prices.CallPrice{}}
	known := llmhttp.Models{}
	for _, m := range models {
		list.Calls[m] = prices.CallPrice{Rates: rates}
		known[m] = llmhttp.Model{Resource: resource, MaxOutput: 4_096}
	}
	guard, err := llm.New(&llm.Options{
		Limiter: limiter, Limits: map[string]llm.Measure{"rpm": llm.Requests, "tpm": llm.TotalTokens, "usd": llm.Cost(list)},
		OnSettled: g.recordSettlement,
	})
	if err != nil {
		return err
	}
	transport, err := llmhttp.NewTransport(nil, guard, &llmhttp.Options{Models: known, Headers: true, Identify: func(r *http.Request) (llmhttp.Caller, error) {
		return llmhttp.Caller{Entity: r.Header.Get("X-Who")}, nil
	}})
	if err != nil {
		return err
	}
	provider, err := url.Parse(httptest.NewServer(g.provider).URL)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /_next", g.next)
	mux.HandleFunc("GET /_check", g.check)
	mux.Handle("/", &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(provider) }})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", listener.Addr())
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // AWS's SDK for JavaScript calls Bedrock by HTTP/2
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute, Protocols: protocols}
	go func() { _ = server.Serve(listener) }()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// newLimiter returns a limiter on an engine in memory. The entity rich has ample limits, and broke
// has a money quota of one micro-dollar.
func newLimiter(ctx context.Context) (*dynalimit.RateLimiter, error) {
	store := httptest.NewServer(ddbmem.New()).URL
	client := dynamodb.New(dynamodb.Options{BaseEndpoint: &store, Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("local", "local", "")})
	repo, err := dynalimit.NewRepository(client, "limits", &dynalimit.RepositoryOptions{Principal: "clients"})
	if err != nil {
		return nil, err
	}
	if err := repo.CreateTable(ctx); err != nil {
		return nil, err
	}
	for entity, micros := range map[string]int64{"rich": 1_000_000_000, "broke": 1} {
		money := dynalimit.DailyMoneyQuota("usd", micros, "UTC")
		money.PerModel = true
		limits := []dynalimit.Limit{money, dynalimit.PerMinute("tpm", 10_000_000), dynalimit.PerMinute("rpm", 10_000)}
		if err := admin.New(repo).Limits.Set(ctx, admin.Scope{Entity: entity, Resource: resource}, limits); err != nil {
			return nil, err
		}
	}
	return dynalimit.New(repo, nil)
}

// gateway records the provider's bills and the settlements.
type gateway struct {
	provider *llmtest.Provider

	mu      sync.Mutex
	checked int // calls counted in earlier checks
	settled []llm.Settled
}

// recordSettlement records a settlement, unless the call was given back.
func (g *gateway) recordSettlement(s llm.Settled) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.Source != "" { // otherwise it was given back
		g.settled = append(g.settled, s)
	}
}

// next gives the provider the answers to the next calls, from the JSON array in the body of a request. It
// answers 400 to a malformed one.
func (g *gateway) next(w http.ResponseWriter, r *http.Request) {
	var answers []llmtest.Answer
	if err := json.NewDecoder(r.Body).Decode(&answers); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	g.provider.Next(answers...)
}

// report is the result of some calls.
type report struct {
	Calls int `json:"calls"` // requests to the provider
	// Wrong describes the differences between the settlements and the bills; empty if they agree.
	Wrong string `json:"wrong"`
}

// check compares the calls since the last check with their settlements and answers with the report.
// It waits for late settlements for up to 5 s. Then it starts the next period.
func (g *gateway) check(w http.ResponseWriter, r *http.Request) {
	var out report
	for deadline := time.Now().Add(5 * time.Second); ; {
		out = g.compare()
		if out.Wrong == "" || time.Now().After(deadline) {
			break
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-r.Context().Done():
		}
	}
	g.mu.Lock()
	g.checked, g.settled = len(g.provider.Calls()), nil
	g.mu.Unlock()
	_ = json.NewEncoder(w).Encode(out)
}

// compare returns a report about the calls and settlements since the last check. Wrong is set
// unless their total tokens and costs are equal.
func (g *gateway) compare() report {
	g.mu.Lock()
	defer g.mu.Unlock()
	calls := g.provider.Calls()[g.checked:]
	var billed, settled prices.Tokens
	var billedMicros, settledMicros int64
	for _, c := range calls {
		billed = plus(billed, prices.Tokens{
			Input: c.Billed.Input, CacheRead: c.Billed.CacheRead, CacheWrite5m: c.Billed.CacheWrite, CacheWrite1h: c.Billed.CacheWrite1h, Output: c.Billed.Output,
		})
		billedMicros += cost(c.Billed)
	}
	for _, s := range g.settled {
		settled = plus(settled, s.Tokens)
		settledMicros += s.CostMicros
	}
	out := report{Calls: len(calls)}
	if billed != settled || billedMicros != settledMicros {
		out.Wrong = fmt.Sprintf("billed %+v for %d µ$, settled %+v for %d µ$", billed, billedMicros, settled, settledMicros)
	}
	return out
}

// cost returns the cost of a usage in micro-dollars, rounded up once.
func cost(u llmtest.Usage) int64 {
	sum := u.Input*rates.Input + u.CacheRead*rates.CacheRead + u.CacheWrite*rates.CacheWrite5m + u.CacheWrite1h*rates.CacheWrite1h + u.Output*rates.Output
	return (sum + 999_999) / 1_000_000
}

// plus returns the sum of two counts by class of token.
func plus(t, u prices.Tokens) prices.Tokens {
	return prices.Tokens{
		Input: t.Input + u.Input, CacheRead: t.CacheRead + u.CacheRead, CacheWrite5m: t.CacheWrite5m + u.CacheWrite5m,
		CacheWrite1h: t.CacheWrite1h + u.CacheWrite1h, Output: t.Output + u.Output,
	}
}
