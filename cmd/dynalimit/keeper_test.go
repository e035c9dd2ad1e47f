package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// runningKeeper is a `dynalimit keeper serve` under test.
type runningKeeper struct {
	url, metrics string
	stdout       *bufio.Reader
	log          *told
	http         *http.Client
	stop         func() (code int, stdout string) // as SIGTERM does
}

// startKeeper starts one on free ports and returns when it has said where it listens.
func startKeeper(t *testing.T, args ...string) *runningKeeper {
	t.Helper()
	return startKeeperIn(t.Context(), t, args...)
}

func startKeeperIn(ctx context.Context, t *testing.T, args ...string) *runningKeeper {
	t.Helper()
	ctx, interrupt := context.WithCancel(ctx)
	read, write := io.Pipe()
	codes := make(chan int, 1)
	transport := &http.Transport{}
	k := &runningKeeper{log: &told{}, stdout: bufio.NewReader(read), http: &http.Client{Transport: transport}}
	go func() {
		line := append([]string{"keeper", "serve", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"}, args...)
		codes <- run(ctx, line, &term.Output{Writer: write}, k.log)
		write.Close()
	}()
	first, err := k.stdout.ReadString('\n')
	require.NoError(t, err, k.logged())
	second, err := k.stdout.ReadString('\n')
	require.NoError(t, err, k.logged())
	k.url = strings.TrimSuffix(regexp.MustCompile(`https?://\S+`).FindString(first), "/docs")
	k.metrics = strings.TrimSuffix(address.FindString(second), "/metrics")
	k.stop = sync.OnceValues(func() (int, string) {
		transport.CloseIdleConnections()
		interrupt()
		rest, _ := io.ReadAll(k.stdout)
		return <-codes, first + second + string(rest)
	})
	t.Cleanup(func() { k.stop() })
	return k
}

// logged is what was logged so far.
func (k *runningKeeper) logged() string { return k.log.said() }

// lines are the next n lines for a shell.
func (k *runningKeeper) lines(t *testing.T, n int) (lines []string) {
	t.Helper()
	for len(lines) < n {
		line, err := k.stdout.ReadString('\n')
		require.NoError(t, err, k.logged())
		if strings.HasPrefix(line, "curl ") || strings.HasPrefix(line, "TOKEN=") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

// ask sends a request and returns the status and the body.
func (k *runningKeeper) ask(t *testing.T, method, url, token string, body any) (int, map[string]any) {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(text))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := k.http.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	var out map[string]any
	_ = json.NewDecoder(answer.Body).Decode(&out) // some have none
	return answer.StatusCode, out
}

// login is an access token of a client.
func (k *runningKeeper) login(t *testing.T, c credentials.Credentials) string {
	t.Helper()
	status, body := k.ask(t, http.MethodPost, k.url+"/auth/token", "", map[string]string{"client_id": c.ClientID, "client_secret": c.Secret.Reveal()})
	require.Equal(t, http.StatusOK, status, body)
	return body["access_token"].(string)
}

// scrape is what a metric says; lines with labels add up.
func (k *runningKeeper) scrape(t *testing.T, name string) (sum float64) {
	t.Helper()
	answer, err := k.http.Get(k.metrics + "/metrics") //nolint:noctx // this machine
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	for _, line := range strings.Split(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, name); ok && (rest[0] == ' ' || rest[0] == '{') {
			var value float64
			_, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &value)
			require.NoError(t, err, line)
			sum += value
		}
	}
	return sum
}

// fleet is what several keepers share: tables, a file of keys, an app with credentials.
type fleet struct {
	db       *ddbmem.DB
	endpoint string
	keyset   string
	keeper   *budget.Keeper
	client   credentials.Credentials
}

const fleetOrg, fleetApp = "550e8400-e29b-41d4-a716-446655440000", "chat"

func newFleet(t *testing.T) *fleet {
	t.Helper()
	newShell(t) // empties the environment
	f := &fleet{db: ddbmem.New(), keyset: filepath.Join(t.TempDir(), "keys.json")}
	server := httptest.NewServer(f.db)
	t.Cleanup(func() { server.Close(); f.db.Close() })
	f.endpoint = server.URL
	repo, err := dynalimit.NewRepository(f.db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: "ann"})
	require.NoError(t, err)
	require.NoError(t, repo.CreateTable(t.Context()))
	keys, err := credentials.NewKeySet(nil, time.Now().Add(-time.Hour))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(f.keyset, []byte(keys.Document().Reveal()), 0o600))
	f.keeper, err = budget.New(f.db.Client(), budget.Tables{}, &budget.Options{Principal: "ann"})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, f.keeper.Close(context.WithoutCancel(t.Context()))) })
	require.NoError(t, f.keeper.Setup().CreateTables(t.Context()))
	_, err = f.keeper.Setup().PutOrg(t.Context(), budget.Org{
		ID: fleetOrg, Name: "acme", Timezone: "UTC", Ordering: []string{"premium"}, Quotas: map[string]int64{"premium": 1_000_000_000},
		Models: map[string]string{"premium": "anthropic.claude-3-5-sonnet-20241022-v2:0"},
	})
	require.NoError(t, err)
	_, err = f.keeper.Setup().PutApp(t.Context(), fleetOrg, budget.App{ID: fleetApp})
	require.NoError(t, err)
	store, err := credentials.New(f.db.Client(), "control", &credentials.Options{Keys: keys, Principal: "ann"})
	require.NoError(t, err)
	issued, err := store.Create(t.Context(), fleetOrg, fleetApp)
	require.NoError(t, err)
	f.client, err = store.Retrieve(t.Context(), fleetOrg, fleetApp, issued.Token)
	require.NoError(t, err)
	return f
}

