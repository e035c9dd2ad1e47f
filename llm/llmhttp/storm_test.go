package llmhttp_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/dynalimittest"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp"
	"github.com/dynalimit/dynalimit/llm/llmtest"
	"github.com/dynalimit/dynalimit/prices"
)

// storm is a history of calls, and what goes wrong meanwhile.
type storm struct {
	calls       []stormCall
	gusts       []gust
	changes     []change
	closes      []time.Duration // of the transport
	options     dynalimit.Options
	money, pool bool
	wait        time.Duration
	rpm         int64 // and 100 times the tokens
}

// stormCall is a call: when it is made, how long after that it is left, and how its answer is read.
type stormCall struct {
	at, leaves time.Duration
	path, body string
	signed     bool
	answer     llmtest.Answer
	reader     string
	slice      int // that is read at once
}

type (
	// gust is a while in which the store fails in a way, change one of the limits of all but that on money.
	gust struct {
		at, lasts time.Duration
		kind      int
	}
	change struct {
		at     time.Duration
		limits []dynalimit.Limit
	}
)

func drawStorm(t *rapid.T) storm {
	s := storm{money: rapid.Bool().Draw(t, "money"), pool: rapid.Bool().Draw(t, "pool"), wait: drawn(t, "wait", 0, 3*time.Second), rpm: drawn[int64](t, "rpm", 5, 30), options: dynalimit.Options{
		OnUnavailable: drawn(t, "policy", dynalimit.Refuse, dynalimit.Allow, dynalimit.Local),
		ChargeMode:    drawn(t, "cascade", dynalimit.ChargeParallel, dynalimit.ChargeTransaction),
		Prefetch:      drawn(t, "prefetch", 0, time.Second),
	}}
	for range rapid.IntRange(1, 14).Draw(t, "calls") {
		s.calls = append(s.calls, drawCall(t))
	}
	for range rapid.IntRange(0, 3).Draw(t, "gusts") {
		s.gusts = append(s.gusts, gust{ms(t, 90_000), ms(t, 15_000), rapid.IntRange(0, 5).Draw(t, "kind")})
	}
	for range rapid.IntRange(0, 2).Draw(t, "changes") {
		s.changes = append(s.changes, change{ms(t, 90_000), drawn(t, "limits",
			[]dynalimit.Limit{dynalimit.PerMinute("rpm", 5)}, []dynalimit.Limit{dynalimit.PerMinute("tpm", 500)},
			[]dynalimit.Limit{dynalimit.PerMinute("rpm", 1_000), dynalimit.PerMinute("tpm", 500)})})
	}
	for range rapid.IntRange(0, 2).Draw(t, "closes") {
		s.closes = append(s.closes, ms(t, 90_000))
	}
	return s
}

func drawn[T any](t *rapid.T, name string, from ...T) T { return rapid.SampledFrom(from).Draw(t, name) }

// rarely is usual, or once in a while something else.
func rarely[T any](t *rapid.T, usual T, others ...T) T {
	if rapid.IntRange(0, 6).Draw(t, "rarely") < 6 {
		return usual
	}
	return drawn(t, "else", others...)
}

func ms(t *rapid.T, most int) time.Duration {
	return time.Duration(rapid.IntRange(0, most).Draw(t, "ms")) * time.Millisecond
}

