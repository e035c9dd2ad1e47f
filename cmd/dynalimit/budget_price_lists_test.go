package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBudgetPriceListsTranscript compares and imports lists in files.
func TestBudgetPriceListsTranscript(t *testing.T) {
	s := newShell(t, "budget")
	s.acme()
	const lists = "testdata/prices/"
	s.golden("budget_price_lists.txt", [][]string{
		{"prices", "diff", lists + "first.json"},
		{"prices", "import", lists + "first.json", "--dry-run"},
		{"prices", "import", lists + "first.json", "--dry-run", "--json"},
		{"prices", "import", lists + "first.json", "--accept", "acme-free"},
		{"prices", "diff", lists + "first.json"},
		{"prices", "list", "acme-1"},
		{"prices", "diff", lists + "second.json", "--list", "genai-prices", "--json"},
		{"prices", "import", lists + "second.json", "--list", "genai-prices", "--accept", "acme-1,acme-2", "--json"},
		{"prices", "diff", lists + "second.json", "--list", "genai-prices"},
		{"prices", "diff", lists + "second.json", "--list", "genai-prices", "--accept", "acme-free"},
		{"prices", "list", "acme-1"},
		{"prices", "diff", lists + "twice.json"},
		{"prices", "diff", lists + "empty.json"},
		{"prices", "diff", lists + "missing.json"},
		{"prices", "diff", lists + "first.json", "--format", "toml"},
		{"prices", "import", lists + "second.json", "--format", "genai-prices"},
		{"prices", "import", lists + "first.json", "--accept", "no-such-model"},
		{"prices", "import", lists + "first.json", "--provider", "nobody"},
	})
}

// TestPriceListsComeFromURLs: and what the server says is told, without what may be secret.
func TestPriceListsComeFromURLs(t *testing.T) {
	list, err := os.ReadFile(filepath.Join("..", "..", "budget", "testdata", "prices", "litellm.json"))
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/list" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write(list)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	s := newShell(t, "budget")
	s.acme()
	code, stdout, _ := s.run("prices", "diff", server.URL+"/list")
	assert.Equal(t, exitOK, code)
	assert.Contains(t, stdout, "Unchanged: 68. ")
	code, _, stderr := s.run("prices", "diff", server.URL+"/other?signature=hidden")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "404")
	assert.NotContains(t, stderr, "hidden")
}

// TestPriceListsComeFromBuckets with signed requests, of the bucket's region.
func TestPriceListsComeFromBuckets(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path, r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	s := newShell(t, "budget")
	s.acme()
	t.Setenv("AWS_ENDPOINT_URL_S3", server.URL)
	code, _, stderr := s.run("prices", "diff", "s3://acme-prices/of/data.json", "--bucket-region", "eu-central-1")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "403")
	require.Len(t, asked, 2)
	assert.Equal(t, "/acme-prices/of/data.json", asked[0])
	assert.Contains(t, asked[1], "/20260123/eu-central-1/s3/aws4_request")
	code, _, stderr = s.run("prices", "diff", "s3://acme-prices")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, stderr, "key")
}