// start starts one of the fleet.
func (f *fleet) start(t *testing.T, args ...string) *runningKeeper {
	t.Helper()
	return startKeeperIn(t.Context(), t, append([]string{"--endpoint", f.endpoint, "--as", "keeper", "--keyset", f.keyset}, args...)...)
}

func usageURL(k *runningKeeper) string {
	return k.url + "/api/v1/orgs/" + fleetOrg + "/apps/" + fleetApp + "/usage"
}

func aCall(n int64) map[string]any {
	return map[string]any{
		"request_id": fmt.Sprintf("00000000-0000-4000-8000-%012x", n), "model_label": "premium",
		"tokens": map[string]int{"input": 1500, "output": 800}, "status": "OK", "timestamp": time.Now().UTC().Format(time.RFC3339),
	}
}

// TestKeeperEndsUnderLoadAndLosesNothing: whatever was acknowledged is counted.
func TestKeeperEndsUnderLoadAndLosesNothing(t *testing.T) {
	f := newFleet(t)
	k := f.start(t)
	token := k.login(t, f.client)
	var sent, acknowledged atomic.Int64
	enough := make(chan struct{})
	var once sync.Once
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for {
				text, _ := json.Marshal(aCall(sent.Add(1)))
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, usageURL(k), bytes.NewReader(text))
				if !assert.NoError(t, err) {
					return
				}
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Authorization", "Bearer "+token)
				answer, err := k.http.Do(r)
				if err != nil {
					return // it has ended
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
				if answer.StatusCode == http.StatusAccepted && acknowledged.Add(1) == 50 {
					once.Do(func() { close(enough) })
				}
			}
		})
	}
	<-enough
	code, _ := k.stop()
	clients.Wait()
	assert.Equal(t, exitOK, code, k.logged())
	day, err := f.keeper.Totals(t.Context(), fleetOrg, fleetApp, "")
	require.NoError(t, err)
	var counted int64
	for _, label := range day.Labels {
		counted += label.Requests
	}
	assert.GreaterOrEqual(t, counted, acknowledged.Load(), "acknowledged, and not counted")
	assert.LessOrEqual(t, counted, sent.Load())
}

// TestKeeperLogsNoSecrets: the access log says who did what, and nothing by which somebody
// else could.
func TestKeeperLogsNoSecrets(t *testing.T) {
	f := newFleet(t)
	k := f.start(t)
	token := k.login(t, f.client)
	status, body := k.ask(t, http.MethodGet, strings.TrimSuffix(usageURL(k), "usage")+"model-selection?force_check=true", token, nil)
	require.Equal(t, http.StatusOK, status, body)
	status, _ = k.ask(t, http.MethodGet, k.url+"/api/v1/nowhere?secret=hunter2", "wrong-token", nil)
	require.Equal(t, http.StatusNotFound, status)
	k.stop()

	log := k.logged()
	for _, secret := range []string{f.client.Secret.Reveal(), token, "hunter2", "wrong-token", "force_check", "nowhere"} {
		assert.NotContains(t, log, secret)
	}
	var selected map[string]any
	for line := range strings.Lines(log) {
		var record map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &record), line)
		if record["route"] == "selectModel" {
			selected = record
		}
	}
	require.NotNil(t, selected, log)
	assert.Equal(t, f.client.ClientID, selected["client"])
	assert.EqualValues(t, http.StatusOK, selected["status"])
	for _, field := range []string{"time", "request_id", "took", "method"} {
		assert.NotEmpty(t, selected[field], field)
	}
}

