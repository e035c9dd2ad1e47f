package llmhttp_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/dynalimittest"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp"
	"github.com/dynalimit/dynalimit/prices"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a provider, and a client whose calls to it are limited.
type world struct {
	*testing.T
	limiter   *dynalimittest.Limiter
	guard     *llm.Guard
	transport *llmhttp.Transport
	client    *http.Client
	url       string

	mu      sync.Mutex
	answer  http.HandlerFunc
	bodies  []string // that the provider was sent
	headers []http.Header
	settled []llm.Settled
}

var models = llmhttp.Models{"m": {}, "m-*": {Resource: "family"}, "us.m:0": {Resource: "m"}, "arn:aws:bedrock:m/us.m": {Resource: "m"}, "wire-big": {Priced: "big"}, "gemini-*": {Resource: "m", Priced: "m"}}

// newWorld has a provider that gives an answer; nil: none, as in bubbles, where no socket may be.
func newWorld(t *testing.T, o llmhttp.Options, answer http.HandlerFunc, limits ...dynalimit.Limit) *world {
	t.Helper()
	if limits == nil {
		limits = []dynalimit.Limit{dynalimit.PerMinute("rpm", 100), dynalimit.PerMinute("tpm", 1_000_000)}
	}
	w := &world{T: t, answer: answer, limiter: dynalimittest.New(t, limits...)}
	measures := llm.DefaultLimits()
	if limits[0].IsConcurrent() {
		measures = map[string]llm.Measure{limits[0].Name: llm.InFlight}
	}
	var err error
	w.guard, err = llm.New(&llm.Options{Limiter: w.limiter, Limits: measures, OnSettled: func(s llm.Settled) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.settled = append(w.settled, s)
	}})
	require.NoError(t, err)
	if o.Models == nil {
		o.Models = models
	}
	w.transport, err = llmhttp.NewTransport(&http.Transport{}, w.guard, &o)
	require.NoError(t, err)
	w.client, w.url = &http.Client{Transport: w.transport}, "http://provider"
	if answer != nil {
		server := httptest.NewServer(http.HandlerFunc(w.serve))
		w.url = server.URL
		t.Cleanup(server.Close)
		t.Cleanup(server.CloseClientConnections)
	}
	t.Cleanup(func() {
		require.NoError(t, w.transport.Close(context.Background()))
		w.client.CloseIdleConnections()
	})
	return w
}

func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.mu.Lock()
	w.bodies, w.headers = append(w.bodies, string(body)), append(w.headers, r.Header)
	answer := w.answer
	w.mu.Unlock()
	answer(rw, r)
}

// do makes a call of the entity "ana".
func (w *world) do(path, body string, header ...string) *http.Response {
	w.Helper()
	res, err := w.client.Do(w.request(w.Context(), path, body, header...))
	require.NoError(w, err)
	return res
}

func (w *world) request(ctx context.Context, path, body string, header ...string) *http.Request {
	w.Helper()
	ctx = llmhttp.WithCaller(ctx, llmhttp.Caller{Entity: "ana"})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+path, strings.NewReader(body))
	require.NoError(w, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// call makes a call and reads its answer.
func (w *world) call(path, body string, header ...string) (status int, answer string) {
	w.Helper()
	res := w.do(path, body, header...)
	defer res.Body.Close()
	read, err := io.ReadAll(res.Body)
	require.NoError(w, err)
	return res.StatusCode, string(read)
}

// ends waits for all settlements, and returns them.
func (w *world) ends() []llm.Settled {
	w.Helper()
	require.NoError(w, w.transport.Close(w.Context()))
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.settled
}

// end is the settlement of the one call.
func (w *world) end() llm.Settled {
	w.Helper()
	all := w.ends()
	require.Len(w, all, 1)
	return all[0]
}

// arrived is how many requests the provider has seen.
func (w *world) arrived() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.bodies)
}

// replies answers with a body.
func replies(kind, body string, header ...string) http.HandlerFunc {
	return fails(http.StatusOK, kind, body, header...)
}

func fails(status int, kind, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// breaks sends a body, and breaks the connection.
func breaks(kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, body)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

const (
	jsonType = "application/json"
	sseType  = "text/event-stream"
	awsType  = "application/vnd.amazon.eventstream"
)

// sse is a stream of events with only data.
func sse(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		b.WriteString("data: " + d + "\n\n")
	}
	return b.String()
}

// frame is a message of an event stream of AWS.
func frame(kind, name, payload string) string {
	var headers bytes.Buffer
	for _, h := range [][2]string{{":message-type", kind}, {":" + kind + "-type", name}, {":content-type", "application/json"}} {
		headers.WriteByte(byte(len(h[0])))
		headers.WriteString(h[0])
		headers.WriteByte(7)
		_ = binary.Write(&headers, binary.BigEndian, uint16(len(h[1])))
		headers.WriteString(h[1])
	}
	var m bytes.Buffer
	_ = binary.Write(&m, binary.BigEndian, uint32(headers.Len()+len(payload)+16))
	_ = binary.Write(&m, binary.BigEndian, uint32(headers.Len()))
	_ = binary.Write(&m, binary.BigEndian, crc32.ChecksumIEEE(m.Bytes()))
	m.Write(headers.Bytes())
	m.WriteString(payload)
	_ = binary.Write(&m, binary.BigEndian, crc32.ChecksumIEEE(m.Bytes()))
	return m.String()
}

type tokens = prices.Tokens
