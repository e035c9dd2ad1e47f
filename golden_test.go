package dynalimit

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

var update = flag.Bool("update", false, "write the golden files of testdata/golden")

// recorder keeps the requests that pass through it. Use it as the HTTPClient of
// an SDK client: record(engine.db).
type recorder struct {
	next aws.HTTPClient

	mu       sync.Mutex
	requests []recorded
}

// eventID finds the ids of events: 10 digits of time and 16 drawn at random.
var eventID = regexp.MustCompile(`\b(01[0-9A-HJKMNP-TV-Z]{8})[0-9A-HJKMNP-TV-Z]{16}\b`)

// recorded is one request as DynamoDB sees it.
type recorded struct {
	Operation string
	Request   any
}

func record(next aws.HTTPClient) *recorder { return &recorder{next: next} }

// through is an option for SDK clients whose requests are to be recorded.
func (r *recorder) through(o *dynamodb.Options) { o.HTTPClient = r }

// Do implements aws.HTTPClient.
func (r *recorder) Do(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	decoder := json.NewDecoder(bytes.NewReader(eventID.ReplaceAll(body, []byte("${1}(random)"))))
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
	r.requests = append(r.requests, recorded{operation, decoded})
	r.mu.Unlock()
	return r.next.Do(request)
}

// take returns the requests since the last take.
func (r *recorder) take() []recorded {
	r.mu.Lock()
	defer r.mu.Unlock()
	requests := r.requests
	r.requests = nil
	return requests
}

// assertGolden compares requests with testdata/golden/{name}.json: whole bodies,
// keys sorted. Run go test with -update to accept a change.
func assertGolden(t *testing.T, name string, requests []recorded) {
	t.Helper()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	require.NoError(t, encoder.Encode(requests))
	path := filepath.Join("testdata", "golden", name+".json")
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, out.Bytes(), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run go test -update to write it")
	assert.Equal(t, string(want), out.String())
}