// TestKeeperRefuses: what cannot be meant is told before anything is served.
func TestKeeperRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("unknown.yaml", []byte("listen: 127.0.0.1:0\naggregation:\n  evry: 1m\n"), 0o600))
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"--config", "unknown.yaml"}, []string{"unknown.yaml:3:3", "evry"}},
		{[]string{"--config", "missing.yaml"}, []string{"missing.yaml", "--config"}},
		{[]string{"--listen", ":8080"}, []string{"--tls-cert", "--behind-proxy"}},
		{[]string{"--tls-cert", "c.pem"}, []string{"--tls-key"}},
		{[]string{"--behind-proxy", "10.0.0.0/8", "--forwarded-header", "X-Real-IP"}, []string{"X-Forwarded-For"}},
		{[]string{"--shutdown-time", "1h"}, []string{"shutdown.time", "15m"}},
		{[]string{"--local", "--endpoint", "http://127.0.0.1:1"}, []string{"--local", "--endpoint"}},
		{[]string{"--local", "--keyset", "nowhere.json"}, []string{"nowhere.json"}},
		{[]string{"--endpoint", "http://127.0.0.1:1", "--keyset", "secretsmanager:"}, []string{"names no secret", "secretsmanager:keeper/keys"}},
		{[]string{"--endpoint", "http://127.0.0.1:1"}, []string{"--keyset", "DYNALIMIT_KEYSET"}},
	} {
		code, stdout, stderr := runPlain(t, append([]string{"keeper", "serve", "--as", "ann"}, test.args...)...)
		assert.Equal(t, exitUsage, code, "%q: %s", test.args, stderr)
		assert.Empty(t, stdout)
		for _, want := range test.want {
			assert.Contains(t, stderr, want, test.args)
		}
	}
}

// TestKeeperSaysWhichFileIsWrong: errors about files name the flag that names them, and keys
// that everybody may read are told of.
func TestKeeperSaysWhichFileIsWrong(t *testing.T) {
	f := newFleet(t)
	dir := t.TempDir()
	one, other := keyPair(t, dir, "one"), keyPair(t, dir, "other")
	args := []string{"keeper", "serve", "--endpoint", f.endpoint, "--as", "ann", "--keyset", f.keyset, "--listen", "127.0.0.1:0", "--metrics", "off"}
	for _, test := range []struct{ more, want []string }{
		{[]string{"--tls-cert", one + ".crt", "--tls-key", other + ".key"}, []string{"private key does not match", "--tls-cert and --tls-key"}},
		{[]string{"--tls-cert", dir + "/none", "--tls-key", other + ".key"}, []string{"correct --tls-cert"}},
		{[]string{"--spool", dir + "/none/x.spool"}, []string{dir + "/none/x.spool", "in a folder that exists (Options.Spool, --spool)"}},
	} {
		code, stdout, stderr := runPlain(t, append(slices.Clone(args), test.more...)...)
		assert.Equal(t, exitFailed, code, stderr)
		assert.Empty(t, stdout)
		for _, want := range test.want {
			assert.Contains(t, stderr, want)
		}
	}
	k := f.start(t)
	k.stop()
	assert.NotContains(t, k.logged(), "may read the keys")
	require.NoError(t, os.Chmod(f.keyset, 0o644)) //nolint:gosec // that is the fault
	k = f.start(t)
	k.stop()
	assert.Contains(t, k.logged(), "everybody on this machine may read the keys")
}

