package budgethttp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/budgetclient"
	"github.com/dynalimit/dynalimit/keeper/credentials"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/prices"
)

// network is what lies between a client and a server: it may do what networks do.
type network struct {
	http.RoundTripper
	mu    sync.Mutex
	sent  []string // method and path of each request
	fault func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error)
}

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	n.sent = append(n.sent, r.Method+" "+r.URL.Path)
	fault := n.fault
	n.mu.Unlock()
	send := func() (*http.Response, error) { return n.RoundTripper.RoundTrip(r) }
	if fault == nil {
		return send()
	}
	return fault(r, send)
}

// loseFirst loses the answer to the first of each request, after the server acted.
func (n *network) loseFirst() {
	var mu sync.Mutex
	seen := map[string]bool{}
	n.fault = func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		res, err := send()
		mu.Lock()
		defer mu.Unlock()
		if key := r.Method + r.URL.Path; err == nil && !seen[key] {
			seen[key] = true
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
			return nil, io.ErrUnexpectedEOF
		}
		return res, err
	}
}

// remote is a client of node a with the credentials of a path.
func (w *world) remote(path string, adapt ...func(*budgetclient.Options)) (*budgetclient.Client, *network) {
	w.t.Helper()
	login := w.login(path)
	n := &network{RoundTripper: w.a.client.Transport}
	o := &budgetclient.Options{
		BaseURL: w.a.url, ClientID: login["client_id"].(string), Secret: credentials.NewSecret(login["client_secret"].(string)),
		HTTPClient: &http.Client{Transport: n}, Now: w.clock.Now, Timeout: 20 * time.Second, Retries: 8,
	}
	for _, f := range adapt {
		f(o)
	}
	c, err := budgetclient.New(o)
	require.NoError(w.t, err)
	return c, n
}

func record(n int) prices.Usage {
	return prices.Usage{RequestID: uuid(n), Label: "premium", Model: premiumModel, Tokens: prices.Tokens{Input: 1500, Output: 800}}
}

// What a client answers is what the library answers.
func TestClientAnswersAsTheLibrary(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		c, n := w.remote(pathA)
		ctx := t.Context()
		got, err := c.Recommend(ctx, orgO, appA)
		require.NoError(t, err)
		want, err := w.a.keeper.Recommend(ctx, orgO, appA)
		require.NoError(t, err)
		assert.Equal(t, want.ResetAt.UTC(), got.ResetAt.UTC())
		want.ResetAt = got.ResetAt
		assert.Equal(t, want, got)

		for _, label := range []string{"premium", "standard"} {
			micros, err := c.Estimate(ctx, orgO, appA, label, 1501, 801)
			require.NoError(t, err)
			same, err := w.a.keeper.Estimate(ctx, orgO, appA, label, 1501, 801)
			require.NoError(t, err)
			assert.Equal(t, same, micros, label)
		}
		first, err := c.Submit(ctx, orgO, appA, record(1))
		require.NoError(t, err)
		assert.Equal(t, int64(16_500), first.CostMicros)
		n.loseFirst()
		again, err := c.Submit(ctx, orgO, appA, record(1))
		require.NoError(t, err)
		assert.True(t, again.Duplicate)
		assert.Equal(t, first.Day, again.Day)
		results, err := c.SubmitBatch(ctx, orgO, appA, []prices.Usage{record(2), record(2), {RequestID: "x"}, record(3)})
		require.NoError(t, err)
		var bad *fault.ValidationError
		require.ErrorAs(t, results[2].Err, &bad)
		assert.Equal(t, "request_id", bad.Field)
		assert.True(t, results[1].Duplicate)
		require.NoError(t, errors.Join(results[0].Err, results[1].Err, results[3].Err))

		w.clock.Advance(6 * time.Second)
		sums, err := c.Totals(ctx, orgO, appA, "")
		require.NoError(t, err)
		same, err := w.a.keeper.Totals(ctx, orgO, appA, "")
		require.NoError(t, err)
		assert.Equal(t, same.CostMicros, sums.CostMicros)
		assert.Equal(t, int64(3*16_500), sums.CostMicros)
		assert.Equal(t, same.Labels[0].Tokens, sums.Labels[0].Tokens)
		days := 0
		for day, err := range c.History(ctx, orgO, appA, "20990120", "20990123") {
			require.NoError(t, err)
			assert.Equal(t, day.Day == "20990123", day.CostMicros > 0)
			days++
		}
		assert.Equal(t, 4, days)
	})
}