func drawCall(t *rapid.T) stormCall {
	route := drawn(t, "route",
		[]string{chatPath, `{"model":"m","max_tokens":50,"stream":true}`}, []string{chatPath, chatBody},
		[]string{claudePath, claudeBody}, []string{claudePath, `{"model":"m","max_tokens":50}`},
		[]string{"/v1/responses", `{"model":"m","max_output_tokens":50,"stream":true}`},
		[]string{"/model/m/converse-stream", `{"inferenceConfig":{"maxTokens":50}}`},
		[]string{"/v1beta/models/m:streamGenerateContent?alt=sse", `{"generationConfig":{"maxOutputTokens":50}}`},
		[]string{"/v1beta/models/m:streamGenerateContent", `{"generationConfig":{"maxOutputTokens":50}}`},
	)
	return stormCall{
		at: ms(t, 90_000), leaves: drawn(t, "leaves", time.Hour, time.Hour, ms(t, 3_000), ms(t, 30_000)), path: route[0], body: route[1], signed: rapid.Bool().Draw(t, "signed"),
		reader: drawn(t, "reader", "all", "all", "all", "nothing", "some", "closed", "read on", "open", "by two"), slice: drawn(t, "slice", 1, 7, 64, 4096),
		answer: llmtest.Answer{
			Text: drawn(t, "text", "word", strings.Repeat("word ", 20)), Input: rapid.Int64Range(1, 400).Draw(t, "input"),
			Output: rapid.Int64Range(1, 200).Draw(t, "output"), CacheRead: drawn[int64](t, "cached", 0, 50), Gzip: true,
			Delay: ms(t, 500), Between: ms(t, 2_000), CutAfter: rarely(t, 0, -1, 1, 3),
			Status: rarely(t, 0, 302, 400, 429, 500, 529), RetryAfter: ms(t, 3_000),
			Error: rarely(t, "", "overloaded_error"), ErrorAfter: drawn(t, "after", 0, 2, 5),
			WrongCRC: rarely(t, false, true), NoUsage: rarely(t, false, true),
			Body: rarely(t, "", "{", `{"usage":{"prompt_tokens":1e30,"input_tokens":-1}}`),
		},
	}
}

// blow is what goes wrong in a gust: with each request, or with every other.
func (s storm) blow(began time.Time) ddbmem.FaultFunc {
	var requests atomic.Int64
	return func(*ddbmem.Request) ddbmem.Fault {
		now, n := time.Since(began), requests.Add(1)
		for _, g := range s.gusts {
			if left := g.at + g.lasts - now; now >= g.at && left > 0 {
				return []ddbmem.Fault{
					{Lose: n%2 == 0},
					{Drop: n%2 == 0},
					{Error: &ddbmem.Error{Code: "ThrottlingException"}},
					{Before: left + time.Duration(n%2)*time.Hour},
					{Error: &ddbmem.Error{Code: "InternalServerError"}},
					{After: time.Duration(n*377%1500) * time.Millisecond},
				}[g.kind]
			}
		}
		return ddbmem.Fault{}
	}
}

// sky is a storm that rages.
type sky struct {
	storm
	limiter   *dynalimittest.Limiter
	transport *llmhttp.Transport
	providers []*llmtest.Provider // of each call
	sent      []int               // how often each was
	whole     []bool              // whose answer was read to its end, by who had not left

	mu      sync.Mutex
	settled map[string][]llm.Settled
}

// play plays a storm in a bubble, and lets it calm.
func (s storm) play(t *testing.T) *sky {
	k := &sky{
		storm: s, limiter: dynalimittest.NewWithOptions(t, s.options), settled: map[string][]llm.Settled{},
		sent: make([]int, len(s.calls)), whole: make([]bool, len(s.calls)),
	}
	limits, measures := []dynalimit.Limit{dynalimit.PerMinute("rpm", s.rpm), dynalimit.PerMinute("tpm", 100*s.rpm)}, llm.DefaultLimits()
	if s.money {
		usd := dynalimit.DailyMoneyQuota("usd", 1_000*s.rpm, "UTC")
		usd.PerModel = true
		limits = append(limits, usd)
		measures["usd"] = llm.Cost(prices.List{Calls: map[string]prices.CallPrice{"m": {Rates: prices.Rates{Input: 1_000_000, Output: 5_000_000}}}})
	}
	a := admin.New(k.limiter.Repo)
	require.NoError(t, a.Limits.Set(t.Context(), admin.Scope{Everyone: true}, limits))
	require.NoError(t, a.Entities.Create(t.Context(), admin.Entity{ID: "ana", ParentID: "team", Cascade: true}))
	guard, err := llm.New(&llm.Options{Limiter: k.limiter, Limits: measures, OnSettled: k.hear})
	require.NoError(t, err)
	o := &llmhttp.Options{Models: llmhttp.Models{"m": {MaxOutput: 50}}, Wait: s.wait, Headers: true}
	if s.pool {
		o.Pool = func(*http.Request) llmhttp.Pool { return llmhttp.Pool{Entity: "team", Resource: "m"} }
	}
	k.transport, err = llmhttp.NewTransport(k, guard, o)
	require.NoError(t, err)
	k.limiter.DB.SetFaults(s.blow(time.Now()))
	ctx, end := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i, c := range s.calls {
		k.providers = append(k.providers, llmtest.New(t))
		k.providers[i].Next(c.answer)
	}
	at := func(when time.Duration, do func()) { group.Go(func() { elapse(when); do() }) }
	for i, c := range s.calls {
		at(c.at, func() { k.call(ctx, i) })
	}
	for _, c := range s.changes {
		at(c.at, func() { _ = a.Limits.Set(ctx, admin.Scope{Everyone: true}, slices.Concat(c.limits, limits[2:])) })
	}
	for _, when := range s.closes {
		at(when, func() {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			_ = k.transport.Close(ctx)
		})
	}
	group.Wait()
	end() // of those that nobody closed
	require.NoError(t, k.transport.Close(t.Context()))
	k.limiter.DB.SetFaults(nil)
	elapse(2 * time.Hour)
	return k
}

