package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/httplimit"
	"github.com/dynalimit/dynalimit/llm/llmtest"
)

const (
	patience = 30 * time.Second
	tick     = 50 * time.Millisecond
	body     = `{"model":"gpt-4.1-mini","max_tokens":20,"messages":[{"role":"user","content":"Hi"}]}`
	streamed = `{"model":"gpt-4.1-mini","max_tokens":20,"stream":true,"messages":[{"role":"user","content":"Hi"}]}`
)

// programs is the folder of the gateway and of the command.
var programs string

func TestMain(m *testing.M) {
	if provider := os.Getenv(bareProxy); provider != "" {
		serveBareProxy(provider)
	}
	programs = must(os.MkdirTemp("", "gateway"))
	must(exec.Command("go", "build", "-o", programs, ".", "../../cmd/dynalimit").Output()) //nolint:gosec,noctx // of this test
	code := m.Run()
	_ = os.RemoveAll(programs)
	os.Exit(code)
}

// fleet is a store, a provider, and processes of the gateway between them.
type fleet struct {
	testing.TB
	db       *ddbmem.DB
	store    string
	provider *llmtest.Provider
	repo     *dynalimit.Repository
}

func newFleet(t testing.TB) *fleet {
	t.Helper()
	f := &fleet{TB: t, db: ddbmem.New(), provider: llmtest.New(t)}
	server := httptest.NewServer(f.db)
	t.Cleanup(server.Close)
	f.store = server.URL
	var err error
	f.repo, err = dynalimit.NewRepository(f.db.Client(), "limits", nil)
	require.NoError(t, err)
	require.NoError(t, f.repo.CreateTable(t.Context()))
	limits, err := os.ReadFile("limits.yaml")
	require.NoError(t, err)
	f.apply(string(limits))
	return f
}

// apply makes the limits those of a manifest.
func (f *fleet) apply(limits string) {
	f.Helper()
	file := filepath.Join(f.TempDir(), "limits.yaml")
	require.NoError(f, os.WriteFile(file, []byte(limits), 0o600))
	out, err := exec.CommandContext(f.Context(), filepath.Join(programs, "dynalimit"), "manifest", "apply", file, "--yes", "--only", "--endpoint", f.store).CombinedOutput() //nolint:gosec // of this test
	require.NoError(f, err, string(out))
}

// start starts a process, and returns its URL.
func (f *fleet) start() (url string, process *exec.Cmd) {
	f.Helper()
	return f.startAt(f.store)
}

func (f *fleet) startAt(store string) (url string, process *exec.Cmd) {
	f.Helper()
	process = exec.CommandContext(f.Context(), filepath.Join(programs, "gateway"), "-listen", "127.0.0.1:0", "-endpoint", store, "-provider", f.provider.URL()) //nolint:gosec // of this test
	process.Env = append(os.Environ(), "CONSOLE_PASSWORD=open sesame")
	url, _, serves := strings.Cut(strings.TrimPrefix(f.startProgram(process), "The gateway serves "), ",")
	require.True(f, serves, url)
	return url, process
}

