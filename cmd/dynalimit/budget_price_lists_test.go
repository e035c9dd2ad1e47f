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
		{"prices", "import", lists + "first.json", "--dry-run"},
		{"prices", "import", lists + "first.json", "--dry-run", "--json"},
		{"prices", "import", lists + "first.json", "--accept", "acme-free"},
		{"prices", "import", lists + "first.json", "--dry-run"},
		{"prices", "list", "acme-1"},
		{"prices", "import", lists + "second.json", "--dry-run", "--json"},
		{"prices", "import", lists + "second.json", "--accept", "acme-1", "--json"},
		{"prices", "import", lists + "second.json", "--dry-run"},
		{"prices", "list", "acme-1"},
		{"prices", "import", lists + "twice.json", "--dry-run"},
		{"prices", "import", lists + "empty.json", "--dry-run"},
		{"prices", "import", lists + "missing.json", "--dry-run"},
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
	code, stdout, _ := s.run("prices", "import", server.URL+"/list", "--dry-run")
	assert.Equal(t, exitOK, code)
	assert.Contains(t, stdout, "Unchanged: 68. ")
	code, _, stderr := s.run("prices", "import", server.URL+"/other?signature=hidden", "--dry-run")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "404")
	assert.NotContains(t, stderr, "hidden")
}
