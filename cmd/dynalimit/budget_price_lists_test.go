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
		{"prices", "diff", lists + "second.json", "--json"},
		{"prices", "import", lists + "second.json", "--accept", "acme-1", "--json"},
		{"prices", "diff", lists + "second.json"},
		{"prices", "list", "acme-1"},
		{"prices", "diff", lists + "twice.json"},
		{"prices", "diff", lists + "empty.json"},
		{"prices", "diff", lists + "missing.json"},
		{"prices", "import", lists + "first.json", "--accept", "no-such-model"},
		{"prices", "import", lists + "second.json", "--provider", "nobody"},
	})
}

// TestPriceListsComeFromURLs: and what the server says is told, without what may be secret.
func TestPriceListsComeFromURLs(t *testing.T) {
	list, err := os.ReadFile(filepath.Join("..", "..", "prices", "testdata", "litellm.json"))
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