// The errors are the library's.
func TestClientErrorsAreTheLibrarys(t *testing.T) {
	w := newWorld(t)
	c, _ := w.remote(pathA)
	ctx := t.Context()
	_, err := c.Submit(ctx, orgO, appA, record(1))
	require.NoError(t, err)
	other := record(1)
	other.Tokens.Output++
	_, err = c.Submit(ctx, orgO, appA, other)
	require.ErrorIs(t, err, budget.ErrConflict)
	other = record(2)
	other.Label, other.Model = "nobody", ""
	_, err = c.Submit(ctx, orgO, appA, other)
	var bad *fault.ValidationError
	require.ErrorAs(t, err, &bad)
	assert.Equal(t, fault.InvalidModelLabel, bad.Code)
	_, err = c.Recommend(ctx, orgO, appB)
	require.ErrorIs(t, err, budgetclient.ErrForbidden)

	for label, quota := range map[string]int64{"premium": 10_000_000, "standard": 5_000_000, "economy": 2_000_000} {
		w.spend(appA, label, quota)
	}
	w.clock.Advance(6 * time.Second)
	_, err = c.RecommendFresh(ctx, orgO, appA)
	require.ErrorIs(t, err, prices.ErrQuotaExceeded)
	_, want := w.a.keeper.Recommend(ctx, orgO, appA)
	require.ErrorIs(t, want, prices.ErrQuotaExceeded)
	wait, ok := dynalimit.RetryAfter(err)
	wantWait, _ := dynalimit.RetryAfter(want)
	assert.True(t, ok)
	assert.Equal(t, wantWait, wait)
	var got, wanted *prices.QuotaExceededError
	require.ErrorAs(t, err, &got)
	require.ErrorAs(t, want, &wanted)
	assert.Equal(t, wanted.RetryAt.UTC(), got.RetryAt.UTC())
	assert.Equal(t, want.Error(), err.Error())
}

// The guard of package llm works over a client as over a keeper.
func TestGuardOverAClient(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		c, n := w.remote(pathA)
		n.loseFirst()
		g, err := llm.New(&llm.Options{Keeper: c, Now: w.clock.Now})
		require.NoError(t, err)
		request := llm.Request{Org: orgO, App: appA, RequestID: uuid(1), Estimate: llm.Estimate{InputTokens: 1500, MaxOutputTokens: 1000}}
		err = g.Do(t.Context(), request, func(_ context.Context, call *llm.Call) (llm.Usage, error) {
			assert.Equal(t, []string{"premium", premiumModel}, []string{call.Label, call.Model})
			return llm.Usage{Tokens: prices.Tokens{Input: 1500, Output: 800}}, nil
		})
		require.NoError(t, err)
		require.NoError(t, g.Close(t.Context()))
		sums, err := w.b.keeper.Totals(t.Context(), orgO, appA, "")
		require.NoError(t, err)
		assert.Equal(t, int64(16_500), sums.CostMicros)

		request.RequestID = uuid(2)
		failed := errors.New("refused")
		require.ErrorIs(t, g.Do(t.Context(), request, func(context.Context, *llm.Call) (llm.Usage, error) { return llm.Usage{}, failed }), failed)
	})
}

// A token is renewed before it expires, and one that was revoked is replaced by one login.
func TestClientKeepsLoggedIn(t *testing.T) {
	w := newWorld(t)
	c, n := w.remote(pathA)
	count := func(path string) (times int) {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, s := range n.sent {
			if s == "POST /api/v1"+path {
				times++
			}
		}
		return times
	}
	ask := func() {
		t.Helper()
		_, err := c.RecommendFresh(t.Context(), orgO, appA)
		require.NoError(t, err)
	}
	assert.Empty(t, n.sent, "nothing is asked before the first call")
	together(8, 32, func(int) { ask() })
	assert.Equal(t, []int{1, 0}, []int{count("/auth/token"), count("/auth/refresh")})
	w.clock.Advance(59 * time.Minute)
	together(8, 32, func(int) { ask() })
	assert.Equal(t, []int{1, 1}, []int{count("/auth/token"), count("/auth/refresh")})
	w.clock.Advance(8 * 24 * time.Hour)
	ask()
	assert.Equal(t, []int{2, 1}, []int{count("/auth/token"), count("/auth/refresh")})

	var token string
	n.fault = func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		token = r.Header.Get("Authorization")
		return send()
	}
	ask()
	body, err := wireJSON(example{"token": token[len("Bearer "):]})
	require.NoError(t, err)
	w.a.as("").send(http.MethodPost, "/auth/revoke", bytes.Clone(body), "Authorization", token).is(http.StatusNoContent)
	ask()
	assert.Equal(t, []int{3, 1}, []int{count("/auth/token"), count("/auth/refresh")})
}
