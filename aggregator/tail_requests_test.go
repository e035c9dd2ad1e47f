package aggregator_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

var update = flag.Bool("update", false, "write the golden files")

// chance is what differs from one run to another, and what it is written as.
var chance = []struct {
	pattern *regexp.Regexp
	as      string
}{
	{regexp.MustCompile(`"[A-Z2-7]{26}"`), `"TOKEN"`},
	{regexp.MustCompile(`"ClientRequestToken": "[^"]*"`), `"ClientRequestToken": "REQUEST"`},
	{regexp.MustCompile(`[0-9-]+T[0-9:.]+`), "STREAM"},
	{regexp.MustCompile(`shardId-[0-9a-z-]+`), "shardId-1"},
	{regexp.MustCompile(`"N": "9[0-9]{8}"`), `"N": "SECONDS"`},
	{regexp.MustCompile(`"N": "9[0-9]{11}"`), `"N": "MILLISECONDS"`},
	{regexp.MustCompile(`"S": "0[0-9]{39}"`), `"S": "NUMBER OF 40 DIGITS"`},
	{regexp.MustCompile(`"S": "[0-9]+"`), `"S": "NUMBER"`},
}

// TestTailRequests: the whole requests by which a Tail remembers how far shards were read and
// who reads them, each form of them once.
func TestTailRequests(t *testing.T) {
	var mu sync.Mutex
	var shapes []string
	inHarbor(t, func(t *testing.T, h *harbor) {
		h.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if !bytes.Contains(r.Body, []byte("TAIL#")) {
				return ddbmem.Fault{}
			}
			shape := shapeOf(t, r)
			mu.Lock()
			defer mu.Unlock()
			if !slices.Contains(shapes, shape) {
				shapes = append(shapes, shape)
			}
			return ddbmem.Fault{}
		})
		h.spend(1)
		x := h.tail(aggregator.TailOptions{FoldEvery: -1})
		after(5 * time.Second)
		require.NoError(t, h.db.SplitStream("limits", 1))
		after(time.Minute)
		x.end(t)
		assert.EqualValues(t, 1, h.total())
	})
	slices.Sort(shapes) // those of the lease and of shards are made beside each other
	assertShapes(t, "tail_requests.txt", shapes)
}

// shapeOf returns the text of a request, without what differs from one run to another.
func shapeOf(t require.TestingT, r *ddbmem.Request) string {
	var body any
	require.NoError(t, json.Unmarshal(r.Body, &body))
	sorted, err := json.MarshalIndent(body, "", "  ")
	require.NoError(t, err)
	shape := strings.ReplaceAll(string(sorted), `\u003c`, "<")
	for _, c := range chance {
		shape = c.pattern.ReplaceAllString(shape, c.as)
	}
	return r.Operation + "\n" + shape + "\n"
}

// assertShapes compares the texts of requests with a golden file.
func assertShapes(t *testing.T, file string, shapes []string) {
	t.Helper()
	path, got := filepath.Join("testdata", file), strings.Join(shapes, "\n")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))         //nolint:gosec // a folder of files that are shown
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644)) //nolint:gosec // a file that is shown
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}