// keyPair writes a certificate of its own and its key, as name.crt and name.key.
func keyPair(t *testing.T, dir, name string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path+".crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600))
	require.NoError(t, os.WriteFile(path+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	return path
}

// TestKeeperSaysWhichTableIsMissing: it does not begin to serve without its tables.
func TestKeeperSaysWhichTableIsMissing(t *testing.T) {
	f := newFleet(t)
	args := []string{"keeper", "serve", "--endpoint", f.endpoint, "--as", "ann", "--keyset", f.keyset, "--listen", "127.0.0.1:0", "--metrics", "off"}
	for _, missing := range []string{"--control", "--usage", "--table"} {
		code, stdout, stderr := runPlain(t, append(args, missing, "elsewhere")...)
		assert.Equal(t, exitFailed, code, stderr)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, "elsewhere")
	}
}

// TestKeeperKeepsUsageWhileTheTableDoesNot: with a spool it acknowledges usage that DynamoDB
// does not take, and counts it once when it does; two processes cannot share one.
func TestKeeperKeepsUsageWhileTheTableDoesNot(t *testing.T) {
	f := newFleet(t)
	spool := filepath.Join(t.TempDir(), "keeper.spool")
	k := f.start(t, "--spool", spool)
	token := k.login(t, f.client)
	status, body := k.ask(t, http.MethodPost, usageURL(k), token, aCall(1))
	require.Equal(t, http.StatusAccepted, status, body)

	ctx, enough := context.WithTimeout(t.Context(), time.Minute) // one that serves is not refused
	defer enough()
	var stderr bytes.Buffer
	code := run(ctx, []string{
		"keeper", "serve", "--endpoint", f.endpoint, "--as", "ann", "--keyset", f.keyset,
		"--listen", "127.0.0.1:0", "--metrics", "off", "--spool", spool,
	}, &term.Output{Writer: io.Discard, Patience: time.Hour}, &stderr)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr.String(), "another keeper's spool")
	assert.Contains(t, stderr.String(), "--spool")

	f.db.SetFaults(loseUsage)
	status, body = k.ask(t, http.MethodPost, usageURL(k), token, aCall(2))
	require.Equal(t, http.StatusAccepted, status, body)
	assert.Equal(t, "spooled", body["status"])
	assert.InDelta(t, 1, k.scrape(t, "dynalimit_keeper_spooled_records"), 0)
	f.db.SetFaults(nil)
	require.Eventually(t, func() bool { return k.scrape(t, "dynalimit_keeper_spooled_records") == 0 }, time.Minute, 50*time.Millisecond, k.logged)
	code, _ = k.stop()
	assert.Equal(t, exitOK, code, k.logged())
	day, err := f.keeper.Totals(t.Context(), fleetOrg, fleetApp, "")
	require.NoError(t, err)
	require.Len(t, day.Labels, 1)
	assert.EqualValues(t, 2, day.Labels[0].Requests)
}

// loseUsage refuses what is written to the table of usage.
func loseUsage(r *ddbmem.Request) ddbmem.Fault {
	if r.Operation == "TransactWriteItems" || r.Operation == "UpdateItem" {
		return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "no"}}
	}
	return ddbmem.Fault{}
}

// TestKeeperTakesKeysFromSecretsManager: a secret stands in the place of a file, also for
// commands that make credentials.
func TestKeeperTakesKeysFromSecretsManager(t *testing.T) {
	f := newFleet(t)
	document, err := os.ReadFile(f.keyset)
	require.NoError(t, err)
	var asked atomic.Int64
	vault := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		var body map[string]string
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&body))
		assert.Equal(t, "secretsmanager.GetSecretValue", r.Header.Get("X-Amz-Target"))
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		if body["SecretId"] != "keeper/keys" {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"__type":"ResourceNotFoundException","Message":"no such secret"}`)
			return
		}
		answer, _ := json.Marshal(map[string]string{"SecretString": string(document)})
		_, _ = w.Write(answer)
	}))
	defer vault.Close()
	t.Setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", vault.URL)
	k := f.start(t, "--keyset", "secretsmanager:keeper/keys")
	k.login(t, f.client)
	assert.NotZero(t, asked.Load())
	code, stdout, stderr := runPlain(t, "budget", "keys", "create", "deploy", "--show", "--endpoint", f.endpoint, "--as", "ann", "--keyset", "secretsmanager:keeper/keys")
	assert.Equal(t, exitOK, code, stderr)
	assert.Regexp(t, aSecret, stdout)
	code, _, stderr = runPlain(t, "keeper", "serve", "--endpoint", f.endpoint, "--as", "ann", "--keyset", "secretsmanager:nowhere")
	assert.Equal(t, exitFailed, code)
	for _, want := range []string{"nowhere cannot be read", "ResourceNotFoundException", "secretsmanager:GetSecretValue"} {
		assert.Contains(t, stderr, want)
	}
	code, _, stderr = runPlain(t, "budget", "keyset", "rotate", "secretsmanager:keeper/keys")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, stderr, "is no file")
	for _, key := range strings.Split(string(document), `"key": "`)[1:] {
		secret, _, _ := strings.Cut(key, `"`)
		assert.NotContains(t, k.logged()+stdout+stderr, secret)
	}
}
