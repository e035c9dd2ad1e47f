package keeper

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a service under test.
type running struct {
	*Service
	demo Demo
	http *http.Client
	db   *ddbmem.DB
	stop func() error
}

// start serves on free ports, with a demo, as by default but for what is configured; change
// is made before.
func start(t *testing.T, configure func(*Config), change func(*Service)) *running {
	t.Helper()
	return startLogging(t, nil, configure, change)
}

// startLogging serves with a log.
func startLogging(t *testing.T, log *Log, configure func(*Config), change func(*Service)) *running {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	if log != nil {
		logger = slog.New(slog.NewJSONHandler(log, nil))
	}
	db := ddbmem.New()
	t.Cleanup(db.Close)
	client := db.Client()
	repo, err := dynalimit.NewRepository(client, "limits", &dynalimit.RepositoryOptions{Principal: "keeper"})
	require.NoError(t, err)
	keys, err := credentials.NewKeySet(nil, time.Now().Add(-time.Hour))
	require.NoError(t, err)
	config := Default()
	if configure != nil {
		configure(&config)
	}
	config.Listen, config.Metrics = "127.0.0.1:0", "127.0.0.1:0"
	config.Aggregation.Off = true
	s, err := Open(t.Context(), config, Parts{Client: client, Repository: repo, Keys: keys, Principal: "keeper", Logger: logger, Log: log})
	require.NoError(t, err)
	if change != nil {
		change(s)
	}
	require.NoError(t, s.CreateTables(t.Context()))
	require.NoError(t, s.Look(t.Context()))
	demo, err := s.Demo(t.Context())
	require.NoError(t, err)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // its own certificate
	ctx, interrupt := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	stop := sync.OnceValue(func() error {
		interrupt()
		err := <-served
		transport.CloseIdleConnections()
		return err
	})
	t.Cleanup(func() { assert.NoError(t, stop()) })
	return &running{s, demo, &http.Client{Transport: transport}, db, stop}
}

// get is the status and the body at a URL.
func (r *running) get(t *testing.T, url string) (int, string) {
	t.Helper()
	answer, err := r.http.Get(url) //nolint:noctx // this machine
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(body)
}

func (r *running) post(url, token, body string) (int, string, error) {
	q, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body)) //nolint:noctx // this machine
	if err != nil {
		return 0, "", err
	}
	q.Header.Set("Content-Type", "application/json")
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := r.http.Do(q)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

func (r *running) login(t *testing.T) string {
	t.Helper()
	status, body, err := r.post(r.URL()+"/auth/token", "",
		fmt.Sprintf(`{"client_id":%q,"client_secret":%q}`, r.demo.Client.ClientID, r.demo.Client.Secret.Reveal()))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, body)
	_, rest, _ := strings.Cut(body, `"access_token":"`)
	token, _, _ := strings.Cut(rest, `"`)
	return token
}
