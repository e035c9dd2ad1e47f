package testworld

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Update is the flag -update: golden files are written, not compared.
var Update = flag.Bool("update", false, "rewrite the golden files")

// Recorder keeps the requests that pass through it. Use it as the HTTPClient of
// an SDK client: Record(engine.db).
type Recorder struct {
	next aws.HTTPClient

	mu       sync.Mutex
	requests []Recorded
}

// eventID finds the ids of events: 10 digits of time and 16 drawn at random.
var eventID = regexp.MustCompile(`\b(0[0-9A-HJKMNP-TV-Z]{9})[0-9A-HJKMNP-TV-Z]{16}\b`)

// note finds the notes of waiters: their lane is drawn at random.
var note = regexp.MustCompile(`"AQ[A-Za-z0-9+/]{32}=="`)

// Recorded is one request as DynamoDB sees it.
type Recorded struct {
	// Operation is its name, Request its body.
	Operation string
	Request   any
}

// NewRecorder returns a Recorder that passes requests to next.
func NewRecorder(next aws.HTTPClient) *Recorder { return &Recorder{next: next} }

// Through sets r as the HTTP client of an SDK client's options, so that the client's requests pass through the
// recorder.
func (r *Recorder) Through(o *dynamodb.Options) { o.HTTPClient = r }

// Do records the operation and the JSON body of a request, with random ids and waiters' notes replaced, and
// passes the request on unchanged. It fails for a body that is not JSON. It implements aws.HTTPClient.
func (r *Recorder) Do(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	decoder := json.NewDecoder(bytes.NewReader(note.ReplaceAll(eventID.ReplaceAll(body, []byte("${1}(random)")), []byte(`"(note)"`))))
	decoder.UseNumber()
	var decoded any
	if err := decoder.Decode(&decoded); err != nil {
		return nil, err
	}
	if m, ok := decoded.(map[string]any); ok && m["ClientRequestToken"] != nil {
		m["ClientRequestToken"] = "(random)"
	}
	_, operation, _ := strings.Cut(request.Header.Get("X-Amz-Target"), ".")
	r.mu.Lock()
	r.requests = append(r.requests, Recorded{operation, decoded})
	r.mu.Unlock()
	return r.next.Do(request)
}

// Take returns the requests recorded since the last Take, and forgets them.
func (r *Recorder) Take() []Recorded {
	r.mu.Lock()
	defer r.mu.Unlock()
	requests := r.requests
	r.requests = nil
	return requests
}

// KeepLast forgets all recorded requests but the last. At least one must be recorded.
func (r *Recorder) KeepLast() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = r.requests[len(r.requests)-1:]
}

// AssertGolden fails the test unless the requests equal testdata/golden/{name}.json: whole bodies, keys sorted.
// With the flag -update it writes that file first.
func AssertGolden(t testing.TB, name string, requests []Recorded) {
	t.Helper()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	require.NoError(t, encoder.Encode(requests))
	path := filepath.Join("testdata", "golden", name+".json")
	if *Update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, out.Bytes(), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run go test -update to write it")
	assert.Equal(t, string(want), out.String())
}