// startProgram starts a process, and returns the first line that it prints.
func (f *fleet) startProgram(process *exec.Cmd) string {
	f.Helper()
	process.Stderr = new(bytes.Buffer)
	out, err := process.StdoutPipe()
	require.NoError(f, err)
	require.NoError(f, process.Start())
	f.Cleanup(func() { _ = process.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(f, err, line)
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return strings.TrimSpace(line)
}

// call makes a call with a key.
func (f *fleet) call(ctx context.Context, url, key, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	require.NoError(f, err)
	r.Header.Set("Authorization", "Bearer "+key)
	return http.DefaultClient.Do(r)
}

// status is that of a call which is read to its end.
func (f *fleet) status(url, key, body string) int {
	res, err := f.call(f.Context(), url, key, body)
	if !assert.NoError(f, err) {
		return 0
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	assert.NoError(f, err)
	return res.StatusCode
}

// taken is what was taken from a bucket and not given back.
func (f *fleet) taken(entity, resource, limit string) (n int64) {
	for b, err := range admin.New(f.repo).Buckets.List(f.Context(), entity) {
		if assert.NoError(f, err) && b.Resource == resource {
			n = b.Consumed[limit]
		}
	}
	return n
}

// TestThreeProcesses has three gateways on one table: a day's money is never exceeded, what was
// settled is what the provider billed, and a manifest changes limits while calls run.
func TestThreeProcesses(t *testing.T) {
	f := newFleet(t)
	limits, err := os.ReadFile("limits.yaml")
	require.NoError(t, err)
	// A call holds at most about 600 µ$, and is charged 10 for the 12 and 3 tokens that the provider bills.
	poor := strings.Replace(string(limits), `usd: {capacity: "$60"`, `usd: {capacity: "$0.001500"`, 1)
	f.apply(poor)
	urls := make([]string, 3)
	for i := range urls {
		urls[i], _ = f.start()
	}
	all := func(key string) map[int]int {
		var mu sync.Mutex
		var group sync.WaitGroup
		by := map[int]int{}
		for i := range 90 {
			group.Go(func() {
				for range 4 {
					status := f.status(urls[i%3], key, []string{body, streamed}[i%2])
					mu.Lock()
					by[status]++
					mu.Unlock()
				}
			})
		}
		group.Wait()
		return by
	}
	by := all("sk-a")
	assert.Len(t, by, 2, "admitted or denied: %v", by)
	assert.Positive(t, by[200])
	calls := int64(len(f.provider.Calls()))
	assert.Equal(t, int64(by[200]), calls)
	require.Eventually(t, func() bool { return f.taken("acme", "all", "usd") == 10*calls }, patience, tick, "each call costs 10 µ$")
	assert.LessOrEqual(t, 10*calls, int64(1500))

	f.apply(string(limits)) // while the gateways run
	require.Eventually(t, func() bool { return f.status(urls[0], "sk-a", body) == 200 }, patience, tick)

	metrics, err := http.Get(urls[0] + "/metrics")
	require.NoError(t, err)
	defer metrics.Body.Close()
	text, err := io.ReadAll(metrics.Body)
	require.NoError(t, err)
	assert.Contains(t, string(text), `dynalimit_denials_total{dynalimit_from_memory="true",dynalimit_level="parent",dynalimit_limit="usd"`)

	assert.Equal(t, 401, f.status(urls[1], "sk-x", body))
	for path, status := range map[string]int{"/v1/models": 401, "/v1/models/gpt-4.1": 401, "/v1/files": 404, "/v1/responses/r": 404} {
		res, err := http.Get(urls[1] + path)
		require.NoError(t, err)
		answer, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		assert.Equal(t, status, res.StatusCode, path)
		assert.Contains(t, string(answer), `{"error":{`, path)
	}
	assert.Equal(t, 200, f.status(urls[0], "sk-a", strings.Replace(body, "-mini", "-mini-2025-04-14", 1)), "a dated name")
	assert.Equal(t, 403, f.status(urls[1], "sk-b", strings.Replace(body, "-mini", "", 1)))
	assert.Equal(t, 404, f.status(urls[2], "sk-a", strings.Replace(body, "gpt-4.1-mini", "invented", 1)))
}

// TestEndsOfStreams has a client who leaves, a gateway that is stopped, and one that is killed.
func TestEndsOfStreams(t *testing.T) {
	f := newFleet(t)
	hold := make(chan struct{})
	url, process := f.start()
	key := httplimit.HashKey("sk-a")
	open := func(ctx context.Context) *http.Response {
		f.provider.Next(llmtest.Answer{Hold: hold})
		res, err := f.call(ctx, url, "sk-a", strings.Replace(streamed, "{", `{"stream_options":{"include_usage":true},`, 1))
		require.NoError(t, err)
		for seen := ""; !strings.Contains(seen, `"usage":{`); { // a cut before may cost all that is held
			var piece [512]byte
			n, err := res.Body.Read(piece[:])
			require.NoError(t, err)
			seen += string(piece[:n])
		}
		return res
	}
	ctx, leave := context.WithCancel(t.Context())
	gone := open(ctx)
	held := f.taken(key, "all", "usd")
	leave()
	_ = gone.Body.Close()
	require.Eventually(t, func() bool { return f.taken(key, "all", "usd") < held }, time.Second, tick, "settled within a second")
	cut := f.taken(key, "all", "usd")

	last := open(t.Context())
	require.NoError(t, process.Process.Signal(syscall.SIGINT))
	close(hold)
	rest, err := io.ReadAll(last.Body)
	require.NoError(t, err)
	require.NoError(t, last.Body.Close())
	assert.Contains(t, string(rest), "[DONE]", "a gateway that is stopped ends its streams")
	require.NoError(t, process.Wait())
	assert.Equal(t, cut+10, f.taken(key, "all", "usd"))

	hold = make(chan struct{})
	defer close(hold)
	url, process = f.start()
	killed := open(t.Context())
	defer killed.Body.Close()
	require.NoError(t, process.Process.Kill())
	_ = process.Wait()
	assert.Equal(t, cut+10+held, f.taken(key, "all", "usd"), "what a killed gateway held stays charged")
}

// TestAccountsAreNotMixed: a client chooses no project of the gateway's account, and learns none; its own
// keys stay at the gateway.
func TestAccountsAreNotMixed(t *testing.T) {
	f := newFleet(t)
	url, _ := f.start()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	require.NoError(t, err)
	client := []string{"OpenAI-Project", "OpenAI-Organization", "X-Api-Key", "Api-Key", "Cookie", "Idempotency-Key", "X-Invented"}
	for _, name := range client {
		r.Header.Set(name, "of the client")
	}
	r.Header.Set("Authorization", "Bearer sk-a")
	r.Header.Set("X-Stainless-Lang", "go")
	f.provider.Next(llmtest.Answer{Header: http.Header{"Set-Cookie": {"a=b"}, "Openai-Organization": {"acme"}, "Openai-Project": {"p"}}})
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, 200, res.StatusCode)
	sent := f.provider.Calls()[0].Header
	for _, name := range client {
		assert.Empty(t, sent.Get(name), name)
	}
	assert.Equal(t, "go", sent.Get("X-Stainless-Lang"))
	assert.NotContains(t, sent.Get("Authorization"), "sk-a")
	for _, name := range []string{"Set-Cookie", "Openai-Organization", "Openai-Project"} {
		assert.Empty(t, res.Header.Get(name), name)
	}
}

// TestConsoleAsksForThePassword: with it a visitor sees the limits, and changes them in the name that he gives.
func TestConsoleAsksForThePassword(t *testing.T) {
	f := newFleet(t)
	url, _ := f.start()
	ask := func(password string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/console/entity/team-a", nil)
		require.NoError(t, err)
		r.SetBasicAuth("ann", password)
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, res.Header.Get("WWW-Authenticate") + string(text)
	}
	for password, want := range map[string]int{"": 401, "wrong": 401, "open sesame": 200} {
		status, text := ask(password)
		assert.Equal(t, want, status, password)
		assert.Contains(t, text, `Basic realm="console"`)
		assert.Equal(t, want == 200, strings.Contains(text, "/console/entity/team-a/change/block"), password)
	}
}

// TestPeopleComeBeforeBatches: calls with X-Batch leave a fifth of a limit to the others.
func TestPeopleComeBeforeBatches(t *testing.T) {
	f := newFleet(t)
	limits, err := os.ReadFile("limits.yaml")
	require.NoError(t, err)
	f.apply(strings.Replace(string(limits), "gpt-4.1-mini: {limits: {rpm: 600}", "gpt-4.1-mini: {limits: {rpm: 5}", 1))
	url, _ := f.start()
	ask := func(batch string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer sk-a")
		r.Header.Set("X-Batch", batch)
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	for range 4 {
		assert.Equal(t, 200, ask("nightly"))
	}
	assert.Equal(t, 429, ask("nightly"))
	assert.Equal(t, 200, ask(""))
}

// TestSlotEndsWithTheStream: a call holds its slot until its stream ends, or its client goes.
func TestSlotEndsWithTheStream(t *testing.T) {
	f := newFleet(t)
	limits, err := os.ReadFile("limits.yaml")
	require.NoError(t, err)
	f.apply(strings.Replace(string(limits), "gpt-4.1-mini: {limits: {rpm: 600}", "gpt-4.1-mini: {limits: {inflight: {concurrent: 1}}", 1))
	url, _ := f.start()
	for name, end := range map[string]func(hold chan struct{}, leave func()){
		"stream": func(hold chan struct{}, _ func()) { close(hold) },
		"client": func(_ chan struct{}, leave func()) { leave() },
	} {
		hold := make(chan struct{})
		f.provider.Next(llmtest.Answer{Hold: hold})
		ctx, leave := context.WithCancel(t.Context())
		res, err := f.call(ctx, url, "sk-a", streamed)
		require.NoError(t, err)
		assert.Equal(t, 429, f.status(url, "sk-a", body), name)
		end(hold, leave)
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		leave()
		require.Eventually(t, func() bool { return f.status(url, "sk-a", body) == 200 }, patience, tick, name)
	}
}
