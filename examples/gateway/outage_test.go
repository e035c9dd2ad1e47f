package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/httplimit"
	"github.com/dynalimit/dynalimit/llm/llmtest"
)

// door is before the store: what goes in lands while it is shut, too, and no answer comes out.
type door struct {
	store   http.Handler
	address string

	mu     sync.Mutex
	server *httptest.Server
	shut   string
	opened chan struct{}
}

func newDoor(f *fleet) *door {
	d := &door{store: f.db, address: "127.0.0.1:0", opened: make(chan struct{})}
	d.serve(f.TB)
	f.Cleanup(func() { d.open(f.TB); d.server.Close() })
	return d
}

func (d *door) serve(t testing.TB) {
	t.Helper()
	listener, err := net.Listen("tcp", d.address)
	require.NoError(t, err)
	d.address = listener.Addr().String()
	d.server = httptest.NewUnstartedServer(d)
	_ = d.server.Listener.Close()
	d.server.Listener = listener
	d.server.Start()
}

// close shuts the door: it hangs, resets or refuses.
func (d *door) close(how string) {
	d.mu.Lock()
	d.shut = how
	d.mu.Unlock()
	if how == "refuses" {
		d.server.CloseClientConnections()
		d.server.Close()
	}
}

func (d *door) open(t testing.TB) {
	t.Helper()
	d.mu.Lock()
	was := d.shut
	d.shut = ""
	close(d.opened)
	d.opened = make(chan struct{})
	d.mu.Unlock()
	if was == "refuses" {
		d.serve(t)
	}
}