// hear notes how a call ended.
func (k *sky) hear(s llm.Settled) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.settled[s.Request.Tags["call"]] = append(k.settled[s.Request.Tags["call"]], s)
}

// RoundTrip is that of each call's own provider.
func (k *sky) RoundTrip(r *http.Request) (*http.Response, error) {
	i, _ := strconv.Atoi(r.Header.Get("X-Call"))
	k.sent[i]++
	return k.providers[i].Transport().RoundTrip(r)
}

// call makes a call and reads its answer.
func (k *sky) call(ctx context.Context, i int) {
	c, name := k.calls[i], strconv.Itoa(i)
	ctx, leave := context.WithCancel(llmhttp.WithCaller(ctx, llmhttp.Caller{Entity: "ana", Tags: map[string]string{"call": name}}))
	time.AfterFunc(c.leaves, leave)
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://provider"+c.path, strings.NewReader(c.body))
	r.Header.Set("X-Call", name)
	r.Header.Set("Authorization", "Bearer "+strconv.Itoa(i%3))
	if c.signed {
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=x")
		r.Header.Set("Accept-Encoding", "gzip")
	}
	res, err := k.transport.RoundTrip(r) //nolint:bodyclose // some callers do not
	if err != nil {
		return
	}
	if c.reader == "by two" && (k.sent[i] == 0 || c.path == chatPath) { // a denial, and a stream of which something is left out
		c.reader = "all"
	}
	k.whole[i] = c.read(res.Body) && ctx.Err() == nil
}

// read reads an answer, and reports whether all of it was.
func (c stormCall) read(body io.ReadCloser) (whole bool) {
	var reading sync.WaitGroup
	read := func(most int) bool {
		b := make([]byte, c.slice)
		for range most {
			if _, err := body.Read(b); err != nil {
				return err == io.EOF // as readers have it
			}
		}
		return false
	}
	const all = 1 << 30
	switch c.reader {
	case "all", "read on":
		whole = read(all)
	case "some":
		read(3)
	case "closed":
		reading.Go(func() { read(all) })
		elapse(700 * time.Millisecond)
	case "open":
		read(2)
		return false
	case "by two": // which the bodies of package net/http bear
		reading.Go(func() { read(all) })
		read(all)
	}
	_ = body.Close()
	if c.reader == "read on" {
		read(2)
	}
	reading.Wait()
	return whole
}

// TestStorms: whatever goes wrong, each call that was sent is settled once, nothing comes back that
// was billed, and the table counts what was settled.
func TestStorms(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawStorm(rt)
		var wrong []string
		synctest.Test(t, func(t *testing.T) { wrong = s.play(t).findViolations() })
		if len(wrong) > 0 {
			rt.Fatal(strings.Join(wrong, "\n"))
		}
	})
}