func (d *door) state() (shut string, opened <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shut, d.opened
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := httptest.NewRecorder()
	d.store.ServeHTTP(answer, r)
	shut, opened := d.state()
	switch shut {
	case "hangs":
		select {
		case <-opened:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	case "resets", "refuses":
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.(*net.TCPConn).SetLinger(0) //nolint:forcetypeassert // it is one
			_ = conn.Close()
		}
		return
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// metric is the sum of a metric of a gateway over what a pattern finds.
func (f *fleet) metric(url, pattern string) (n int64) {
	res, err := http.Get(url + "/metrics") //nolint:noctx // of a test
	require.NoError(f, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(f, err)
	for _, found := range regexp.MustCompile(`(?m)^`+pattern+`.* (\S+)$`).FindAllStringSubmatch(string(text), -1) {
		v, err := strconv.ParseFloat(found[1], 64)
		require.NoError(f, err)
		n += int64(v)
	}
	return n
}

// capacity is that of a bucket's limit, as calls have it in force.
func (f *fleet) capacity(entity, resource, limit string) (n int64) {
	for b, err := range admin.New(f.repo).Buckets.List(f.Context(), entity) {
		require.NoError(f, err)
		for _, l := range b.Limits {
			if b.Resource == resource && l.Limit.Name == limit {
				n = l.Limit.Capacity
			}
		}
	}
	return n
}

// calls makes n calls at once, and counts their statuses.
func (f *fleet) calls(url string, n int) map[int]int {
	var mu sync.Mutex
	var group sync.WaitGroup
	by := map[int]int{}
	for i := range n {
		group.Go(func() {
			status := f.status(url, "sk-a", []string{body, streamed}[i%2])
			mu.Lock()
			defer mu.Unlock()
			by[status]++
		})
	}
	group.Wait()
	return by
}

// TestTheStoreGoesDown shuts the store's door in each way while calls run, and changes a limit
// meanwhile. Without money that is enforced no call fails, and each is told to the table later. When
// the changed quota of the team's day is in force, no more than it are admitted in all.
func TestTheStoreGoesDown(t *testing.T) {
	const tokens = 15 // of a call
	limits := func(calls int) string {
		return fmt.Sprintf(`{version: 1, name: gateway, resources: {gpt-4.1-mini: {only: true, limits: {rpm: 6000}, groups: [all]},
  all: {only: true, limits: {tpm: 1M, usd: {capacity: "$5", unit: usd, window: day, zone: UTC, shadow: true}}}},
  entities: {acme: {}, team-a: {parent: acme, cascade: true, resources: {all: {only: true, limits: {tpm: {capacity: %d, window: day, zone: UTC}}}}},
    %s: {parent: team-a, cascade: true}}}`, calls*tokens, httplimit.HashKey("sk-a"))
	}
	for _, how := range []string{"hangs", "resets", "refuses"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			f.apply(limits(10_000))
			d := newDoor(f)
			url, _ := f.startAt("http://" + d.address)
			calls := func() int { return len(f.provider.Calls()) }
			time.AfterFunc(300*time.Millisecond, func() { d.close(how) })
			for shut := ""; shut == ""; shut, _ = d.state() {
				require.Equal(t, map[int]int{200: 5}, f.calls(url, 5))
			}
			require.Equal(t, map[int]int{200: 20}, f.calls(url, 20))
			quota := calls() + 400
			f.apply(limits(quota))
			require.Equal(t, map[int]int{200: 10}, f.calls(url, 10))

			d.open(t)
			told := func() {
				require.Eventually(t, func() bool {
					return f.metric(url, "dynalimit_table_open")+f.metric(url, "dynalimit_waiting_tokens") == 0
				}, patience, tick)
				require.EventuallyWithT(t, func(c *assert.CollectT) { // settlements ride for 20 ms
					all, doubt := f.taken("team-a", "all", "tpm"), f.metric(url, `dynalimit_doubt_tokens_total\{dynalimit_limit="tpm"`)
					t.Logf("%d calls, %d tokens told, %d in doubt", calls(), all, doubt)
					assert.InDelta(c, calls()*tokens, all, float64(doubt))
				}, patience, tick)
			}
			told()
			require.Eventually(t, func() bool {
				return f.status(url, "sk-a", body) == 200 && f.capacity("team-a", "all", "tpm") == int64(quota*tokens)
			}, patience, 2*tick)
			require.Eventually(t, func() bool { return f.calls(url, 5)[429] > 0 }, patience, tick)
			told()
			assert.LessOrEqual(t, calls(), quota)
			assert.Greater(t, calls(), quota-50)
		})
	}
}

// TestMoneyWithoutTheStore has calls end with 503, unless the operator allows them. What an outage
// admitted is taken from the day's money, and no more than the rest is admitted since.
func TestMoneyWithoutTheStore(t *testing.T) {
	const cost, money = 10, 5000
	limits := func(policy string) string {
		return fmt.Sprintf(`{version: 1, name: gateway, resources: {gpt-4.1-mini: {only: true, limits: {rpm: 6000}, groups: [all]}, all: {only: true, limits: {tpm: 1M}}},
  entities: {acme: {}, team-a: {parent: acme, cascade: true, resources: {all: {only: true, limits: {usd: {capacity: %d, unit: usd, window: day, zone: UTC}}}}},
    %s: {parent: team-a, cascade: true, resources: {gpt-4.1-mini: {only: true, limits: {rpm: 6000} %s}}}}}`, money, httplimit.HashKey("sk-a"), policy)
	}
	for _, how := range []string{"hangs", "resets", "refuses"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			d := newDoor(f)
			outage := func(policy string) (url string, open map[int]int) {
				f.apply(limits(policy))
				url, _ = f.startAt("http://" + d.address)
				require.Equal(t, 200, f.status(url, "sk-a", body))
				d.close(how)
				f.calls(url, 5) // some of them may be on their way
				open = f.calls(url, 10)
				d.open(t)
				return url, open
			}
			doubts := map[string]int64{} // of each process
			told := func(url string) {
				require.Eventually(t, func() bool {
					return f.metric(url, "dynalimit_table_open")+f.metric(url, "dynalimit_waiting_tokens") == 0
				}, patience, tick)
				all, doubt := f.taken("team-a", "all", "usd"), int64(0)
				doubts[url] = f.metric(url, `dynalimit_doubt_tokens_total\{dynalimit_limit="usd"`)
				for _, n := range doubts {
					doubt += n
				}
				t.Logf("%d calls, %d µ$ told, %d in doubt", len(f.provider.Calls()), all, doubt)
				assert.InDelta(t, cost*len(f.provider.Calls()), all, float64(doubt))
			}
			url, open := outage("")
			assert.Equal(t, map[int]int{503: 10}, open)
			told(url)
			url, open = outage(", on_unavailable: allow")
			assert.Equal(t, map[int]int{200: 10}, open)
			told(url)
			require.Eventually(t, func() bool { return f.calls(url, 5)[429] == 5 }, patience, tick)
			told(url)
			assert.LessOrEqual(t, cost*len(f.provider.Calls()), money)
		})
	}
}

// TestAGatewayIsStoppedWithoutTheStore: it ends, and says what the table was not told. What its
// streams held stays charged.
func TestAGatewayIsStoppedWithoutTheStore(t *testing.T) {
	f := newFleet(t)
	d := newDoor(f)
	d.server.Config.SetKeepAlivesEnabled(false) // on a connection that breaks a write may have landed
	url, process := f.startAt("http://" + d.address)
	hold := make(chan struct{})
	f.provider.Next(llmtest.Answer{Hold: hold})
	res, err := f.call(t.Context(), url, "sk-a", streamed)
	require.NoError(t, err)
	_, err = res.Body.Read(make([]byte, 1))
	require.NoError(t, err)
	held := f.taken("acme", "all", "usd")
	d.close("refuses")
	close(hold)
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.NoError(t, process.Process.Signal(syscall.SIGINT))
	require.Error(t, process.Wait())
	assert.Contains(t, process.Stderr.(*bytes.Buffer).String(), fmt.Sprintf("usd +%d of degraded calls could not be written to the counters of buckets", 3*(held-10))) //nolint:forcetypeassert // by start
	assert.Equal(t, held, f.taken("acme", "all", "usd"))
}
